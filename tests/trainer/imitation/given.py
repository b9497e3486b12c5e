"""What the tests of sft and dpo begin with: calls, demonstrations, teachers, steps that somebody asked for."""

from typing import Any
from uuid import UUID

import torch
from sqlalchemy import Engine

from ledger.identifiers import new_call_id
from ledger.policies import ensure_policy
from ledger.recording import record_calls
from ledger.records import Attribution, CallRecord, ChoiceRecord
from ledger.rewards.comparisons import Comparison, ComparisonResult, post_comparison
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.step_requests import ask_step
from ledger.vocabulary import IdentifiedBy, Reason, StepKind
from tests.trainer.traffic import call, one
from trainer.policy_model import LoraShape, PolicyModel
from trainer.step import Trainer, tick


def record(engine: Engine, *calls: CallRecord, project: str = "default") -> None:
    base_model = one(engine, "SELECT min(base_model) FROM policies")
    with engine.begin() as connection:
        ensure_policy(connection, name="default", base_model=base_model, project=project)
        record_calls(connection, list(calls))


def answered(engine: Engine, seed: int = 1, num_choices: int = 1, **changes: Any) -> CallRecord:
    """A recorded call of the policy."""
    made = call(seed, num_choices, **changes)
    record(engine, made, project=made.project)
    return made


def demonstrate(
    engine: Engine, target: UUID | str, content: Any, *, project: str = "default", **changes: Any
) -> UUID:
    """Its event's id."""
    with engine.begin() as connection:
        post = RewardPost(str(target), metric="demonstration", content=content, **changes)
        result = post_reward(connection, project, post)
    assert result.event_id
    return result.event_id


def taught(engine: Engine, question: str, answer: str | None, **changes: Any) -> CallRecord:
    """What an external model answered, as the proxy records it."""
    choice = ChoiceRecord(
        index=0,
        response={"role": "assistant", "content": answer, "refusal": None},
        text=answer,
        finish_reason="stop",
    )
    values: dict[str, Any] = {
        "version": None, "prompt_ids": None, "untrainable_reason": Reason.EXTERNAL_MODEL, "choices": [choice],
        "messages": [{"role": "user", "content": question}],
    }  # fmt: skip
    made = call(1, 1, **(values | changes))
    record(engine, made, project=made.project)
    return made


def compare(
    engine: Engine, preferred: RewardPost, other: RewardPost, project: str = "default"
) -> ComparisonResult:
    with engine.begin() as connection:
        return post_comparison(connection, project, Comparison(preferred, other))


def ask(engine: Engine, kind: StepKind, project: str = "default", **arguments: Any) -> UUID:
    policy_id = one(
        engine,
        "SELECT o.id FROM policies AS o JOIN projects AS p ON p.id = o.project_id"
        f" WHERE o.name = 'default' AND p.name = '{project}'",
    )
    with engine.begin() as connection:
        return ask_step(connection, policy_id, kind, arguments)


def sft(trainer: Trainer, source: str, **arguments: Any) -> Any:
    """The step as it ended."""
    ask(trainer.engine, StepKind.SFT, **{"from": source}, **arguments)
    return tick(trainer)


def whose(name: str) -> Attribution:
    return Attribution(new_call_id(), IdentifiedBy.HEADER, external_id=name)


def logprob(trainer: Trainer, version: int, prompt_ids: list[int], completion_ids: list[int]) -> float:
    """log pi(completion | prompt) of a version, by a model of its own."""
    from trainer.checkpoint import read_parent

    settings = trainer.settings
    shape = LoraShape(settings.lora_rank, settings.lora_alpha)
    model = PolicyModel.load(settings.base_model, shape, 0, torch.device("cpu"))
    parent = read_parent(settings, "default", version)
    model.reset(parent.adapter, None)
    total, ids = 0.0, list(prompt_ids)
    for token_id in completion_ids:
        total += float(model.next_token_logprobs(ids)[token_id])
        ids.append(token_id)
    return total


def metrics_of_step(engine: Engine) -> Any:
    return one(engine, "SELECT metrics FROM training_steps ORDER BY version DESC LIMIT 1")


def reason_of_step(engine: Engine) -> Any:
    return one(engine, "SELECT reason FROM training_steps ORDER BY version DESC LIMIT 1")
