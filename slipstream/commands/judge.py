"""`slipstream judge`: open groups with members that nobody scored, given to a judge model or to the operator's scorer."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from sqlalchemy import Engine

from slipstream.commands.look import JsonOption, ledger_engine, show_table
from slipstream.errors import SlipstreamError, UsageError
from slipstream.running import find_running

if TYPE_CHECKING:
    from uuid import UUID

    from trainer.judge.run import Judge, Outcome
    from trainer.judge.settings import JudgeSettings


def judge(
    groups: Annotated[list[str] | None, typer.Argument(help="Ids of groups, or the keys that callers gave them. None: all open ones.")] = None,
    *,
    policy: Annotated[str | None, typer.Option(help="Only groups of this policy: NAME or PROJECT@NAME.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many groups, the oldest first.")] = 100,
    votes: Annotated[int | None, typer.Option(help="Instead of SLIPSTREAM_JUDGE_VOTES.")] = None,
    rubric: Annotated[Path | None, typer.Option(help="Instead of SLIPSTREAM_JUDGE_RUBRIC.")] = None,
    rescore: Annotated[bool, typer.Option("--rescore", help="Also score members that a person scored; those scores do not count.")] = False,
    scorer: Annotated[str | None, typer.Option(metavar="URL", help="Ask your own scorer instead of a model.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be asked and may cost; ask nothing.")] = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Score the members of open groups against each other with a judge model (docs/judging.md)."""
    from trainer.errors import TrainerError
    from trainer.judge.settings import JudgeSettings

    said: dict[str, Any] = {"votes": votes, "rubric": rubric, "scorer_url": scorer}
    given = {name: value for name, value in said.items() if value is not None}
    settings = JudgeSettings(database_url=find_running().require("DATABASE_URL"), **given)
    with ledger_engine() as engine:
        chosen = _chosen(engine, groups, policy, limit, min_members=1 if scorer else 2)
        try:
            if scorer:
                found = [_scored(engine, settings, group_id, is_dry=dry_run) for group_id in chosen]
            else:
                found = list(_judged(engine, settings, chosen, rescores=rescore, is_dry=dry_run))
        except TrainerError as error:
            raise SlipstreamError(str(error)) from error
    _report(found, as_json=as_json)
    if any(one["state"] in {"failed", "refused"} for one in found):
        raise typer.Exit(1)


def _chosen(
    engine: Engine, names: list[str] | None, policy: str | None, limit: int, *, min_members: int
) -> Mapping["UUID", int | None]:
    """As judge_group takes them. Raises UsageError for a name that no group has."""
    from trainer.judge.group import find_candidates, find_named

    with engine.connect() as connection:
        if not names:
            return find_candidates(connection, limit=limit, policy=policy, min_members=min_members)
        found = {name: find_named(connection, name) for name in names}
    for name, group_id in found.items():
        if group_id is None:
            raise UsageError(
                f"No group has the id or the key {name!r}: `slipstream psql -c 'TABLE v1.groups'` lists them."
            )
    return dict.fromkeys([group_id for group_id in found.values() if group_id][:limit])


def _judged(
    engine: Engine,
    settings: "JudgeSettings",
    groups: Mapping["UUID", int | None],
    *,
    rescores: bool,
    is_dry: bool,
) -> Iterator[dict[str, Any]]:
    from trainer.judge.model import JudgeModel
    from trainer.judge.process import LitellmProcess
    from trainer.judge.round import judge_round
    from trainer.judge.rubric import read_rubric
    from trainer.judge.run import Judge

    with LitellmProcess() as process:
        judge = Judge(settings, JudgeModel(settings, process), read_rubric(settings.rubric), rescores)
        if is_dry:
            yield from (_planned(engine, judge, group_id) for group_id in groups)
        else:
            yield from map(_told, judge_round(engine, judge, groups))


def _planned(engine: Engine, judge: "Judge", group_id: "UUID") -> dict[str, Any]:
    """What a run would ask, and what that costs by LiteLLM's prices if each vote needs one call, and at most."""
    from trainer.judge.group import read_group
    from trainer.judge.run import expected_prompt_tokens, reserve, why_not

    with engine.connect() as connection:
        group = read_group(connection, group_id)
    attempts = group.attempts(rescores=judge.rescores) if group else []
    reason = why_not(group, attempts) if group else "there is no such group"
    if reason:
        return {"group": str(group_id), "state": "nothing", "reason": reason}
    num_prompt, votes = expected_prompt_tokens(judge, attempts), judge.settings.votes
    reserved = reserve(judge, attempts)
    return {
        "group": str(group_id),
        "state": "planned",
        "members": len(attempts),
        "to_score": sum(attempt.known is None for attempt in attempts),
        "characters": judge.prompt(attempts, "size").num_characters,
        "prompt_tokens": num_prompt * votes,
        "cost": judge.model.price(num_prompt * votes, 150 * len(attempts) * votes),
        "most_tokens": reserved.num_tokens,
        "most_cost": reserved.cost,
    }


def _scored(engine: Engine, settings: "JudgeSettings", group_id: "UUID", *, is_dry: bool) -> dict[str, Any]:
    from trainer.judge.group import read_group
    from trainer.judge.scoring import score_group

    if not is_dry:
        return _told(score_group(engine, settings, group_id))
    with engine.connect() as connection:
        group = read_group(connection, group_id)
    return {"group": str(group_id), "state": "planned", "to_score": len(group.unscored) if group else 0}


def _told(outcome: "Outcome") -> dict[str, Any]:
    return {
        "group": str(outcome.group_id),
        "state": outcome.state.value if outcome.state else "nothing",
        "run": outcome.run_id and str(outcome.run_id),
        "scored": len(outcome.rewards),
        "calls": outcome.usage.num_calls,
        "tokens": outcome.usage.num_tokens,
        "cost": outcome.usage.cost,
        "rewards": {str(id_): reward for id_, reward in outcome.rewards.items()},
        "reason": outcome.reason,
    }


def _report(found: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found))
        return
    if not found:
        typer.echo("No open group has members that nobody scored.")
        return
    columns = [name for name in max(found, key=len) if name not in {"rewards", "run"}]
    show_table(columns, [[_cell(one.get(name)) for name in columns] for one in found])


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
