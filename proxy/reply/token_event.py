"""The event that vLLM writes most, one token of one choice of a chat, cut by one pattern instead of a parser.

Invariant: it takes an event only if the pattern matches all of it; the bytes and the record are those that the general
way gives (a property test holds them against each other). Anything else is left to the general way.
"""

import re
from collections.abc import Sequence

from proxy.reply.capture import Capture
from proxy.reply.sse import Event
from proxy.splice import Edit, Member, edited, encoded

_NUMBER = rb"(?:0|[1-9][0-9]{0,9})"
_INDEX, _ID = rb"(?:0|[1-9][0-9]{0,3})", rb"(?:0|[1-9][0-9]{0,8})"  # more is left to the general way
_STRING = rb'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*'
_TOKEN = re.compile(
    rb'(%(index)b),"delta":\{"content":"(%(string)b)"\},'
    rb'"logprobs":\{"content":\[\{"token":"%(string)b","logprob":(-?%(number)b\.[0-9]{1,40}(?:e-?[0-9]{1,3})?),'
    rb'"bytes":\[(?:%(number)b(?:,%(number)b)*)?\],"top_logprobs":\[\]\}\]\},'
    rb'"finish_reason":(null|"[a-z_]+")(,"stop_reason":null)?,'
    rb'"token_ids":\[(%(id)b)\]\}\]((?:,"system_fingerprint":"%(string)b")?\})'
    % {b"number": _NUMBER, b"string": _STRING, b"index": _INDEX, b"id": _ID}
).fullmatch
_FIRST_CHOICE = '[{"index":'


class TokenEvents:
    """Learns from the first event of a stream what all its events begin with: id, time, model."""

    __slots__ = ("_capture", "_head", "_shown_head")

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._head = b""
        self._shown_head = b""

    def learn(self, text: str, found: Sequence[Member], edits: Sequence[Edit]) -> None:
        """From an event that went the general way, with the edits that were made to it."""
        if self._head:
            return
        choices = next((member for member in found if member.key == "choices"), None)
        if choices is None or not text.startswith(_FIRST_CHOICE, choices.value_start):
            return
        end = choices.value_start + len(_FIRST_CHOICE)
        before = [edit for edit in edits if edit[1] <= end]
        if all(edit[0] >= end for edit in edits if edit not in before):
            self._head = encoded(text[:end])
            self._shown_head = b"data: " + encoded(edited(text[:end], before))

    def event(self, event: Event) -> bytes | None:
        """What the client sees of a token's event; None if it is no such event."""
        data, head = event.data, self._head
        if not head or event.name is not None or not data.startswith(head):
            return None
        match = _TOKEN(data, len(head))
        if match is None:
            return None
        index, text, logprob, finish, stop, ids, rest = match.groups()
        choice = self._capture.choice(int(index))
        choice.add_raw(text, ids, logprob)
        self._capture.has_generated = True
        if finish != b"null":
            choice.finish_reason = finish[1:-1].decode()
        return b'%b%b,"delta":{"content":"%b"},"logprobs":null,"finish_reason":%b%b}]%b\n\n' % (
            self._shown_head,
            index,
            text,
            finish,
            stop or b"",
            rest,
        )
