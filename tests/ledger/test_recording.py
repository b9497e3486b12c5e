import random
from dataclasses import replace

import pytest
from sqlalchemy import Connection, Engine

from ledger.errors import LedgerError
from ledger.identifiers import choice_id
from ledger.recording import record_calls
from ledger.text import from_storable, from_storable_text
from ledger.vocabulary import ExchangeStatus
from tests.ledger.calls import (
    a_call,
    a_choice,
    a_policy,
    an_attribution,
    conversation,
    everything,
    n_call,
    rows,
)
from tests.ledger.together import run_all


def test_a_call_becomes_an_exchange_of_a_trajectory(connection: Connection) -> None:
    """I2, I3: the version, the ids and the logprobs are what the record says."""
    policy, call = a_policy(connection), a_call()
    record_calls(connection, [call])
    assert rows(
        connection,
        "SELECT id, trajectory_id, policy_id, version, prompt_ids, completion_ids, logprobs, is_trainable FROM exchanges",
    ) == [
        (call.call_id, call.attribution.trajectory_id, policy.id, 3, [1, 5, 9], [7, 8, 2], [-0.5] * 3, True)
    ]
    assert rows(connection, "SELECT id, identified_by FROM trajectories") == [
        (call.attribution.trajectory_id, "new")
    ]


def test_each_choice_is_an_exchange_and_a_trajectory_of_its_own(connection: Connection) -> None:
    a_policy(connection)
    call = n_call(3, external_id="run")
    record_calls(connection, [call])
    assert rows(connection, "SELECT id, trajectory_id, choice_index FROM exchanges ORDER BY id") == [
        (choice_id(call.call_id, k), choice_id(call.attribution.trajectory_id, k), k) for k in range(3)
    ]
    assert rows(connection, "SELECT name FROM trajectory_names ORDER BY 1") == [
        ("run",),
        ("run#1",),
        ("run#2",),
    ]


def test_a_replay_changes_nothing(connection: Connection) -> None:
    """I4: no duplicates, and the rows stay byte for byte."""
    a_policy(connection)
    calls = [*conversation(5), n_call(4), a_call(group="g"), a_call(status=ExchangeStatus.FAILED, choices=[])]
    record_calls(connection, calls)
    once = everything(connection)
    record_calls(connection, calls[3:])
    record_calls(connection, [*reversed(calls), *calls])
    assert everything(connection) == once


def test_two_proxies_record_the_same_calls_at_once(engine: Engine) -> None:
    """I4: also when batches are cut and ordered differently, and nothing deadlocks."""
    with engine.begin() as connection:
        a_policy(connection)
    calls = [call for n in range(6) for call in conversation(4, f"talk {n}")]
    calls += [a_call(group=f"g{n % 3}") for n in range(12)] + [n_call(2) for _ in range(6)]

    def proxy(seed: int) -> None:
        mine = random.Random(seed).sample(calls, len(calls))
        for start in range(0, len(mine), 7):
            with engine.begin() as connection:
                record_calls(connection, mine[start : start + 7])

    run_all([lambda seed=seed: proxy(seed) for seed in range(4)])
    with engine.connect() as connection:
        assert rows(connection, "SELECT count(*) FROM exchanges") == [(24 + 12 + 12,)]
        assert rows(connection, "SELECT count(*) FROM trajectories") == [(6 + 12 + 12,)]
        assert rows(
            connection,
            "SELECT count(*) FROM exchanges e LEFT JOIN trajectories t ON t.id = e.trajectory_id WHERE t.id IS NULL",
        ) == [(0,)]
        assert rows(connection, "SELECT kind, count(*) FROM groups WHERE kind <> 'prompt' GROUP BY 1 ORDER BY 1") == [("choices", 6), ("explicit", 3)]  # fmt: skip


def test_a_callers_name_means_one_trajectory_per_project(connection: Connection) -> None:
    a_policy(connection)
    a_policy(connection, "other")
    first, second = a_call(external_id="x"), a_call(external_id="x")
    elsewhere = a_call(external_id="x", project="other")
    record_calls(connection, [first])
    record_calls(connection, [second, elsewhere])
    assert rows(connection, "SELECT trajectory_id FROM exchanges ORDER BY id") == [
        (first.attribution.trajectory_id,),
        (first.attribution.trajectory_id,),
        (elsewhere.attribution.trajectory_id,),
    ]


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_a_client_may_send_back_our_trajectory_id(connection: Connection, is_one_batch: bool) -> None:
    a_policy(connection)
    first = a_call()
    second = a_call(external_id=str(first.attribution.trajectory_id))
    for batch in [[second, first]] if is_one_batch else [[first], [second]]:
        record_calls(connection, batch)
    assert rows(connection, "SELECT DISTINCT trajectory_id FROM exchanges") == [
        (first.attribution.trajectory_id,)
    ]
    assert rows(connection, "SELECT count(*) FROM trajectory_names") == [(0,)]


def test_another_projects_trajectory_id_is_only_a_name(connection: Connection) -> None:
    a_policy(connection)
    a_policy(connection, "other")
    first = a_call()
    second = a_call(external_id=str(first.attribution.trajectory_id), project="other")
    record_calls(connection, [first, second])
    assert rows(connection, "SELECT trajectory_id FROM exchanges ORDER BY id") == [
        (first.attribution.trajectory_id,), (second.attribution.trajectory_id,),
    ]  # fmt: skip


def test_a_trajectory_of_another_project_is_never_touched(connection: Connection) -> None:
    a_policy(connection)
    a_policy(connection, "other")
    first = a_call()
    second = a_call(attribution=first.attribution, project="other")
    record_calls(connection, [first])
    record_calls(connection, [second])
    assert rows(connection, "SELECT trajectory_id FROM exchanges ORDER BY id") == [
        (first.attribution.trajectory_id,), (second.call_id,),
    ]  # fmt: skip


def test_a_finished_record_wins_over_the_interrupted_one(connection: Connection) -> None:
    a_policy(connection)
    finished = a_call()
    broken = replace(finished, status=ExchangeStatus.INTERRUPTED, choices=[])
    record_calls(connection, [broken, finished, broken])
    record_calls(connection, [broken])
    assert rows(connection, "SELECT status FROM exchanges") == [("completed",)]


def test_text_that_postgres_cannot_hold_is_stored_reversibly(connection: Connection) -> None:
    """B081, B083, B084, B085: never a lost row, whichever field holds it."""
    a_policy(connection)
    odd = "a\x00\ud83d\x1a\\u0000"
    value = {odd: [odd, float("nan"), float("-inf")]}
    attribution = an_attribution(external_id=odd, group_key=odd, metadata=value, end_user=odd)
    call = a_call(
        attribution=attribution, messages=[value], request=value, error=value, request_id=odd, endpoint=odd,
        requested_model=odd, client_name=odd, choices=[a_choice(text=odd, response=value, stop_reason=odd)],
    )  # fmt: skip
    record_calls(connection, [call])
    (row,) = rows(connection, "SELECT completion_text, stop_reason, requested_model FROM exchanges")
    assert [from_storable_text(value) for value in row] == [odd] * 3
    (row,) = rows(connection, "SELECT messages->0, request, response FROM exchanges")
    assert [repr(from_storable(held)) for held in row] == [repr(value)] * 3


def test_numbers_out_of_range_never_lose_a_row(connection: Connection) -> None:
    a_policy(connection)
    call = a_call(
        seed=1 << 80, top_k=1 << 40, max_tokens=1 << 31, temperature="hot", top_p=True,
        choices=[a_choice(ids=[1, 2, 3], sampling_logprobs=[-1e-60, -1e300, float("-inf")])],
    )  # fmt: skip
    record_calls(connection, [call])
    assert rows(
        connection, "SELECT seed, top_k, max_tokens, temperature, top_p, logprobs FROM exchanges"
    ) == [(None, None, None, None, None, [-0.0, float("-inf"), float("-inf")])]


def test_an_unknown_policy_keeps_the_call_and_says_what_to_do(connection: Connection) -> None:
    with pytest.raises(LedgerError, match="SLIPSTREAM_POLICY"):
        record_calls(connection, [a_call()])


def test_very_long_names_are_stored_by_digest(connection: Connection) -> None:
    a_policy(connection)
    record_calls(connection, [a_call(external_id="é" * 5000, group="g" * 5000) for _ in range(2)])
    assert rows(connection, "SELECT count(*), max(octet_length(external_id)) < 512 FROM trajectories") == [
        (1, True)
    ]
