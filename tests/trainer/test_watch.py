"""The thread that makes siblings: woken by Celery or by itself, and never in a tick's way."""

from threading import Event

from tests.proxy.running import eventually
from trainer.celery_app import SIBLINGS, create_celery
from trainer.watch import Watch


def test_it_works_when_it_is_woken_and_whoever_wakes_it_does_not_wait() -> None:
    began, go_on, passes = Event(), Event(), []

    def make() -> int:
        passes.append(1)
        began.set()
        go_on.wait(20)
        return 0

    watch = Watch("siblings", make, silence_seconds=3600)
    watch.start()
    assert passes == []
    watch.wake()
    assert began.wait(20)
    watch.wake()  # returns while a pass runs, and is not lost
    go_on.set()
    eventually(lambda: len(passes) == 2)
    watch.end()


def test_it_works_by_itself_where_celery_is_silent_and_after_an_error() -> None:
    passes: list[int] = []

    def make() -> int:
        passes.append(1)
        raise ValueError

    watch = Watch("siblings", make, silence_seconds=0.01)
    watch.start()
    eventually(lambda: len(passes) >= 3)
    watch.end()


def test_beat_knows_of_siblings_only_where_they_are_made(settings_of) -> None:
    assert "siblings" not in create_celery(settings_of()).conf.beat_schedule
    entry = create_celery(settings_of(), 15.0).conf.beat_schedule["siblings"]
    assert (entry["task"], entry["options"]) == (SIBLINGS, {"expires": 15.0})
