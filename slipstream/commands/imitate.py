"""`slipstream sft` and `slipstream dpo`: steps that learn from answers, or from comparisons, instead of from rewards."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ledger.vocabulary import DEFAULT_PROJECT, StepKind
from slipstream.commands.asking import ask_for_step, only_learner
from slipstream.commands.look import JsonOption, ledger_engine, show_table
from slipstream.commands.train import planning_settings
from slipstream.errors import SlipstreamError

WAIT_SECONDS = 86_400.0

PolicyOption = Annotated[
    str | None, typer.Option("--policy", help="Which policy, if the project has several.")
]
ProjectOption = Annotated[str, typer.Option("--project", help="Whose policy.")]
SinceOption = Annotated[
    str | None, typer.Option("--since", help="Only what came since then, such as 2026-11-01.")
]
EpochsOption = Annotated[int | None, typer.Option("--epochs", help="How often each is learned from.")]
WaitOption = Annotated[
    bool, typer.Option("--wait", help="Until the step has ended; exit 1 if it made no version.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Learn nothing: count what would be used and left out.")
]


def sft(
    *,
    source: Annotated[
        str, typer.Option("--from", help="demonstrations, teacher (answers of external models) or best.")
    ],
    min_reward: Annotated[
        float | None, typer.Option("--min-reward", help="best: trajectories with at least this reward.")
    ] = None,
    top: Annotated[
        float | None, typer.Option("--top", help="best: this share of those with a reward (0.2).")
    ] = None,
    since: SinceOption = None,
    epochs: EpochsOption = None,
    policy: PolicyOption = None,
    project: ProjectOption = DEFAULT_PROJECT,
    dry_run: DryRunOption = False,
    wait: WaitOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make the next version by imitating answers: a warm-up before there are rewards."""
    wish = {"from": source, "min_reward": min_reward, "top": top, "since": since, "epochs": epochs}
    _step(StepKind.SFT, wish, policy, project, dry_run=dry_run, wait=wait, as_json=as_json)


def dpo(
    *,
    beta: Annotated[
        float | None, typer.Option("--beta", help="How close to the base it stays (SLIPSTREAM_DPO_BETA).")
    ] = None,
    since: SinceOption = None,
    epochs: EpochsOption = None,
    policy: PolicyOption = None,
    project: ProjectOption = DEFAULT_PROJECT,
    dry_run: DryRunOption = False,
    wait: WaitOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make the next version by learning from comparisons which of two answers is better."""
    wish = {"beta": beta, "since": since, "epochs": epochs}
    _step(StepKind.DPO, wish, policy, project, dry_run=dry_run, wait=wait, as_json=as_json)


def _step(
    kind: StepKind,
    wish: Mapping[str, Any],
    policy: str | None,
    project: str,
    *,
    dry_run: bool,
    wait: bool,
    as_json: bool,
) -> None:
    from ledger.step_arguments import check_arguments

    arguments = {name: value for name, value in wish.items() if value is not None}
    check_arguments(kind, arguments)
    if dry_run:
        _show(_planned(kind, arguments, policy, project), as_json=as_json)
        return
    seconds = WAIT_SECONDS if wait else None
    ask_for_step(kind, arguments, policy=policy, project=project, wait_seconds=seconds, as_json=as_json)


def _planned(
    kind: StepKind, arguments: Mapping[str, Any], policy: str | None, project: str
) -> dict[str, Any]:
    """What the step would be built from, by its own functions: without a worker, model or GPU."""
    settings = planning_settings()
    from ledger.policies import read_policies
    from trainer.errors import TrainerError
    from trainer.plan import reading
    from trainer.rehearsal import rehearse

    with ledger_engine() as engine, reading(engine) as connection:
        learner = only_learner(connection, project, policy)
        meant = next(known for known in read_policies(connection) if known.id == learner.id)
        try:
            return rehearse(connection, meant, kind, arguments, settings)
        except TrainerError as error:
            raise SlipstreamError(str(error)) from error


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found))
        return
    metrics = found["metrics"]
    rows = [[name, str(value)] for name, value in metrics.items() if not isinstance(value, dict)]
    rows += [[f"left out: {name}", str(number)] for name, number in metrics["left_out"].items()]
    show_table(["", ""], rows)
    if found["reason"]:
        typer.echo(found["reason"])
