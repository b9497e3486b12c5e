"""Comparisons, pairing and recording at once: one comparison of a pair, one group of those that hang together."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from sqlalchemy import Connection, Engine

from ledger.direct import direct
from ledger.groups.grouping import GroupKey, Wanted, join_groups
from ledger.recording import record_calls
from ledger.recording_lock import lock_projects
from ledger.rewards.pairs import pair_up
from tests.ledger.calls import a_call, rows
from tests.ledger.test_comparisons import compare, groups, recorded
from tests.ledger.together import run_all


def test_twenty_equal_comparisons_at_once_make_one(connection: Connection, engine: Engine) -> None:
    recorded(connection, "a", "b")
    connection.commit()

    def one() -> None:
        with engine.begin() as own:
            compare(own, "a", "b")

    run_all([one] * 20)
    assert rows(connection, "SELECT count(*) FROM comparisons") == [(1,)]
    assert rows(connection, "SELECT count(*) FROM reward_events") == [(2,)]


def test_many_comparisons_at_once_end_in_one_group_each(connection: Connection, engine: Engine) -> None:
    """Even names are compared with even ones, odd with odd, while a worker pairs up and calls are recorded."""
    names = [str(number) for number in range(8)]
    recorded(connection, *names)
    connection.commit()

    def compares(seed: int) -> None:
        for step in range(4):
            a, b = random.Random(seed * 10 + step).sample(names[seed % 2 :: 2], 2)
            with engine.begin() as own:
                compare(own, a, b, source=f"s{seed}")

    def pairs() -> None:
        for _ in range(4):
            with engine.begin() as own:
                pair_up(own)

    def records() -> None:
        for number in range(4):
            with engine.begin() as own:
                record_calls(own, [a_call(external_id="0", prompt_ids=[1, 0, number])])

    run_all([*(partial(compares, seed) for seed in range(6)), pairs, records])
    pair_up(connection)
    found = groups(connection)
    assert all(len({int(name) % 2 for name in members}) == 1 for members in found["comparison"])
    assert rows(connection, "SELECT 1 FROM comparisons WHERE group_id IS NULL") == []
    assert (
        rows(
            connection,
            "SELECT 1 FROM groups AS g WHERE NOT EXISTS (SELECT FROM trajectories WHERE group_id = g.id)",
        )
        == []
    )


def test_equal_comparisons_by_other_names_at_once_make_one(connection: Connection, engine: Engine) -> None:
    """The later one changes the earlier one: both would count for good."""
    a, b = recorded(connection, "a", "b")
    connection.commit()
    ids = [call.attribution.trajectory_id for call in (b, a)]

    def by_id() -> None:
        with engine.begin() as own:
            compare(own, *ids)

    with ThreadPoolExecutor() as pool:
        with engine.begin() as own:
            compare(own, "a", "b")
            waiting = pool.submit(by_id)
            time.sleep(0.3)
        waiting.result(timeout=20)
    assert rows(connection, "SELECT count(*) FROM comparisons") == [(1,)]
    rewards = rows(connection, "SELECT external_id, reward FROM v1.trajectories ORDER BY 1")
    assert rewards == [("a", -1.0), ("b", 1.0)]


def test_a_recorder_that_takes_groups_one_by_one_never_meets_a_comparison(
    connection: Connection, engine: Engine
) -> None:
    """The later id first: in the middle of it a comparison would take the earlier one, and wait for the later."""
    recorded(connection, "a", "b")
    found = rows(connection, "SELECT project_id, policy_id, kind, key FROM groups ORDER BY id DESC")
    connection.commit()
    keys: list[GroupKey] = [(project_id.int, policy_id.int, *rest) for project_id, policy_id, *rest in found]

    def compares() -> None:
        with engine.begin() as own:
            compare(own, "a", "b")

    with ThreadPoolExecutor() as pool:
        with engine.begin() as own:
            lock_projects(direct(own), {found[0][0]: False})
            join_groups(own, {keys[0]: Wanted()})
            waiting = pool.submit(compares)
            time.sleep(0.3)
            join_groups(own, {keys[1]: Wanted()})
        waiting.result(timeout=20)
    assert groups(connection) == {"comparison": ["ab"]}
