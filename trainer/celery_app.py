"""The Celery application: tasks that only say "look", on one queue.

Losing a message, or getting it twice, changes nothing: Postgres decides (I6). So messages are acknowledged early, kept
for one tick only, and no result is stored.
"""

from datetime import timedelta

from celery import Celery

from ledger.vocabulary import TICK_TASK, TRAINING_QUEUE
from trainer.settings import TrainerSettings

PARTITIONS = "slipstream.partitions"
# Beat forgets when it last ran; half-hourly is often enough that no restart loses a day, and a look costs nothing.
PARTITIONS_EVERY = timedelta(minutes=30)
JUDGE = "slipstream.judge"
JUDGE_EVERY = timedelta(seconds=30)
RETENTION = "slipstream.retention"
RETENTION_EVERY = timedelta(hours=1)
RETENTION_SECONDS = 60.0  # a run never holds up training for longer; what is left is the next one's
SIBLINGS = "slipstream.siblings"


def create_celery(settings: TrainerSettings, siblings_every: float | None = None) -> Celery:
    """An application that knows the schedule; the tasks themselves are registered by trainer.worker.

    `siblings_every`: in seconds; None: no siblings are made.
    """
    app = Celery("slipstream", broker=settings.redis_url)
    app.conf.update(
        task_default_queue=TRAINING_QUEUE,
        task_ignore_result=True,
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_send_task_events=False,
        worker_pool="solo",  # no fork: CUDA cannot be used after one (B156)
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 10,
            "visibility_timeout": 3600,  # means nothing here: messages are acknowledged before the task runs
        },
        beat_schedule=schedule(settings, siblings_every),
        beat_max_loop_interval=max(1, int(settings.tick_seconds)),
        timezone="UTC",
    )
    return app


def schedule(settings: TrainerSettings, siblings_every: float | None) -> dict[str, dict[str, object]]:
    """A tick that waits longer than until the next one is dropped: they never pile up behind a long step."""
    tick = {
        "task": TICK_TASK,
        "schedule": timedelta(seconds=settings.tick_seconds),
        "options": {"expires": settings.tick_seconds},
    }
    partitions = {"task": PARTITIONS, "schedule": PARTITIONS_EVERY, "options": {"expires": 60}}
    retention = {
        "task": RETENTION,
        "schedule": RETENTION_EVERY,
        "options": {"expires": RETENTION_EVERY.total_seconds()},
    }
    judge = {"task": JUDGE, "schedule": JUDGE_EVERY, "options": {"expires": JUDGE_EVERY.total_seconds()}}
    tasks = {"tick": tick, "partitions": partitions, "retention": retention, "judge": judge}
    if siblings_every is not None:
        every = timedelta(seconds=siblings_every)
        tasks["siblings"] = {"task": SIBLINGS, "schedule": every, "options": {"expires": siblings_every}}
    return tasks
