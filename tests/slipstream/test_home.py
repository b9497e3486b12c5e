"""A home: one stack at a time, private files, nothing trusted that a crash may have left."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.errors import UsageError
from slipstream.local.home import Home, process_mark, write_private
from slipstream.local.recovery import recover


def test_a_second_stack_in_the_same_home_is_told_who_holds_it(home: Home) -> None:
    write_private(home / "run.json", {"supervisor": process_mark(os.getpid())})
    with (
        home.locked(),
        pytest.raises(UsageError, match=f"process {os.getpid()}.*slipstream down"),
        home.locked(),
    ):
        pass
    with home.locked():
        pass


def test_a_password_stays_the_same_and_only_we_can_read_it(home: Home) -> None:
    assert home.password("postgres") == home.password("postgres") != home.password("valkey")
    assert (home / "secrets.json").stat().st_mode & 0o777 == 0o600


def test_a_run_file_of_a_dead_stack_is_not_a_running_stack(home: Home) -> None:
    write_private(home / "run.json", {"supervisor": [os.getpid(), 12.0]})
    assert home.running() == {}


def test_a_torn_state_file_counts_as_none(home: Home) -> None:
    (home / "state.json").write_text('{"model": "/mod')
    assert home.remembered("model") is None


def test_a_home_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="--home"):
        Home.at(tmp_path / "file" / "home").create()


def test_recovery_ends_what_a_crashed_stack_left(home: Home) -> None:
    environment = {**os.environ, "SLIPSTREAM_STACK": str(home.root)}
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=environment) as orphan:
        write_private(home / "run.json", {"supervisor": [1, 1.0], "leashes": {"vllm": [1, 1.0]}})
        assert recover(home) == [
            "The last stack did not stop cleanly: 0 children were still ending, 1 were killed"
        ]
        assert orphan.wait(5) is not None
    assert recover(home) == []


def test_a_home_that_cannot_be_locked_is_one_sentence(home: Home) -> None:
    (home / "lock").mkdir()
    with pytest.raises(UsageError, match="--home"), home.locked():
        pass
