"""A tick for the worker, through the broker: a hint, which may be lost."""

from ledger.vocabulary import TICK_TASK, TRAINING_QUEUE
from slipstream.errors import NotRunningError
from slipstream.running import find_running


def send_tick() -> None:
    """Raises NotRunningError if the broker does not take it."""
    from celery import Celery

    broker = find_running().require("REDIS_URL")
    try:
        with Celery(broker=broker, set_as_current=False) as app:
            app.conf.broker_transport_options = {"socket_connect_timeout": 5, "socket_timeout": 5}
            app.send_task(TICK_TASK, queue=TRAINING_QUEUE, retry=False)
    except Exception as error:  # kombu raises what its transport raises
        raise NotRunningError(f"The broker does not take the tick: {error}. Check REDIS_URL.") from error
