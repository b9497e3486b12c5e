"""A sink gets every published step once, in order, whatever happens to it; and nobody waits for it."""

from pathlib import Path
from threading import Event, Thread

import pytest

from ledger.policies import ensure_policy
from tests.trainer.sinks.conftest import FakeSink
from trainer.sinks import chosen, copying
from trainer.sinks.chosen import Sinks
from trainer.sinks.copying import LONGEST_REST_SECONDS, Copying
from trainer.sinks.position import held_position
from trainer.sinks.sink import run_name


def test_published_steps_are_copied_in_order_and_others_are_not(engine, policy, add_step, sink) -> None:
    for version, state in [(2, "published"), (1, "published"), (3, "failed"), (3, "skipped"), (4, "saved")]:
        add_step(policy, version, state)
    assert Copying(sink, engine, lambda: [policy]).copy() == 2
    assert sink.written == [("default", 1), ("default", 2)]


def test_a_step_is_copied_once_also_by_the_next_worker(engine, policy, add_step, sink) -> None:
    add_step(policy, 1)
    first = Copying(sink, engine, lambda: [policy])
    assert (first.copy(), first.copy()) == (1, 0)
    add_step(policy, 2)
    again = FakeSink(sink.folder)
    assert Copying(again, engine, lambda: [policy]).copy() == 1
    assert again.written == [("default", 2)]


def test_a_policy_with_a_slash_in_its_name_is_copied_as_any(engine, add_step, sink) -> None:
    with engine.begin() as connection:
        policy = ensure_policy(connection, name="org/model", base_model="m")
    add_step(policy, 1)
    assert Copying(sink, engine, lambda: [policy]).copy() == 1
    assert sink.written == [("org/model", 1)]


def test_a_long_line_is_copied_whole(engine, policy, add_step, sink, monkeypatch) -> None:
    monkeypatch.setattr(copying, "AT_ONCE", 2)
    for version in range(1, 6):
        add_step(policy, version)
    assert Copying(sink, engine, lambda: [policy]).copy() == 5


def test_a_sink_that_fails_loses_nothing_and_is_tried_again_more_and_more_seldom(
    engine, policy, add_step, sink
) -> None:
    add_step(policy, 1)
    sink.broken = OSError("No space left on device")
    copier = Copying(sink, engine, lambda: [policy], look_seconds=10.0)
    assert [copier.look() for _ in range(3)] == [20.0, 40.0, 80.0]
    assert sink.num_closed == 3  # what it held may have been what was broken
    copier.num_failures = 60
    assert copier.look() == LONGEST_REST_SECONDS
    sink.broken = None
    assert copier.look() == 10.0
    assert sink.written == [("default", 1)]


def test_a_position_that_cannot_be_read_makes_it_write_all_again(engine, policy, add_step, sink) -> None:
    add_step(policy, 1)
    copier = Copying(sink, engine, lambda: [policy])
    copier.copy()
    (sink.folder / ".slipstream" / f"{run_name(policy)}.version").write_text("?")
    assert copier.copy() == 1


def test_what_another_process_holds_is_left_to_it(engine, policy, add_step, sink) -> None:
    add_step(policy, 1)
    with held_position(sink.folder, run_name(policy)) as held:
        assert held is not None
        assert Copying(sink, engine, lambda: [policy]).copy() == 0
    assert Copying(sink, engine, lambda: [policy]).copy() == 1


def test_a_sink_that_hangs_is_told_once_and_holds_up_no_other_and_not_the_end(
    engine, policy, add_step, sink, tmp_path: Path, monkeypatch, capsys
) -> None:
    entered, let_go = Event(), Event()

    class Hanging(FakeSink):
        name = "hanging"

        def write(self, policy, row) -> None:
            entered.set()
            let_go.wait(60)

    monkeypatch.setattr(copying, "HANG_SECONDS", 0.0)
    monkeypatch.setattr(copying, "END_SECONDS", 0.0)
    told: list[str] = []
    monkeypatch.setattr(chosen.logger, "warning", lambda event, **_: told.append(event), raising=False)
    add_step(policy, 1)
    sinks = Sinks([Hanging(tmp_path / "hanging"), sink], engine, lambda: [policy])
    sinks.start()
    try:
        assert entered.wait(30)
        deadline = Event()
        for _ in range(600):
            if sink.written:
                break
            deadline.wait(0.05)
        assert sink.written == [("default", 1)]
        sinks.tell_hanging()
        sinks.tell_hanging()
        assert told == ["sink_hangs"]
        ending = Thread(target=lambda: [one.end(0.0) for one in sinks.copying])
        ending.start()
        ending.join(30)
        assert not ending.is_alive()
    finally:
        let_go.set()
        sinks.end()


@pytest.mark.parametrize("project", ["default", "acme"])
def test_a_line_has_a_run_of_its_own_in_each_ledger(policy, project) -> None:
    from dataclasses import replace

    from ledger.identifiers import new_id

    one, other = replace(policy, project=project), replace(policy, project=project, id=new_id())
    assert run_name(one).startswith(one.line + "-")
    assert run_name(one) != run_name(other)
