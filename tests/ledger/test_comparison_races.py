"""Comparisons, pairing and recording at once: one comparison of a pair, one group of those that hang together."""

import random
from functools import partial

from sqlalchemy import Connection, Engine

from ledger.recording import record_calls
from ledger.rewards.comparisons import pair_up
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
