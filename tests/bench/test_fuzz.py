"""What the fuzzer sends and what it takes for a fault: pure, and the same on every machine."""

import pytest

from bench.fuzz import bodies
from bench.fuzz.attempt import attempt
from bench.fuzz.case import Case, Ending, once
from bench.fuzz.finding import Finding, alike
from bench.fuzz.mutations import MUTATIONS, case_of
from bench.fuzz.oracle import faults_of, replies_in
from bench.fuzz.schema import failures_in

REFUSAL = b'{"error":{"message":"No.","type":"invalid_request_error","param":null,"code":null}}'
POST = once("x", b"POST / HTTP/1.1\r\n\r\n")


def reply(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def test_a_case_is_made_of_its_two_numbers_alone() -> None:
    assert [case_of(7, n) for n in range(50)] == [case_of(7, n) for n in range(50)]
    assert case_of(7, 1) != case_of(8, 1)


def test_no_case_changes_another() -> None:
    """What a case changes inside an odd value was in every later one, and at last in itself."""
    before = repr(bodies._ODD_VALUES)
    for number in range(3000):
        case_of(1796050888, number)
    assert repr(bodies._ODD_VALUES) == before


def test_all_kinds_of_cases_are_sent() -> None:
    kinds = {case_of(0, n).kind for n in range(600)}
    assert len(kinds) == len({mutation.__name__ for mutation in MUTATIONS})


@pytest.mark.parametrize(
    "received", [b"", reply(200, b"{}"), reply(400, REFUSAL), reply(404, REFUSAL) + reply(200, b"x")]
)
def test_answers_refusals_and_clean_closes_are_no_faults(received: bytes) -> None:
    assert faults_of(POST, received, is_hanging=False) == []


@pytest.mark.parametrize(
    ("received", "fault"),
    [
        (reply(500, REFUSAL), "500: "),
        (reply(503, b""), "503: "),
        (reply(400, b"Bad Request"), "400 without an error object"),
        (reply(422, b'{"detail":[]}'), "422 without an error object"),
        (reply(400, REFUSAL.replace(b"No.", b"")), "400 without an error object"),
        (reply(200, b"{}") + b"\x00garbage", "unreadable"),
        (reply(200, b"{}")[:-1], "a reply is cut"),
    ],
)
def test_faults_are_named(received: bytes, fault: str) -> None:
    assert [found[: len(fault)] for found in faults_of(POST, received, is_hanging=False)] == [fault]


def test_a_hang_is_a_fault_and_a_cut_reply_is_none_when_we_left() -> None:
    assert faults_of(POST, b"", is_hanging=True) == ["hangs, after 0 replies"]
    gone = once("left", POST.sent, Ending.CLOSE)
    assert faults_of(gone, reply(200, b"{}")[:-1], is_hanging=False) == []


def test_right_requests_must_be_answered_in_their_order() -> None:
    case = once("pipelined", b"POST", request_ids=("a", "b"))
    first, second = (reply(200, b"{}", f"x-request-id: {name}") for name in "ab")
    assert faults_of(case, first + second, is_hanging=False) == []
    assert faults_of(case, second + first, is_hanging=False) == ["answered ['b', 'a'] of ['a', 'b']"]
    assert faults_of(case, first, is_hanging=False) == ["answered ['a'] of ['a', 'b']"]


def test_captured_answers_are_whole_ones_that_say_so() -> None:
    whole, *_ = replies_in(reply(200, b"{}", "x-captured: true"))
    cut, *_ = replies_in(reply(200, b"{}", "x-captured: true")[:-1])
    assert (whole.is_captured, cut.is_captured) == (True, False)


def test_findings_that_differ_in_numbers_only_are_alike() -> None:
    found = [Finding("bytes", "cut", f"500: call {number}") for number in (1, 2)]
    assert alike(found) == {"bytes, cut: ###: call #": 2}


def test_schemathesis_words_become_findings() -> None:
    output = """
=================================== FAILURES ===================================
_________________________________ GET /health __________________________________
1. Test Case ID: yJRds9

- ST104 Server error

[500] Internal Server Error:

Reproduce with:

    curl -X GET http://127.0.0.1:1/health

______________________________ POST /v1/embeddings _____________________________
1. Test Case ID: a

- ST108 Response violates schema
- ST104 Server error

    curl -X POST http://127.0.0.1:1/v1/embeddings
"""
    health, *embeddings = failures_in(output)
    assert (health.kind, health.fault) == ("GET /health", "ST104 Server error")
    assert health.reproduction == "curl -X GET http://127.0.0.1:1/health"
    assert [finding.kind for finding in embeddings] == ["POST /v1/embeddings"] * 2
    assert list(failures_in("all passed")) == []


async def test_an_attempt_takes_what_a_server_answers(mock: str) -> None:
    port = int(mock.rpartition(":")[2])
    case = Case("x", ((b"GET /hea", 0.01), (b"lth HTTP/1.1\r\nHost: x\r\n\r\n", 0.0)))
    result = await attempt(port, case)
    (answer,) = replies_in(result.received)
    assert (answer.status, answer.is_whole, result.is_hanging) == (200, True, False)
    gone = await attempt(port, once("left", b"POST /v1/chat", Ending.RESET))
    assert (gone.received, gone.is_hanging) == (b"", False)
