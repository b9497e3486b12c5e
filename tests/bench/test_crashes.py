"""bench/crashes: each count can fail, each act happens at its point and once, and the matrix leaves nothing out."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from bench.crashes import hooks
from bench.crashes.account import Account, Expected, account
from bench.crashes.clock import compiled, preloaded
from bench.crashes.crew import TooLateError, wait_for
from bench.crashes.matrix import cases
from bench.crashes.points import COMMITS, Act, Call, Commit, Fault
from bench.crashes.replica import SmallReplica
from bench.crashes.result import Result, figures_of
from bench.gateway.children import ROOT, environment
from ledger.identifiers import new_id
from ledger.policies import ensure_policy
from ledger.vocabulary import ACTIVE_STEP_STATES, StepState

DIGEST = "a" * 64
FOUND = {"default@1": (DIGEST, "b" * 64)}
STEP = (
    "INSERT INTO training_steps (id, policy_id, version, parent_version, state, seed, settings, attempt, reason)"
    " VALUES (:id, :policy, :version, 0, :state, 1, '{}', :attempt, :reason)"
)
VERSION = (
    "INSERT INTO policy_versions (policy_id, version, parent_version, state, adapter_path, adapter_sha256)"
    " VALUES (:policy, 1, 0, 'published', 'default@1', :sha256) ON CONFLICT DO NOTHING"
)


class Loaded(SmallReplica):
    """Has what it is told to have; no model."""

    def __init__(self, digest: str | None = DIGEST) -> None:
        self._digest = digest
        self.url = "http://replica"

    def digests(self) -> dict[str, str]:
        return {"default@1": self._digest} if self._digest else {}


@pytest.fixture
def publish(engine: Engine) -> Callable[..., None]:
    def make(version: int = 1, state: str = "published", attempt: int = 1, reason: str | None = None) -> None:
        with engine.begin() as connection:
            policy = ensure_policy(connection, name="default", base_model="m")
            values = {"id": new_id(), "policy": policy.id, "sha256": DIGEST, "version": version}
            connection.execute(text(STEP), values | {"state": state, "attempt": attempt, "reason": reason})
            if state == "published" and version == 1:
                connection.execute(text(VERSION), values)
                connection.execute(text("UPDATE policies SET live_version = 1"))

    return make


def faults(engine: Engine, **changes: object) -> list[str]:
    values = {"found": FOUND, "reference": FOUND, "replicas": [Loaded()], "expected": Expected(1)} | changes
    return account(engine, **values).faults  # type: ignore[arg-type]


def test_a_step_that_came_as_undisturbed_has_no_fault(engine: Engine, publish: Callable[..., None]) -> None:
    publish()
    assert faults(engine) == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"reference": {"default@1": (DIGEST, "c" * 64)}}, "other bytes"),
        ({"found": {"default@1": ("c" * 64, "b" * 64)}}, "another digest than the disk"),
        ({"found": {**FOUND, ".default@1.x": ("", "")}}, "on disk there are"),
        ({"replicas": [Loaded(), Loaded(None)]}, "does not have the live version"),
        ({"expected": Expected(2)}, "the steps made the versions"),
        ({"expected": Expected(1, num_failed=1)}, "0 steps failed"),
        ({"expected": Expected(1, attempts=2)}, "attempts instead of 2"),
    ],
)
def test_whatever_is_other_than_it_should_be_is_named(
    engine: Engine, publish: Callable[..., None], changes: dict[str, object], fault: str
) -> None:
    publish()
    assert any(fault in found for found in faults(engine, **changes))


def test_a_gap_a_second_step_for_a_version_and_an_unfinished_one_are_named(
    engine: Engine, publish: Callable[..., None]
) -> None:
    publish()
    publish(version=3)
    assert any("versions [1, 3]" in fault for fault in faults(engine, expected=Expected(2)))
    publish(version=1)
    publish(version=4, state="saved")
    found = faults(engine)
    assert any("versions [1, 3, 1]" in fault for fault in found)
    assert any("left saved" in fault for fault in found)


def test_a_step_that_failed_needs_a_reason(engine: Engine, publish: Callable[..., None]) -> None:
    publish()
    publish(version=2, state="failed")
    assert "steps failed with the reasons [None]" in faults(engine, expected=Expected(1, num_failed=1))
    with engine.begin() as connection:
        connection.execute(text("UPDATE training_steps SET reason = 'token 100' WHERE state = 'failed'"))
    assert faults(engine, expected=Expected(1, num_failed=1, reason="100")) == []
    assert faults(engine, expected=Expected(1, num_failed=1, reason="died")) != []


def test_a_group_that_nobody_trained_is_named(engine: Engine, publish: Callable[..., None]) -> None:
    from bench.crashes.traffic import add_batch

    publish()
    add_batch(engine, "m", 1)
    assert "2 groups are open and their step says otherwise" in faults(engine)


def test_every_state_of_a_step_is_crashed_into_on_both_sides() -> None:
    wanted = {
        (state, is_after)
        for state in (*ACTIVE_STEP_STATES, StepState.PUBLISHED)
        for is_after in (False, True)
    }
    assert {(StepState(point.state), point.is_after) for point in COMMITS} == wanted
    names = [(case.kind, case.name) for case in cases(3)]
    assert len(set(names)) == len(names)
    for state in StepState:
        assert sum(name.startswith(f"{state}: just") for _, name in names) == 2


def test_a_round_that_did_not_end_is_a_miss_and_figures_count_it() -> None:
    good = Result("kill", "x", 3, [1.0, 2.5], Account(3, 0))
    late = replace(good, account=None, late=["version 1 did not come"])
    other = replace(good, account=Account(3, 1, ["default@1 has other bytes"]))
    assert [each.is_met for each in (good, late, other)] == [True, False, False]
    assert list(late.misses()) == ["kill, x: version 1 did not come"]
    assert figures_of([good, late, other]) == {
        "num_crashes": 3, "num_met": 1, "num_kills": 9, "num_versions": 6, "num_other_bytes": 1,
        "published_seconds_max": 2.5,
    }  # fmt: skip


def in_child(code: str, directory: Path, **values: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, str(directory)]
    return subprocess.run(
        command, cwd=ROOT, env=environment(**values), capture_output=True, text=True, check=False, timeout=60
    )


LAY = """
import sys
from pathlib import Path
from bench.crashes import hooks
from bench.crashes.points import Act, Call, Commit, Fault
here = Path(sys.argv[1])
"""


def test_a_worker_dies_at_its_point_once_for_each_time_it_is_armed(tmp_path: Path) -> None:
    code = LAY + (
        "import glob\nhooks.lay(Fault(Call('x', 'glob', 'glob', 2)), here)\n"
        "glob.glob('1'); print('first', flush=True); glob.glob('2'); print('second')\n"
    )
    assert in_child(code, tmp_path).stdout == "first\nsecond\n"  # it is not armed
    (tmp_path / hooks.ARMED).touch()
    ended = in_child(code, tmp_path)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "first\n")
    assert [path.name for path in tmp_path.iterdir()] == [hooks.FIRED]
    assert in_child(code, tmp_path).returncode == 0


@pytest.mark.parametrize("is_after", [False, True])
def test_a_worker_dies_just_before_or_just_after_the_commit(
    engine: Engine, database_url: str, tmp_path: Path, publish: Callable[..., None], is_after: bool
) -> None:
    publish(state="claimed")
    code = LAY + (
        f"hooks.lay(Fault(Commit('built', {is_after})), here)\n"
        "from ledger.database import sync_engine\nfrom trainer import transitions\n"
        f"engine = sync_engine({database_url!r})\n"
        "with engine.begin() as connection:\n"
        "    connection.execute(transitions.MOVE, dict(id=connection.execute(transitions.text('SELECT id FROM training_steps'))"
        ".scalar(), token=1, state='built', from_states=['claimed'], metrics='{}', reason=None, is_final=False))\n"
    )
    (tmp_path / hooks.ARMED).touch()
    ended = in_child(code, tmp_path)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    with engine.connect() as connection:
        state = connection.execute(text("SELECT state FROM training_steps")).scalar()
    assert state == ("built" if is_after else "claimed")


def test_a_clock_jumps_for_one_process_alone(tmp_path: Path) -> None:
    code = (
        "import time, datetime\nfrom bench.crashes.clock import jump\nwall, steady = time.time(), time.monotonic()\n"
        "jump(86400)\nnow = datetime.datetime.now().timestamp()\n"
        "print(round(time.time() - wall, -2), round(now - wall, -2), round(time.monotonic() - steady))"
    )
    with preloaded(compiled(tmp_path)):
        preload = os.environ["LD_PRELOAD"]
    ended = in_child(code, tmp_path, LD_PRELOAD=preload)
    assert ended.stdout == "86400.0 86400.0 0\n", ended.stderr
    assert (
        "did not jump" in in_child(code, tmp_path).stderr
        or "undefined symbol" in in_child(code, tmp_path).stderr
    )


def test_what_is_waited_for_in_vain_is_named() -> None:
    began = time.monotonic()
    with pytest.raises(TooLateError, match=r"the moon did not come within 0\.1 s"):
        wait_for("the moon", lambda: False, 0.1)
    assert time.monotonic() - began < 10


def test_points_have_names_that_say_what_happens() -> None:
    assert Commit("saved", is_after=True).name == "saved: just after its commit"
    assert Fault(Call("x", "glob", "glob")).act is Act.DIE
