"""The leash: nothing below it outlives the order to stop, or the death of who holds the pipe."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from slipstream.local import leash

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
WITH_RUNAWAY = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], start_new_session=True)
import time; time.sleep(600)
"""


def start(code: str, grace: float = 0.3) -> tuple["subprocess.Popen[bytes]", int]:
    read_end, write_end = os.pipe()
    options = [str(read_end), str(int(signal.SIGTERM)), str(grace), "-", "--"]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", leash.__file__, *options, sys.executable, "-c", code],
        pass_fds=[read_end], stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    os.close(read_end)
    return process, write_end


def finish(process: "subprocess.Popen[bytes]") -> int:
    with process:
        return process.wait(10)


def wait_for(condition: "callable[[], bool]", seconds: float = 10) -> None:  # type: ignore[valid-type]
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


def below(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize(("code", "expected"), [("raise SystemExit(0)", 0), ("raise SystemExit(7)", 7)])
def test_the_exit_code_is_the_commands(code: str, expected: int) -> None:
    process, pipe = start(code)
    assert finish(process) == expected
    os.close(pipe)


def test_a_command_that_cannot_start_says_so() -> None:
    read_end, write_end = os.pipe()
    command = [
        sys.executable,
        "-I",
        "-S",
        leash.__file__,
        str(read_end),
        "15",
        "1",
        "-",
        "--",
        "/no/such/program",
    ]
    result = subprocess.run(command, pass_fds=[read_end], capture_output=True, text=True, check=False)
    os.close(read_end), os.close(write_end)
    assert (result.returncode, "/no/such/program" in result.stderr) == (126, True)


def test_a_closed_pipe_ends_a_process_that_ignores_the_signal_after_its_grace() -> None:
    process, pipe = start(STUBBORN)
    assert process.stdout
    assert process.stdout.readline() == b"up\n"
    os.close(pipe)
    assert finish(process) == 128 + signal.SIGKILL


def test_the_order_to_kill_does_not_wait_for_the_grace() -> None:
    process, pipe = start(STUBBORN, grace=600)
    assert process.stdout
    process.stdout.readline()
    os.write(pipe, b"S")
    os.write(pipe, b"K")
    assert finish(process) == 128 + signal.SIGKILL
    os.close(pipe)


def test_a_grandchild_in_a_session_of_its_own_ends_too() -> None:
    process, pipe = start(WITH_RUNAWAY)
    assert process.stdout
    process.stdout.readline()
    everything = below(process)
    assert len(everything) == 2
    os.close(pipe)
    finish(process)
    assert not any(p.is_running() for p in everything)


def test_when_the_command_dies_what_it_started_ends() -> None:
    process, pipe = start(WITH_RUNAWAY)
    assert process.stdout
    process.stdout.readline()
    command, runaway = sorted(below(process), key=lambda p: p.create_time())
    command.kill()
    finish(process)
    assert not runaway.is_running()
    os.close(pipe)


def test_a_killed_leash_takes_its_command_with_it() -> None:
    process, pipe = start(STUBBORN)
    assert process.stdout
    process.stdout.readline()
    (command,) = below(process)
    process.kill()
    finish(process)
    wait_for(lambda: not command.is_running() or command.status() == psutil.STATUS_ZOMBIE)
    os.close(pipe)


def test_the_leash_needs_only_the_standard_library(tmp_path: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import leash; print([m for m in sys.modules if 'slipstream' in m])"
    command = [sys.executable, "-I", "-S", "-c", code, str(Path(leash.__file__).parent)]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.strip()
        == "[]"
    )
