"""What a server may answer to anything at all. Pure: bytes and times in, faults in words out."""

import json
from dataclasses import dataclass, field

import httptools

from bench.fuzz.case import Case

_SERVER_ERROR = 500
_CLIENT_ERROR = 400
_OK = 200
_ENVELOPE = {"message", "type", "param", "code"}


@dataclass
class Reply:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_whole: bool = False

    @property
    def is_captured(self) -> bool:
        return self.is_whole and self.headers.get("x-captured") == "true"


class _Reader:
    """httptools' callbacks."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.parser = httptools.HttpResponseParser(self)

    def on_message_begin(self) -> None:
        self.replies.append(Reply())

    def on_header(self, name: bytes, value: bytes) -> None:
        self.replies[-1].headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.replies[-1].status = self.parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.replies[-1].body += body

    def on_message_complete(self) -> None:
        self.replies[-1].is_whole = True


def replies_in(received: bytes) -> list[Reply]:
    """Raises ValueError for bytes that are no HTTP replies."""
    reader = _Reader()
    try:
        reader.parser.feed_data(received)
    except httptools.HttpParserError as error:
        raise ValueError(f"{error} in {received[:200]!r}") from error
    return reader.replies


def faults_of(case: Case, received: bytes, *, is_hanging: bool) -> list[str]:
    """Everything that must not be: an unreadable reply, a 5xx, a refusal without a reason, a hang, a lost answer."""
    if case.sent.startswith((b"HEAD", b"CONNECT")):  # replies without the body that their head tells
        return ["hangs"] if is_hanging else []
    try:
        replies = replies_in(received)
    except ValueError as error:
        return [f"unreadable: {error}"]
    faults = [fault for reply in replies for fault in faults_of_reply(reply)]
    if is_hanging:
        faults.append(f"hangs, after {len(replies)} replies")
    if case.is_patient and not is_hanging:
        if replies and not replies[-1].is_whole:
            faults.append(f"a reply is cut: {received[-200:]!r}")
        faults += _unanswered(case, replies)
    return faults


def faults_of_reply(reply: Reply) -> list[str]:
    if reply.status >= _SERVER_ERROR:
        return [f"{reply.status}: {reply.body[:300]!r}"]
    if reply.status >= _CLIENT_ERROR and reply.is_whole:
        return _faults_of_refusal(reply)
    return []


def _faults_of_refusal(reply: Reply) -> list[str]:
    """OpenAI's envelope, with words in it."""
    try:
        error = json.loads(reply.body)["error"]
        is_well_formed = error.keys() >= _ENVELOPE and isinstance(error["message"], str) and error["message"]
    except (ValueError, KeyError, TypeError, AttributeError):
        is_well_formed = False
    return [] if is_well_formed else [f"{reply.status} without an error object: {reply.body[:200]!r}"]


def _unanswered(case: Case, replies: list[Reply]) -> list[str]:
    """Right requests are answered in their order, whatever stands around them."""
    wanted = list(case.request_ids)
    answered = [reply.headers.get("x-request-id", "") for reply in replies if reply.status == _OK]
    # a route that is not captured tells no request id: it counts by its place
    found = [name or wanted[i] for i, name in enumerate(answered[: len(wanted)])]
    return [] if found == wanted else [f"answered {found} of {wanted}"]
