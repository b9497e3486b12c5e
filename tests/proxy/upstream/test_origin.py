"""URLs become destinations; heads hold what they were told and nothing more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.upstream.origin import Origin, destination_of, request_head


@pytest.mark.parametrize(
    ("url", "origin", "target", "host"),
    [
        ("http://vllm:8000", Origin(False, "vllm", 8000), "/", "vllm:8000"),
        ("http://vllm/v1/models", Origin(False, "vllm", 80), "/v1/models", "vllm"),
        ("https://VLLM.example/a%20b/?q=1", Origin(True, "vllm.example", 443), "/a%20b/?q=1", "vllm.example"),
        ("http://[::1]:8000/prefix/v1", Origin(False, "::1", 8000), "/prefix/v1", "[::1]:8000"),
        ("https://vllm:8443/", Origin(True, "vllm", 8443), "/", "vllm:8443"),
    ],
)
def test_a_url_is_a_connection_and_a_target(url: str, origin: Origin, target: str, host: str) -> None:
    destination = destination_of(url)
    assert destination.origin == origin
    assert destination.shared.startswith(f" {target} HTTP/1.1\r\nhost: {host}\r\n")


def test_a_name_and_password_in_a_url_are_sent_as_basic_authorization() -> None:
    head = request_head("GET", destination_of("http://me:p%40ss@vllm:8000/"), [], 0)
    assert b"\r\nauthorization: Basic bWU6cEBzcw==\r\n" in head  # base64 of me:p@ss
    assert b"host: vllm:8000\r\n" in head


@pytest.mark.parametrize(
    "url", ["vllm:8000", "ftp://vllm", "http://", "http://vllm:99999/", "http://vllm/a b", "http://vllm/ä"]
)
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"address|Port"):
        destination_of(url)


HEADERS = st.lists(st.tuples(st.from_regex(r"\Ax-[a-z]{1,9}\Z"), st.text(max_size=20)), max_size=4)


@given(HEADERS, st.integers(0, 9))
def test_a_head_holds_its_headers_or_is_refused(headers: list[tuple[str, str]], num_bytes: int) -> None:
    """Nothing in a value can end its line."""
    destination = destination_of("http://vllm:8000/")
    try:
        head = request_head("POST", destination, headers, num_bytes).decode("latin-1")
    except ValueError:
        assert any(char in "\r\n\0" or ord(char) > 255 for _, value in headers for char in value)
        return
    lines = head.removesuffix("\r\n\r\n").split("\r\n")
    assert lines[:3] == ["POST / HTTP/1.1", "host: vllm:8000", "accept-encoding: identity"]
    assert lines[3:-1] == [f"{name}: {value}" for name, value in headers]
    assert lines[-1] == f"content-length: {num_bytes}"
