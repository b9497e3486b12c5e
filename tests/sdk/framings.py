"""How upstreams frame events in the wild (B078 and its kin). Each stream says "one two", whatever surrounds it."""

import json


def event(text: str | None, finish: str | None = None) -> str:
    delta = {"content": text} if text is not None else {}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "base-model"}
    return json.dumps({**head, "choices": [choice]})


ONE, TWO, END = event("one"), event(" two"), event(None, "stop")
DONE = "data: [DONE]\n\n"


def stream(*frames: str, end: str = f"data: {END}\n\n{DONE}") -> list[bytes]:
    return [*(frame.encode() for frame in frames), end.encode()]


def data(text: str) -> str:
    return f"data: {text}\n\n"


SPLIT = ONE.index('"object"')
FRAMINGS: dict[str, list[bytes]] = {
    "as vLLM writes": stream(data(ONE), data(TWO)),
    "a comment": stream(data(ONE), ": ping\n\n", data(TWO)),
    "a comment after an id": stream(f"id: 1\n{data(ONE)}", ": ping\n\n", data(TWO)),
    "a retry alone": stream("retry: 3000\n\n", data(ONE), data(TWO)),
    "an id alone": stream(data(ONE), "id: 7\n\n", data(TWO)),
    "empty data": stream(data(ONE), "data:\n\n", data(TWO)),
    "a named event without data": stream(data(ONE), "event: ping\ndata:\n\n", data(TWO)),
    "a keep-alive as data": stream(data(ONE), "data: : keepalive\n\n", data(TWO)),
    "telemetry before the end": stream(data(ONE), data(TWO), end=f": x-cache-hit=false\n\n{data(END)}{DONE}"),
    "a byte order mark": stream("\ufeff" + data(ONE), data(TWO)),
    "CRLF": stream(f"data: {ONE}\r\n\r\n", f"data: {TWO}\r\n\r\n", end=f"data: {END}\r\n\r\ndata: [DONE]\r\n\r\n"),
    "CR": stream(f"data: {ONE}\r\r", f"data: {TWO}\r\r", end=f"data: {END}\r\rdata: [DONE]\r\r"),
    "no space": stream(f"data:{ONE}\n\n", f"data:{TWO}\n\n"),
    "two lines of data": stream(f"data: {ONE[:SPLIT]}\ndata: {ONE[SPLIT:]}\n\n", data(TWO)),
    "named events": stream(f"event: message\n{data(ONE)}", f"event: message\n{data(TWO)}"),
    "a field nobody knows": stream(f"x-vendor: 1\n{data(ONE)}", data(TWO)),
    "blank lines": stream(f"\n\n\n{data(ONE)}\n\n\n", data(TWO)),
    "a last event without its blank line": stream(data(ONE), data(TWO), end=f"data: {END}\n\ndata: [DONE]"),
    "a last event without [DONE]": stream(data(ONE), data(TWO), end=f"data: {END}\n\n"),
    "an empty delta": stream(data(ONE), data(event(None)), data(TWO)),
    "no choices": stream(data(ONE), data('{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"base-model","usage":null}'), data(TWO)),
    "byte by byte": [bytes([byte]) for byte in b"".join(stream(data(ONE), data(TWO)))],
}  # fmt: skip
