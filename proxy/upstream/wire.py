"""What a reply asks of the connection that it comes over."""

from typing import Protocol


class Parser(Protocol):
    def get_status_code(self) -> int: ...
    def should_keep_alive(self) -> bool: ...


class Wire(Protocol):
    """What a reply asks of its connection."""

    parser: Parser

    def resume_reading(self) -> None: ...
    def abort(self) -> None: ...
    def linger(self, seconds: float) -> None: ...
