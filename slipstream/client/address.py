"""Where the proxy is and with which key: from the arguments, else from the environment that the openai SDK reads."""

import os
import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

DEFAULT_URL = "http://127.0.0.1:4000"  # `slipstream up`
_OWN_PATH = re.compile(r"(/sessions/[^/]+)?(/v1)?/*$")
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Address:
    url: str  # without /v1 and without a slash at its end
    key: str | None = field(default=None, repr=False)
    is_given: bool = True  # by anybody; else it is only where `slipstream up` would listen

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None) -> "Address":
        environment = os.environ
        given = base_url or environment.get("SLIPSTREAM_URL") or environment.get("OPENAI_BASE_URL")
        url = _OWN_PATH.sub("", str(given or DEFAULT_URL))
        return cls(url, api_key or environment.get("OPENAI_API_KEY"), is_given=bool(given))

    @property
    def v1(self) -> str:
        return f"{self.url}/v1"

    def is_of(self, url: str) -> bool:
        """Whether `url` leads to the same server."""
        try:
            return _origin(urlsplit(url)) == _origin(urlsplit(self.url))
        except ValueError:  # no URL
            return False


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    host = "loopback" if url.hostname in _LOOPBACK else url.hostname
    return url.scheme, host, url.port or _PORTS.get(url.scheme)
