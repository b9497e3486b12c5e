"""Chat logs of other models become teacher data: kept once, whole, judged like any call, never trained."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, Engine

from ledger.erasure.subject import Subject
from ledger.errors import LedgerError
from ledger.imports.chat_logs import call_of
from ledger.imports.file import Importer
from ledger.imports.lines import BadLineError, Line
from ledger.imports.report import Report
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import ErasureSubject
from tests.ledger.calls import a_policy, rows
from tests.ledger.test_erasure import erase

NOW = datetime(2026, 11, 30, tzinfo=UTC)
ASKED = {"role": "user", "content": "2 + 2?"}
ANSWER = {"role": "assistant", "content": "4"}
TOOLS = [{"type": "function", "function": {"name": "add"}}]
CALLING = {
    "role": "assistant", "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}],
}  # fmt: skip
COMPLETION = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "gpt-4o",
    "choices": [{"index": 0, "message": ANSWER, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 1},
}  # fmt: skip
SHAPES: dict[str, dict[str, Any]] = {
    "fine-tuning": {"messages": [ASKED, ANSWER]},
    "fine-tuning with tools": {"messages": [ASKED, CALLING], "tools": TOOLS},
    "pair": {"request": {"model": "gpt-4o", "messages": [ASKED], "user": "u"}, "response": COMPLETION},
    "pair in a batch's names": {
        "custom_id": "a", "body": {"model": "gpt-4o", "messages": [ASKED]},
        "response": {"status_code": 200, "body": COMPLETION},
    },
    "batch output": {"id": "b", "custom_id": "a", "response": {"status_code": 200, "body": COMPLETION}, "error": None},
    "stored completion": {**COMPLETION, "messages": [ASKED], "metadata": {"k": "v"}},
    "input and output": {"input": [ASKED], "output": ANSWER},
    "text": {"messages": [ASKED], "completion": "4"},
    "texts": {"prompt": "2 + 2?", "completion": "4"},
    "texts by other names": {"input": "2 + 2?", "output": "4"},
    "request as a text": {"request": "2 + 2?", "response": COMPLETION},
    "legacy request": {"body": {"model": "m", "prompt": ["2 + 2?"]}, "response": {"status_code": 200, "body": COMPLETION}},
    "completion alone": COMPLETION,
}  # fmt: skip
UNASKED = ("batch output", "completion alone")
SILENT = {"role": "assistant", "content": None}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "neither"),
    "no answer": ({"messages": [ASKED]}, "does not end"),
    "only an answer": ({"messages": [ANSWER]}, "nothing that was answered"),
    "messages of another kind": ({"messages": ["hello"]}, "no list of messages"),
    "failed": ({"custom_id": "a", "response": {"status_code": 429, "body": {}}}, "status 429"),
    "failed without status": ({"custom_id": "a", "response": None, "error": {"code": "x"}}, "failed"),
    "no choices": ({"request": {"messages": [ASKED]}, "response": {"id": "x"}}, "no 'choices'"),
    "no question": ({"prompt": {"text": "2 + 2?"}, "completion": "4"}, "no list of messages"),
    "no question beside an answer": ({"question": "2 + 2?", "completion": "4"}, "no question"),
    "an empty question": ({"prompt": "", "completion": "4"}, "no question"),
    "no question in a request": ({"request": {"model": "m"}, "response": COMPLETION}, "no question"),
    "unknown role": (
        {"messages": [{"role": "usr", "content": "q"}, ANSWER]},
        "message 1 has the unknown role 'usr'",
    ),
    "silent turn": (
        {"messages": [ASKED, SILENT, ASKED, ANSWER]},
        "message 2 is the assistant's and has neither",
    ),
    "silent answer": ({"messages": [ASKED], "output": SILENT}, "choice 0 is the assistant's and has neither"),
    "answer of the user": ({"messages": [ASKED], "output": ASKED}, "by 'user'"),
    "no time": (
        {"messages": [ASKED, ANSWER], "timestamp": "yesterday"},
        "'timestamp' is no time: 'yesterday'",
    ),
    "true is no time": ({"messages": [ASKED, ANSWER], "created": True}, "'created' is no time"),
    "before 2015": ({"messages": [ASKED, ANSWER], "created": 1_000_000_000}, "'created' is 2001-09-09"),
    "in the future": (
        {"messages": [ASKED, ANSWER], "created_at": "2098-01-01"},
        "more than a day in the future",
    ),
    "beyond all years": ({"messages": [ASKED, ANSWER], "created": 1e300}, "'created' is no time"),
    "no message": ({"messages": [ASKED], "choices": [{"text": "4"}]}, "no message"),
}


def imported(engine: Engine, *values: dict[str, Any], **target: Any) -> Report:
    lines = [Line(number, value) for number, value in enumerate(values, 1)]
    return Importer(engine, **target).run(lines, lambda: None)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_line_of_each_shape_becomes_one_exchange(engine: Engine, shape: str) -> None:
    with engine.begin() as connection:
        a_policy(connection)
    report = imported(engine, SHAPES[shape])
    assert (report.num_new, report.bad_lines) == (1, [])
    with engine.connect() as connection:
        [row] = rows(
            connection,
            """SELECT version, untrainable_reason, messages, response -> 'message' FROM exchanges""",
        )
        assert rows(connection, "SELECT group_id FROM trajectories") == [(None,)]
    answer = CALLING if "tools" in shape else ANSWER
    assert row == (None, "external_model", None if shape in UNASKED else [ASKED], answer)


@pytest.mark.parametrize("case", BAD)
def test_a_bad_line_says_what_is_wrong(engine: Engine, case: str) -> None:
    with engine.begin() as connection:
        a_policy(connection)
    line, problem = BAD[case]
    report = imported(engine, SHAPES["pair"], line, SHAPES["fine-tuning"])
    assert (report.num_new, report.num_bad) == (2, 1)
    assert report.bad_lines[0]["line"] == 2
    assert problem in report.bad_lines[0]["problem"]


def test_the_same_lines_again_double_nothing(engine: Engine) -> None:
    """Dated or not, in one file or in two, today or tomorrow."""
    with engine.begin() as connection:
        a_policy(connection)
    lines = list(SHAPES.values())
    assert imported(engine, *lines, *lines).num_new == len(lines)
    again = imported(engine, *reversed(lines))
    assert (again.num_new, again.num_existing) == (0, len(lines))


def test_what_a_response_says_of_itself_is_kept(connection: Connection) -> None:
    policy = a_policy(connection)
    call = call_of(SHAPES["pair"], policy, NOW)
    assert call.started_at == datetime.fromtimestamp(1_700_000_000, UTC)
    assert (call.answered_model, call.num_prompt_tokens, call.choices[0].num_completion_tokens) == (
        "gpt-4o",
        7,
        1,
    )
    assert (call.attribution.end_user, call.choices[0].finish_reason, call.request) == (
        "u",
        "stop",
        {"user": "u"},
    )


def test_a_batch_keeps_the_id_by_which_its_input_knows_it(connection: Connection) -> None:
    policy = a_policy(connection)
    call = call_of(SHAPES["batch output"], policy, NOW)
    assert call.attribution.metadata == {"custom_id": "a"}
    with_both = call_of(SHAPES["stored completion"] | {"custom_id": "b"}, policy, NOW)
    assert with_both.attribution.metadata == {"custom_id": "b", "k": "v"}


@pytest.mark.parametrize(
    "said",
    [
        "2026-11-29T12:00:00Z",
        "2026-11-29T13:00:00+01:00",
        "2026-11-29T12:00:00",
        1_795_953_600,
        1_795_953_600_000,
        "1795953600",
    ],
)
def test_a_time_may_be_said_as_logs_say_it(connection: Connection, said: object) -> None:
    call = call_of(SHAPES["fine-tuning"] | {"timestamp": said}, a_policy(connection), NOW)
    assert call.started_at == datetime(2026, 11, 29, 12, tzinfo=UTC)


def test_each_choice_is_an_exchange(engine: Engine) -> None:
    with engine.begin() as connection:
        a_policy(connection)
    two = {**COMPLETION, "choices": [{"message": ANSWER}, {"message": CALLING}], "messages": [ASKED]}
    assert imported(engine, two).num_new == 2


def test_teacher_data_is_judged_like_any_call(engine: Engine) -> None:
    with engine.begin() as connection:
        a_policy(connection)
    imported(engine, SHAPES["pair"])
    with engine.begin() as connection:
        [(id_,)] = rows(connection, "SELECT id FROM exchanges")
        assert post_reward(connection, "default", RewardPost(str(id_), value=1.0)).status == "recorded"


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_a_line_that_was_erased_does_not_come_back(engine: Engine, shape: str) -> None:
    """Most say no time, so nothing but what stands in them tells that they were here before."""
    with engine.begin() as connection:
        a_policy(connection)
    imported(engine, SHAPES[shape])
    with engine.begin() as connection:
        [(id_,)] = rows(connection, "SELECT CAST(trajectory_id AS text) FROM exchanges")
        erase(connection, Subject(ErasureSubject.TRAJECTORY, id_))
    again = imported(engine, SHAPES[shape])
    assert (again.num_new, again.num_existing, again.num_erased) == (0, 1, 1)
    with engine.connect() as connection:
        assert rows(connection, "SELECT count(*), count(messages) FROM exchanges") == [(1, 0)]


def test_a_policy_that_is_not_there_is_refused_with_the_remedy(engine: Engine) -> None:
    with pytest.raises(LedgerError, match="keys create --project nowhere"):
        imported(engine, SHAPES["pair"], project="nowhere")
    with engine.begin() as connection:
        a_policy(connection)
    with pytest.raises(LedgerError, match="--policy"):
        imported(engine, SHAPES["pair"], policy="nowhere")


def test_odd_members_end_in_a_sentence_or_in_a_row(connection: Connection) -> None:
    """Whatever stands in a member of a line, nothing but BadLineError is raised."""
    policy = a_policy(connection)
    for line in SHAPES.values():
        for name in line:
            for value in (None, 1, "x", [], {}, [1], {"a": 1}, True):
                try:
                    call_of(json.loads(json.dumps(line | {name: value})), policy, NOW)
                except BadLineError:
                    continue
