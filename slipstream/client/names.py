"""Names that travel in headers: 1 to 256 printable ASCII characters. Others are made fit, always alike, and logged."""

import hashlib
from typing import Any
from urllib.parse import quote

from slipstream.client.result import logger

_MAX_NAME = 256


def header_text(name: Any) -> str:
    """The name itself where it fits; else escaped, or its digest. Two equal names stay equal."""
    text = str(name)
    if _fits(text):
        return text
    escaped = quote(text, safe=" !#$&'()*+,/:;=?@[]", errors="surrogatepass").strip()
    fit = escaped if _fits(escaped) else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    logger.warning("name_changed to=%s: names are 1 to 256 printable ASCII characters", fit)
    return fit


def _fits(text: str) -> bool:
    return 0 < len(text) <= _MAX_NAME and text.isascii() and text.isprintable() and text == text.strip()
