"""B080: retries in any order, any batches, by several recorders: the same rows (I4)."""

import itertools
import random
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine

from ledger.recording import record_calls
from ledger.retries import Sending, duplicates, link
from ledger.vocabulary import ExchangeStatus
from tests.ledger.calls import a_call, a_policy, everything, later, n_call, rows, sent
from tests.ledger.together import run_all

TRIES = [
    sent(),
    sent(1, 1, status=ExchangeStatus.FAILED, choices=[]),
    sent(3, 2),
    sent(0.5, request_sha256="cd" * 32),
]
COMPARED = """
    SELECT id, trajectory_id, retry_of, is_trainable, untrainable_reason, identified_by FROM exchanges ORDER BY 1
"""


def outcome(connection: Connection) -> list[Any]:
    """All but the ids of groups, which are made when they are needed."""
    return [
        rows(connection, COMPARED),
        rows(connection, "SELECT t.id, t.identified_by, g.kind, g.key, g.size FROM trajectories t LEFT JOIN groups g ON g.id = t.group_id ORDER BY 1"),
        rows(connection, "SELECT kind, key, sequence, size FROM groups ORDER BY 1, 2, 3"),
        rows(connection, "SELECT name, trajectory_id FROM trajectory_names ORDER BY 1"),
    ]  # fmt: skip


@pytest.mark.parametrize("n", [1, 2])
def test_any_order_and_any_batches_give_the_same_rows(connection: Connection, n: int) -> None:
    """I4: original, retry, third retry and an unrelated call; each order, cut everywhere, twice over."""
    a_policy(connection)
    connection.commit()
    tries = [replace(c, num_choices=n, choices=n_call(n).choices if c.choices else []) for c in TRIES]
    found = []
    for order in itertools.permutations(tries):
        for cuts in ([], [1], [2], [1, 3], [1, 2, 3]):
            with connection.begin():
                for start, end in itertools.pairwise([0, *cuts, len(order)]):
                    record_calls(connection, order[start:end])
                once = everything(connection)
                record_calls(connection, order)
                record_calls(connection, order[::-1])
                assert everything(connection) == once
                found.append(outcome(connection))
                connection.get_transaction().rollback()  # type: ignore[union-attr]
    assert all(one == found[0] for one in found)


def test_two_recorders_in_any_order_at_once(engine: Engine) -> None:
    """I4: the same families, recorded by two connections at once, cut and ordered differently."""
    with engine.begin() as connection:
        a_policy(connection)
    families = [
        [sent(n / 100 + s, k, request_sha256=f"{n:064x}") for k, s in enumerate((0, 1, 3))] for n in range(12)
    ]
    calls = [call for family in families for call in family] + [a_call() for _ in range(12)]

    def recorder(seed: int) -> None:
        mine = random.Random(seed).sample(calls, len(calls))
        for start in range(0, len(mine), 5):
            with engine.begin() as connection:
                record_calls(connection, mine[start : start + 5])

    run_all([lambda seed=seed: recorder(seed) for seed in range(2)])
    with engine.connect() as connection:
        wanted = {family[2].call_id for family in families} | {call.call_id for call in calls[36:]}
        assert {row[0] for row in rows(connection, "SELECT id FROM exchanges WHERE is_trainable")} == wanted
        found = {row[0]: row[1] for row in rows(connection, COMPARED)}
        for family in families:
            assert {found[call.call_id] for call in family} == {family[0].attribution.trajectory_id}


def sending(position: int, count: int, is_completed: bool) -> Sending:
    return Sending(later(position), count, is_completed, False, False, ())


@settings(max_examples=200)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.lists(st.booleans(), min_size=12, max_size=12),
    st.randoms(),
)
def test_each_request_is_one_sample_however_its_sendings_come(
    lengths: list[int], completed: list[bool], order: random.Random
) -> None:
    """Requests of the same body, one after the other, each with its retries: one sample each, if one was answered."""
    position = itertools.count()
    answers = iter(completed * 2)
    requests = [[sending(next(position), k, next(answers)) for k in range(n + 1)] for n in lengths]
    everyone = [one for request in requests for one in request]
    links: dict[UUID, UUID] = {}
    known: list[Sending] = []
    for one in order.sample(everyone, len(everyone)):
        links = link(known, [one], links)
        known.append(one)
    assert len(set(links.values())) == len(links), "a call is repeated once"
    assert all(earlier < one for one, earlier in links.items())
    ends = duplicates(everyone, links)
    samples = [one for one in everyone if one.is_completed and one.call_id not in ends]
    assert len(samples) <= len([one for one in everyone if one.call_id not in links])
    if len(requests) == 1:
        assert samples == [one for one in everyone if one.is_completed][-1:]
