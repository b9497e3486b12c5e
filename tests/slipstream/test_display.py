"""What `slipstream up` shows: a table in a terminal, lines elsewhere; the last lines of a log without colours."""

import io
from pathlib import Path

from rich.console import Console

from slipstream.local.child import Child, ChildSpec, State
from slipstream.local.display import Display, progress_of
from slipstream.local.logtail import MAX_BYTES, rotate, tail


def test_elsewhere_than_in_a_terminal_events_are_plain_lines() -> None:
    output = io.StringIO()
    with Display(Console(file=output, width=40)) as display:
        display.line("vllm is ready after 31.0 s, as [every] line that is longer than the console")
    assert output.getvalue().count("\n") == 1
    assert output.getvalue().endswith(
        "vllm is ready after 31.0 s, as [every] line that is longer than the console\n"
    )


def test_in_a_terminal_a_table_shows_each_childs_state_and_progress(tmp_path: Path) -> None:
    output = io.StringIO()
    child = Child(ChildSpec("model", "", command=("true",)), tmp_path / "log")
    child.state, child.started_at = State.STARTING, 1.0
    child.log.write_text('{"progress": 0.4, "phase": "reading the weights"}\n')
    with Display(Console(file=output, force_terminal=True, width=100)) as display:
        display.draw([child])
    assert "model" in output.getvalue()
    assert "reading the weights" in output.getvalue()


def test_a_line_that_is_no_progress_is_shown_as_it_is() -> None:
    assert progress_of("INFO loading") is None
    assert progress_of('{"progress": 0.4, "phase": "writing"}') == (0.4, "writing")


def test_the_tail_of_a_log_begins_where_this_start_began(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("old\n")
    start = rotate(log)
    with log.open("a") as file:
        file.write("\x1b[31mred\x1b[0m\n\n0%\r50%\r100%\n")
    assert tail(log, 3, start) == ["0%", "50%", "100%"]
    assert tail(log, 9, start) == ["red", "0%", "50%", "100%"]


def test_a_big_log_is_turned_over_at_a_start(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(MAX_BYTES)
    assert rotate(log) == 0
    assert not log.exists()
    assert (tmp_path / "log.1").exists()
