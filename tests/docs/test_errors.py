"""docs/http.md lists every error that a client may meet: its status with its code."""

import re
from collections.abc import Iterator
from pathlib import Path

from proxy.errors import ProxyError

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8").partition("\n## Errors\n")[2]
LISTED = re.findall(r"^\| (\d{3}) \| ([^|]+) \|", TABLE, re.MULTILINE)
DOCUMENTED = {(int(status), code) for status, codes in LISTED for code in re.findall(r"\w+", codes)}
# LiteLLM's process says these; it is read as text, since importing it takes seconds.
EXTERNAL = {
    (502, code)
    for code in re.findall(r'"(external_\w+)"', (ROOT / "proxy/external/child/failures.py").read_text())
}


def kinds(root: type[ProxyError]) -> Iterator[type[ProxyError]]:
    yield root
    for kind in root.__subclasses__():
        yield from kinds(kind)


def raised() -> set[tuple[int, str]]:
    return {(kind.status, kind.code or "null") for kind in kinds(ProxyError)}


def test_every_error_of_the_proxy_is_documented_with_its_status_and_no_other() -> None:
    assert len(EXTERNAL) == 3
    assert raised() | EXTERNAL == DOCUMENTED


def test_each_code_is_documented_once() -> None:
    codes = [code for _, listed in LISTED for code in re.findall(r"\w+", listed) if code != "null"]
    assert len(codes) == len(set(codes))
