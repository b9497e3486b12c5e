"""A small ledger with everything in it: two versions, groups with and without signal, one step."""

from dataclasses import replace

from sqlalchemy import Connection, insert, select

from ledger.identifiers import choice_id, new_id
from ledger.policies import Policy, move_live
from ledger.recording import record_calls
from ledger.records import CallRecord
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.tables import exchanges, groups, policies, policy_versions, step_samples, training_steps
from tests.ledger.calls import a_call, a_policy, conversation, n_call


def fill(connection: Connection) -> tuple[Policy, CallRecord]:
    """The policy, and a call of 4 choices, rewarded 0, 0.25, 0.5 and 0.75, that trained version 1.

    Beside it: 4 choices of version 1 (each rewarded 1), a talk of 3 turns (rewarded -1), an unscored call.
    """
    policy = a_policy(connection)
    trained, alike, lone = (
        _versioned(call, version) for call, version in ((n_call(4), 0), (n_call(4), 1), (a_call(), 1))
    )
    talk = [_versioned(turn, 1) for turn in conversation(3)]
    record_calls(connection, [trained, alike, *talk, lone])
    for choice in range(4):
        post_reward(connection, "default", RewardPost(str(trained.call_id), value=choice / 4, choice=choice))
        post_reward(connection, "default", RewardPost(str(alike.call_id), value=1.0, choice=choice))
    post_reward(connection, "default", RewardPost("talk", value=-1.0))
    _train(connection, policy, trained)
    return policy, trained


def _versioned(call: CallRecord, version: int) -> CallRecord:
    return replace(
        call, version=version, answered_model=f"default@{version}", expected_model=f"default@{version}"
    )


def _train(connection: Connection, policy: Policy, call: CallRecord) -> None:
    step = {"id": new_id(), "policy_id": policy.id, "version": 1, "parent_version": 0, "state": "published"}
    connection.execute(insert(training_steps).values(**step, seed=1, settings={}, metrics={"loss": 0.5}))
    made = {"policy_id": policy.id, "version": 1, "parent_version": 0, "state": "published"}
    connection.execute(insert(policy_versions).values(**made, adapter_path="default@1"))
    move_live(connection, policy.id, 1)
    group_id = connection.scalar(
        groups.select().where(groups.c.key == call.call_id.hex).with_only_columns(groups.c.id)
    )
    connection.execute(
        groups.update().where(groups.c.id == group_id).values(state="trained", step_id=step["id"])
    )
    for choice in range(4):
        ids = {"exchange_id": choice_id(call.call_id, choice), "group_id": group_id, "step_id": step["id"]}
        connection.execute(
            insert(step_samples).values(
                **ids, trajectory_id=choice_id(call.attribution.trajectory_id, choice), reward=choice / 4,
                baseline=0.375, baseline_kind="choices_group", advantage=choice / 4 - 0.375, staleness=0,
                num_completion_tokens=3, is_used=choice != 1, reason="too_long" if choice == 1 else None,
            )
        )  # fmt: skip


def used_by_a_step(connection: Connection, reward: float) -> None:
    """Every exchange that there is was used by a step, which read this reward of its trajectory."""
    step_id = new_id()
    of_first = select(policies.c.id).limit(1).scalar_subquery()
    step = {"id": step_id, "policy_id": of_first, "version": 1, "parent_version": 0, "state": "published"}
    connection.execute(insert(training_steps).values(**step, seed=1, settings={}, metrics={}))
    for row in connection.execute(select(exchanges.c.id, exchanges.c.trajectory_id)):
        used = {
            "step_id": step_id,
            "exchange_id": row.id,
            "trajectory_id": row.trajectory_id,
            "group_id": new_id(),
        }
        numbers = {"reward": reward, "trajectory_reward": reward, "num_completion_tokens": 3, "is_used": True}
        connection.execute(insert(step_samples).values(**used, **numbers))
