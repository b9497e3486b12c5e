"""The worker makes siblings beside its ticks, as its environment says; Celery's task only wakes the thread."""

from threading import Event

from tests.proxy.running import eventually
from tests.servers import free_port
from tests.trainer.siblings.originals import add_original, shadows
from tests.trainer.test_worker import running
from tests.trainer.traffic import begin_policy, one
from trainer.celery_app import SIBLINGS, create_celery
from trainer.watch import Watch
from trainer.worker import register_siblings


def test_the_task_wakes_the_thread(settings_of) -> None:
    made = Event()
    watch = Watch("siblings", lambda: made.set() or 0, silence_seconds=3600)
    watch.start()
    with create_celery(settings_of()) as app:
        register_siblings(app, watch)
        app.tasks[SIBLINGS].apply()
    assert made.wait(20)
    watch.end()


def test_a_worker_makes_siblings_as_its_environment_says(
    engine, database_url, settings_of, vllm, scorer, monkeypatch
) -> None:
    settings = settings_of(
        database_url=database_url,
        redis_url=f"redis://127.0.0.1:{free_port()}/0",
        upstream_urls=vllm.url,
        silence_seconds=0.5,
        step_groups=1000,
        step_max_groups=1000,
    )
    vllm.base_model = settings.base_model
    begin_policy(engine, settings.base_model)
    add_original(engine)
    monkeypatch.setenv("SLIPSTREAM_SIBLINGS", "2")
    monkeypatch.setenv("SLIPSTREAM_SCORER_URL", scorer.url)
    with running("run_worker", settings):
        eventually(lambda: len(shadows(engine)) == 2, 240)
        eventually(lambda: one(engine, "SELECT state FROM sibling_runs") == "finished", 60)
