from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.reply.sse import Event, EventReader
from tests.proxy.recorded import STREAMS, recorded


def read(chunks: list[bytes]) -> list[Event]:
    reader = EventReader()
    return [event for chunk in chunks for event in reader.feed(chunk)] + reader.close()


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(raw) + 1) for place in places), len(raw)]
    return [raw[a:b] for a, b in pairwise(bounds)]


ODD = (
    b"\xef\xbb\xbfdata: 1\n\n",
    b": ping\n\ndata: 1\n\n",
    b"id: 7\n: ping\n\ndata: 1\n\n",
    b"retry: 3000\n\ndata: 1\n\nretry: 1\n\n",
    b"event: ping\ndata:\n\ndata: 1\n\n",
    b"data:\n\ndata: 1",
    b"data: 1\r\n\r\n",
    b"data: 1\r\r",
    b"data:1\n\n\n\n",
    b"data: 1\r\n\n",
    b"data: 1\n",
)


@pytest.mark.parametrize("raw", ODD)
def test_every_framing_that_kills_an_sdk_is_read_and_none_is_emitted(raw: bytes) -> None:
    """B001 B006 B078: comments, ids, retries, a BOM, empty data, a last event without its blank line."""
    assert [event.framed() for event in read([raw])] == [b"data: 1\n\n"]


@given(
    raw=st.lists(
        st.sampled_from(
            [*ODD, b'data: {"a":\n', b"data: 2}\n\n", b"\r", b"\n", b"\r\n", "data: é🙂\n\n".encode()]
        )
    ),
    places=st.lists(st.integers(min_value=0)),
)
def test_events_do_not_depend_on_where_the_bytes_were_cut(raw: list[bytes], places: list[int]) -> None:
    """B008: any cut, inside a character or a line end, gives the same events."""
    whole = b"".join(raw)
    assert read(cut(whole, places)) == read([whole])


@pytest.mark.parametrize("name", STREAMS)
def test_recorded_streams_cut_at_every_byte_give_the_same_events(name: str) -> None:
    _, raw = recorded(name)
    expected = read([raw])
    for place in range(len(raw)):
        assert read([raw[:place], raw[place:]]) == expected


def test_data_of_several_lines_is_one_event_and_stays_several_lines() -> None:
    [event] = read([b"event: x\ndata: {\ndata: }\n\n"])
    assert event == Event(b"{\n}", b"x")
    assert event.framed() == b"event: x\ndata: {\ndata: }\n\n"
