"""HTTP as the bench reads and writes it, and what it checks of each answer."""

import json

import pytest

from bench.gateway.answers import fault_of_stream, fault_of_whole, has_token
from bench.gateway.replies import Asked, events, whole
from bench.gateway.requests import template
from bench.gateway.wire import LAST_CHUNK, body_length, chunk, dechunked, head_end, is_chunked

OK = b"HTTP/1.1 200 OK\r\n\r\n"


def stream(asked: Asked) -> bytes:
    return b"".join(map(chunk, events(asked, b"x", b"m"))) + LAST_CHUNK


def test_heads_tell_their_bodys_length_in_any_case() -> None:
    head = b"POST / HTTP/1.1\r\nContent-Length: 12\r\n\r\n"
    assert (head_end(head + b"abc"), head_end(head[:-1])) == (len(head), 0)
    assert (body_length(head), body_length(OK), is_chunked(head)) == (12, 0, False)
    assert is_chunked(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")


def test_chunks_are_put_together_again() -> None:
    assert dechunked(chunk(b"ab") + chunk(b"c" * 300) + LAST_CHUNK) == b"ab" + b"c" * 300


@pytest.mark.parametrize("cut", [b"", b"2\r\nab\r\n", b"2\r\nabc\r\n0\r\n\r\n"])
def test_a_body_whose_chunks_do_not_add_up_is_refused(cut: bytes) -> None:
    with pytest.raises(ValueError, match="do not add up"):
        dechunked(cut)


def test_a_request_has_the_size_that_was_asked_for_and_its_number() -> None:
    for size in (2048, 150_000):
        request = template(size, 64, is_streamed=True).numbered(17)
        body = json.loads(request[head_end(request) :])
        assert body_length(request[: head_end(request)]) == len(request) - head_end(request)
        assert sum(len(message["content"].encode()) for message in body["messages"]) == size
        assert body["messages"][1]["content"].startswith("Request 00000017.")
        assert body["stream"] is True


def test_whole_answers_are_checked() -> None:
    good = whole(Asked(num_tokens=4), b"x", b"m")
    leaking = whole(Asked(num_tokens=4, has_ids=True), b"x", b"m")
    assert fault_of_whole(OK, good, 4, is_parsed=True) is None
    assert "another text" in str(fault_of_whole(OK, good, 5, is_parsed=True))
    assert "nobody asked" in str(fault_of_whole(OK, leaking, 4, is_parsed=True))
    assert "429" in str(fault_of_whole(b"HTTP/1.1 429 Too Many\r\n\r\n", b"{}", 4, is_parsed=True))


@pytest.mark.parametrize("is_parsed", [True, False])
def test_streams_are_checked(is_parsed: bool) -> None:
    good, short = stream(Asked(num_tokens=6)), stream(Asked(num_tokens=4))
    assert fault_of_stream(OK, good, 6, is_parsed=is_parsed) is None
    assert "5 events for 6 tokens" in str(fault_of_stream(OK, short, 6, is_parsed=is_parsed))
    assert "cut" in str(fault_of_stream(OK, good[:-30], 6, is_parsed=is_parsed))
    without_done = good.replace(chunk(b"data: [DONE]\n\n"), b"")
    assert "no [DONE]" in str(fault_of_stream(OK, without_done, 6, is_parsed=is_parsed))
    leaking = stream(Asked(num_tokens=6, has_logprobs=True))
    assert "nobody asked" in str(fault_of_stream(OK, leaking, 6, is_parsed=is_parsed))


def test_the_first_token_is_the_first_text_not_the_role() -> None:
    role, first, *_ = events(Asked(num_tokens=2), b"x", b"m")
    assert (has_token(role), has_token(first)) == (False, True)
    assert has_token(b'data: {"choices":[{"delta":{"content": "a"}}]}')
