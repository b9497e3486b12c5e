"""`slipstream metrics`: what a policy accepts and counts beside `reward`, and how that makes one reward."""

import json
from typing import Annotated

import typer

from ledger.vocabulary import DEFAULT_PROJECT, Combination, Direction
from slipstream.commands.look import JsonOption, ledger_connection, show_table

metrics = typer.Typer(no_args_is_help=True, help="What counts in a policy's rewards: see, declare, drop.")
PolicyArgument = Annotated[str, typer.Argument(help="POLICY, or PROJECT/POLICY.", metavar="POLICY")]
NameArgument = Annotated[str, typer.Argument(help="The metric, as rewards say it.")]


@metrics.command("list")
def list_(as_json: JsonOption = False) -> None:
    """Every metric that counts, by policy."""
    from ledger.rewards.metrics import list_metrics

    with ledger_connection() as connection:
        found = list_metrics(connection)
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = [
        [
            f"{one['project']}/{one['policy']}", one["metric"], f"{one['smallest']:g} to {one['largest']:g}",
            one["direction"], f"{one['weight']:g}", one["combination"], "" if one["is_declared"] else "built in",
        ]
        for one in found
    ]  # fmt: skip
    show_table(["policy", "metric", "range", "better", "weight", "combined by", ""], table)


@metrics.command()
def declare(  # noqa: PLR0917 - an option each
    policy: PolicyArgument,
    name: NameArgument,
    smallest: Annotated[float, typer.Option(help="Smallest value accepted.")] = 0.0,
    largest: Annotated[float, typer.Option(help="Largest value accepted.")] = 1.0,
    better: Annotated[Direction, typer.Option(help="Which values are good.")] = Direction.HIGHER,
    weight: Annotated[float, typer.Option(help="Its weight in the reward; 0: it does not count.")] = 1.0,
) -> None:
    """Let a metric count, or say anew how; what was posted before counts so, too."""
    from ledger.rewards.metrics import Metric, declare_metric

    with ledger_connection() as connection:
        project, policy = _names(policy)
        declare_metric(connection, project, policy, Metric(name, smallest, largest, better, weight))
        connection.commit()
    typer.echo(
        f"{project}/{policy}: {name} counts from {smallest:g} to {largest:g}, {better} is better, weight {weight:g}."
    )


@metrics.command()
def drop(policy: PolicyArgument, name: NameArgument) -> None:
    """Let a declared metric count no more (`reward` and `comparison` then count as they do undeclared)."""
    from ledger.rewards.metrics import drop_metric

    with ledger_connection() as connection:
        project, policy = _names(policy)
        drop_metric(connection, project, policy, name)
        connection.commit()
    typer.echo(f"{project}/{policy}: {name} is not declared any more; its judgements are kept.")


@metrics.command()
def combine(
    policy: PolicyArgument,
    how: Annotated[Combination, typer.Argument(help="mean (weighted), sum, min or last.")],
) -> None:
    """Say how the judgements that count make one reward."""
    from ledger.rewards.metrics import set_combination

    with ledger_connection() as connection:
        project, policy = _names(policy)
        set_combination(connection, project, policy, how)
        connection.commit()
    typer.echo(f"{project}/{policy}: a reward is the {how} of what counts.")


def _names(policy: str) -> tuple[str, str]:
    """Names of projects hold no slash."""
    project, slash, name = policy.partition("/")
    return (project, name) if slash else (DEFAULT_PROJECT, policy)
