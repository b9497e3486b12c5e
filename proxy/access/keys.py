"""The process' own table of live keys: asked for each call, without a database. The follower keeps it fresh.

Invariant: a key is looked up by the SHA-256 of the whole of it, so neither its beginning nor a stored hash opens
anything. Postgres may be away: the last table stays. Once a key has existed, the door never opens by itself again.
"""

import re
from collections.abc import Mapping
from hmac import compare_digest
from ipaddress import ip_address

from ledger.errors import LedgerError
from ledger.keys import KEY_START, KeyTable, LiveKey, hash_of
from proxy.access.caller import ANYONE, Caller
from proxy.errors import AuthenticationError
from proxy.settings import ProxySettings

_HOW = "Send `Authorization: Bearer KEY`; `slipstream keys create` makes one."
_IN_URL = re.compile(rb"sk(?:-|%2d)slip(?:-|%2d)[a-z0-9_%-]{32}", re.IGNORECASE)


class NoKeyError(LedgerError):
    """The proxy would serve strangers."""


class Keys:
    def __init__(self, table: KeyTable) -> None:
        self.is_open = not table.has_rows
        self._callers: dict[bytes, tuple[bytes, Caller]] = {}  # hash -> the hash, whose key it is
        self.replace(table)

    def replace(self, table: KeyTable) -> None:
        self.is_open = self.is_open and not table.has_rows
        self._callers = {key.key_hash: (key.key_hash, _caller(key)) for key in table.live}

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        """Raises AuthenticationError. While no key exists, whatever was sent is accepted."""
        if self.is_open:
            return ANYONE
        said = _said(headers)
        if said is None:
            raise AuthenticationError(f"No API key was sent. {_HOW}")
        digest = hash_of(said)
        key_hash, caller = self._callers.get(digest, (b"", None))
        if caller is None or not compare_digest(key_hash, digest):
            raise AuthenticationError(f"The API key is not known here, or was revoked. {_HOW}")
        return caller


def _caller(key: LiveKey) -> Caller:
    return Caller(key.project, key.id, key.scopes)


def _said(headers: Mapping[str, str]) -> str | None:
    """The bearer token; where there is no Authorization, what Anthropic's SDKs send."""
    if (authorization := headers.get("authorization")) is None:
        return headers.get("x-api-key", "").strip() or None
    scheme, _, token = authorization.strip().partition(" ")
    return (token.strip() or None) if scheme.lower() == "bearer" else None


def refuse_key_in_url(raw_path: bytes, query: bytes) -> None:
    """A URL lands in logs, histories and Referer headers: a key in one is burnt, and must not work."""
    if _IN_URL.search(raw_path) or _IN_URL.search(query):
        raise AuthenticationError(
            f"A key ({KEY_START}…) stands in the URL, where logs keep it: revoke it. {_HOW}"
        )


def require_key(table: KeyTable, settings: ProxySettings) -> None:
    """Whether the proxy may start. Raises NoKeyError where other machines could call it and no key exists."""
    if table.has_rows or settings.is_open_allowed or is_loopback(settings.host):
        return
    raise NoKeyError(
        f"SLIPSTREAM_HOST={settings.host} lets other machines call, and no key exists: make one with "
        "`slipstream keys create --scope infer --scope reward` while the stack runs on loopback, or name one in "
        "SLIPSTREAM_BOOTSTRAP_KEY for `slipstream migrate`. Behind a gateway that authenticates, "
        "SLIPSTREAM_ALLOW_OPEN=true starts without."
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can call. A name other than localhost may mean anything."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
