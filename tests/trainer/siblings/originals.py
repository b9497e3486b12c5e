"""What the tests of siblings begin with: an original in a prompt group of its own, and who makes siblings of it."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Engine, text

from ledger.policies import Policy, ensure_policy, read_policies
from ledger.recording import record_calls
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from tests.fakes.vllm import FakeVllm
from tests.fakes.vllm_tokens import prompt_ids_of
from tests.trainer.traffic import call, rows
from trainer.judge.settings import JudgeSettings
from trainer.siblings.settings import SiblingSettings
from trainer.siblings.siblings import Siblings

MESSAGES = [{"role": "user", "content": "Name a colour."}]


def begin(engine: Engine) -> Policy:
    """The policy that is there, else one on the fake's base."""
    with engine.begin() as connection:
        known = read_policies(connection)
        return known[0] if known else ensure_policy(connection, name="default", base_model="base-model")


def add_original(
    engine: Engine, reward: float | None = 1.0, *, is_final: bool = True, **changes: Any
) -> UUID:
    """Its exchange's id; the trajectory is another."""
    begin(engine)
    given = {"messages": MESSAGES, "prompt_ids": prompt_ids_of(MESSAGES), "max_tokens": 3} | changes
    record = call(1, 1, **given)
    with engine.begin() as connection:
        record_calls(connection, [record])
        if reward is not None:
            post = RewardPost(str(record.call_id), value=reward, is_final=is_final)
            post_reward(connection, "default", post)
    return record.call_id


def siblings_of(
    engine: Engine,
    vllms: Sequence[FakeVllm],
    scorer_url: str | None,
    *,
    judge: str = "off",
    owner: str = "a",
    is_training: bool = False,
    **settings: Any,
) -> Siblings:
    def policies() -> list[Policy]:
        with engine.connect() as connection:
            return read_policies(connection)

    values = {"num_siblings": 2, "look_seconds": 0.05, "retry_seconds": 0, "timeout_seconds": 20} | settings
    judging = JudgeSettings(
        database_url="postgresql://nowhere.invalid/x",
        scorer_url=scorer_url,
        when=judge,
        model="openai/judge",
        scorer_timeout_seconds=5,
    )
    urls = tuple(vllm.url for vllm in vllms)
    return Siblings(SiblingSettings(**values), judging, urls, engine, policies, owner, lambda: is_training)


def shadows(engine: Engine) -> list[Any]:
    return rows(engine, "SELECT * FROM exchanges WHERE is_shadow ORDER BY id")


def run_of(engine: Engine) -> Any:
    [row] = rows(engine, "SELECT * FROM sibling_runs")
    return row


def expire(engine: Engine) -> None:
    """As time does: leases are over, and what was put off is due."""
    with engine.begin() as connection:
        connection.execute(text("UPDATE sibling_runs SET lease_expires_at = now(), next_at = now()"))
