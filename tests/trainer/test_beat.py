"""Beat is healthy when it sent something, not when its process lives."""

from datetime import timedelta
from pathlib import Path

import pytest
from celery import Celery
from celery.beat import ScheduleEntry, Scheduler, SchedulingError

from trainer.beat import scheduler_with


def make_scheduler(broker: str, health_file: Path | None) -> tuple[Scheduler, ScheduleEntry]:
    app = Celery("beat", broker=broker, set_as_current=False)
    app.conf.update(broker_transport_options={"socket_connect_timeout": 1, "max_retries": 0})
    app.conf.beat_schedule = {"tick": {"task": "slipstream.tick", "schedule": timedelta(seconds=5)}}
    scheduler = scheduler_with(health_file)(app=app)
    return scheduler, scheduler.schedule["tick"]


def test_a_message_that_the_broker_took_is_a_sign_of_life(tmp_path: Path) -> None:
    scheduler, entry = make_scheduler("memory://", tmp_path / "beat")
    scheduler.apply_async(entry)
    assert (tmp_path / "beat").exists()


def test_a_broker_that_is_gone_leaves_no_sign_of_life(tmp_path: Path) -> None:
    scheduler, entry = make_scheduler("redis://127.0.0.1:9/0", tmp_path / "beat")
    with pytest.raises(SchedulingError):
        scheduler.apply_async(entry, retry=False)
    assert not (tmp_path / "beat").exists()


def test_without_a_health_file_beat_only_sends(tmp_path: Path) -> None:
    scheduler, entry = make_scheduler("memory://", None)
    scheduler.apply_async(entry)
    assert list(tmp_path.iterdir()) == []
