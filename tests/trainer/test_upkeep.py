"""What the worker does beside training: beat asks for it, and what it did is in its log."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import text
from structlog.testing import capture_logs

from ledger.policies import ensure_policy
from ledger.recording import record_calls
from ledger.retention import set_retention
from tests.ledger.retained import then
from trainer.celery_app import JUDGE, PARTITIONS, RETENTION, create_celery
from trainer.judge.thread import JudgeThread
from trainer.ticker import Ticker
from trainer.worker import register_tasks


def test_beat_asks_for_partitions_retention_and_judging_and_the_worker_carries_them_out(
    engine, settings_of, monkeypatch
) -> None:
    """I10: a month that nobody keeps goes, logged and counted; where its table is in use, the next run takes it."""
    monkeypatch.setattr("ledger.removal.LOCK_TIMEOUT", "20ms")
    app = create_celery(settings_of())
    judge = JudgeThread(None, 60)
    register_tasks(app, Ticker(settings_of(), lambda: None), engine, judge)
    asked = {entry["task"] for entry in app.conf.beat_schedule.values()}
    assert {PARTITIONS, RETENTION, JUDGE} < asked
    app.tasks[JUDGE].run()
    assert judge._watch._woken.is_set()
    with engine.begin() as connection:
        ensure_policy(connection, name="default", base_model="b")
        set_retention(connection, "default", None, 30)
        record_calls(connection, [then(datetime.now(UTC) - timedelta(days=200))])
    with capture_logs() as logs:
        app.tasks[PARTITIONS].run()
        with engine.connect() as analyst:
            analyst.execute(text("SELECT count(*) FROM exchanges"))
            app.tasks[RETENTION].run()
        assert [line.get("reason") for line in logs[1:]] == ["a table is in use"]
        app.tasks[RETENTION].run()
    events = [(line["event"], line.get("table"), line.get("num_rows")) for line in logs]
    assert ("partition_dropped", "exchanges", 1) in events
    assert ("partition_dropped", "trajectories", 1) in events
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM exchanges")) == 0
        assert connection.scalar(text("SELECT sum(num_rows) FROM removals")) == 2
