"""A recorded exchange: what was asked, and the reply in the pieces in which it came.

`chunks` are the pieces of HTTP's chunked coding, which for a stream are what vLLM yielded one by one; a whole reply
is one piece. All of it is UTF-8, so that the files can be read and reviewed.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.corpus.scenario import Asked

DIRECTORY = Path(__file__).parent / "replies"
KEPT_HEADERS = ("allow", "content-length", "content-type", "transfer-encoding", "vary")


@dataclass(frozen=True)
class Recorded:
    asked: Asked
    status: int
    headers: dict[str, str]
    chunks: tuple[str, ...]
    is_broken: bool = False  # the connection broke off in the middle of the body

    @property
    def raw(self) -> bytes:
        return "".join(self.chunks).encode()

    def json(self) -> Any:
        return json.loads(self.raw)

    def events(self) -> list[Any]:
        """The parsed data of a stream's events; `[DONE]` stays text."""
        frames = [frame for frame in self.raw.decode().split("\n\n") if frame]
        data = [frame.rpartition("data: ")[2] for frame in frames]
        return [item if item == "[DONE]" else json.loads(item) for item in data]


def store(name: str, server: str, version: str, recorded: list[Recorded]) -> None:
    DIRECTORY.mkdir(exist_ok=True)
    whole = {"vllm": version, "server": server, "exchanges": [_written(one) for one in recorded]}
    text = json.dumps(whole, indent=1, ensure_ascii=False)
    (DIRECTORY / f"{name}.json").write_text(text + "\n")


def _written(one: Recorded) -> dict[str, Any]:
    broken = {"is_broken": True} if one.is_broken else {}
    return {
        **asdict(one.asked),
        "status": one.status,
        "reply_headers": one.headers,
        **broken,
        "chunks": one.chunks,
    }


@cache
def load(name: str) -> tuple[Recorded, ...]:
    whole = json.loads((DIRECTORY / f"{name}.json").read_text())
    return tuple(_read(item) for item in whole["exchanges"])


def _read(item: dict[str, Any]) -> Recorded:
    asked = Asked(
        item["form"], item["is_streamed"], item["method"], item["path"], item["headers"], item["body"]
    )
    is_broken = item.get("is_broken", False)
    return Recorded(asked, item["status"], item["reply_headers"], tuple(item["chunks"]), is_broken)


def names() -> list[str]:
    return sorted(path.stem for path in DIRECTORY.glob("*.json"))


def everything() -> Iterator[tuple[str, Recorded]]:
    for name in names():
        yield from ((name, one) for one in load(name))


def one(name: str, form: str = "proxy", *, is_streamed: bool = False) -> Recorded:
    """The exchange of a scenario that was asked in this way."""
    [found] = [r for r in load(name) if r.asked.form == form and r.asked.is_streamed is is_streamed]
    return found
