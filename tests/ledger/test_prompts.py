"""Legacy completions of several prompts: choices of a prompt belong together, and to no other prompt (B056)."""

import pytest
from sqlalchemy import Connection

from ledger.recording import record_calls
from ledger.records import CallRecord
from ledger.verdict import untrainable_reason
from tests.ledger.calls import a_call, a_choice, a_policy, rows

PROMPTS = [[1, 5], [1, 6], [1, 5]]
GROUPS = """
    SELECT g.kind, g.size, array_agg(t.choice_index ORDER BY t.choice_index)
    FROM groups AS g JOIN trajectories AS t ON t.group_id = g.id GROUP BY g.id ORDER BY 3
"""


def several(n: int, num_prompts: int = 3, **changes: object) -> CallRecord:
    choices = [
        a_choice(p * n + k, ids=[p, k, 2], prompt_ids=PROMPTS[p])
        for p in range(num_prompts)
        for k in range(n)
    ]
    return a_call(
        num_choices=n * num_prompts, num_prompts=num_prompts, messages=None, prompt_ids=None, choices=choices,
        endpoint="/v1/completions", num_prompt_tokens=6, **changes,
    )  # fmt: skip


def test_each_choice_has_the_prompt_that_it_answers(connection: Connection) -> None:
    a_policy(connection)
    record_calls(connection, [several(2)])
    assert rows(
        connection,
        "SELECT choice_index, prompt_index, prompt_ids, num_prompt_tokens FROM exchanges ORDER BY id",
    ) == [(p * 2 + k, p, PROMPTS[p], 2) for p in range(3) for k in range(2)]
    assert rows(connection, "SELECT count(*) FROM exchanges WHERE is_trainable") == [(6,)]
    assert rows(connection, "SELECT count(DISTINCT transcript_sha256) FROM exchanges") == [(6,)]


def test_the_choices_of_one_prompt_are_a_group_of_their_number(connection: Connection) -> None:
    a_policy(connection)
    record_calls(connection, [several(2)])
    assert rows(connection, GROUPS) == [
        ("choices", 2, [0, 1]),
        ("choices", 2, [2, 3]),
        ("choices", 2, [4, 5]),
    ]


def test_a_prompt_with_one_choice_joins_its_prompt_group(connection: Connection) -> None:
    a_policy(connection)
    record_calls(connection, [several(1)])
    record_calls(connection, [a_call(prompt_ids=PROMPTS[1], messages=None)])
    assert rows(connection, GROUPS) == [("prompt", None, [0, 1]), ("prompt", None, [0, 2])]


def test_one_prompt_of_several_choices_is_as_before(connection: Connection) -> None:
    a_policy(connection)
    call = several(3, num_prompts=1)
    record_calls(connection, [call])
    assert rows(connection, "SELECT kind, key, size FROM groups") == [("choices", call.call_id.hex, 3)]


@pytest.mark.parametrize(("prompt_ids", "reason"), [(None, "missing_token_ids"), ([1, 2], None)])
def test_a_choice_without_a_prompt_of_its_own_answers_the_calls(
    prompt_ids: list[int] | None, reason: str | None
) -> None:
    assert untrainable_reason(a_call(prompt_ids=prompt_ids), a_choice()) == reason


def test_the_call_may_say_nonsense_about_its_numbers(connection: Connection) -> None:
    a_policy(connection)
    record_calls(connection, [a_call(num_choices=0, num_prompts=0), a_call(num_choices=1, num_prompts=7)])
    assert rows(connection, "SELECT count(*) FROM exchanges") == [(2,)]
