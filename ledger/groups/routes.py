"""A trajectory's route: what calls of one kind have in common beside the task. Rewards are compared within a route.

Computed once, from the call that began the trajectory: the digest of a name that the caller gave, or of its endpoint,
the system's words (and who spoke before them) and the tools. Digits count as alike: a prompt that says today's date, or
the time, would be another route with every call. A name is kept nowhere: it may name a person, and baselines outlive erasures.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from msgspec.json import Encoder

from ledger.drafts import Draft
from ledger.records import CallRecord
from ledger.text import to_name

_SYSTEM_ROLES = ("system", "developer")
_SYSTEM_FIELDS = ("system", "instructions")  # where messages and responses say it
_DIGITS = re.compile("[0-9]+")
_LENGTH = 32  # hex digits
_encode = Encoder(order="sorted").encode


class Routes:
    """The routes of a batch: the choices of one call have theirs together."""

    def __init__(self) -> None:
        self._known: dict[UUID, str] = {}

    def of(self, draft: Draft) -> str | None:
        """None: nothing is left that it could be told from."""
        call = draft.call
        if call.is_erased:
            return None
        if call.call_id not in self._known:
            self._known[call.call_id] = route_of(call)
        return self._known[call.call_id]


def route_of(call: CallRecord) -> str:
    if call.attribution.route:
        return route_named(call.attribution.route)
    parts = [call.endpoint, *_said(call.messages), *_fields(call.request)]
    tools = call.request.get("tools")
    if tools is not None:
        parts.append(_json(tools))
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode(errors="surrogatepass")
        digest.update(b"%d:" % len(encoded) + encoded)  # no part is taken for two
    return digest.hexdigest()[:_LENGTH]


def route_named(name: str) -> str:
    """Example: "support" -> "76a1…", as docs/http.md computes it in SQL."""
    return hashlib.sha256(f"X-Route:{to_name(name)}".encode()).hexdigest()[:_LENGTH]


def _said(messages: list[Any] | None) -> Iterator[str]:
    """Of each system message: the roles before it, and its text. Where there is none, the roles tell nothing."""
    roles: list[str] = []
    for message in messages or ():
        if not isinstance(message, dict):
            continue
        role = message.get("role")
        if role in _SYSTEM_ROLES:
            yield ",".join(roles)
            yield _template(message.get("content"))
        roles.append(str(role))


def _fields(request: dict[str, Any]) -> Iterator[str]:
    for name in _SYSTEM_FIELDS:
        if value := request.get(name):
            yield name
            yield _template(value)


def _template(content: Any) -> str:
    return _DIGITS.sub("0", _text(content))


def _text(content: Any) -> str:
    """A string, or the parts of one; anything else as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            part["text"] if isinstance(part, dict) and isinstance(part.get("text"), str) else _json(part)
            for part in content
        )
    return _json(content)


def _json(value: Any) -> str:
    """Equal values give equal texts: what the fast way does not take, such as a lone surrogate, it never takes."""
    try:
        try:
            return _encode(value).decode()
        except (UnicodeEncodeError, OverflowError, TypeError):
            return json.dumps(value, sort_keys=True)
    except RecursionError:  # nested deeper than Python goes: all that are so are alike
        return "deep"
