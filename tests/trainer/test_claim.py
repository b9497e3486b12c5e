"""Who may train what: claims, leases, fencing tokens and version numbers."""

from threading import Event
from time import monotonic, sleep
from typing import Any

import pytest
from sqlalchemy import text

from ledger.database import sync_engine
from ledger.vocabulary import StepState
from tests.trainer.rivals import steps_of
from tests.trainer.traffic import add_group, one, rows
from trainer import checkpoint, claim, transitions
from trainer import step as story
from trainer.errors import LeaseLostError, StepStoppedError
from trainer.lease import Lease
from trainer.step import resume_or_claim, tick


def expire(engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE training_steps SET lease_expires_at = now() - interval '1 second'"))


def test_i6_concurrent_claims_never_share_a_group_and_make_one_step(engine, make_trainer) -> None:
    """I6: two concurrent claims never share a group; of eight ticks at once, one gets a step."""
    trainers = [make_trainer(step_groups=3) for _ in range(8)]
    for seed in range(6):
        add_group(engine, seed, [1.0, 0.0])
    steps = steps_of(trainers)
    assert len(steps) == 1
    assert rows(engine, "SELECT state, step_id FROM groups") == [("claimed", steps[0].id)] * 6
    assert one(engine, "SELECT count(*) FROM training_steps") == 1


def test_claims_that_skip_the_policy_lock_still_never_share_a_group(engine, make_trainer) -> None:
    """The rows themselves are locked too: a second claim sees only groups that nobody has."""
    make_trainer()
    for seed in range(4):
        add_group(engine, seed, [1.0, 0.0])
    group_ids = [row.id for row in rows(engine, "SELECT id FROM groups")]
    with engine.begin() as first, engine.begin() as second:
        taken = list(first.execute(claim.LOCK_GROUPS, {"group_ids": group_ids[:3]}).scalars())
        left = list(second.execute(claim.LOCK_GROUPS, {"group_ids": group_ids}).scalars())
    assert set(taken) | set(left) == set(group_ids)
    assert not set(taken) & set(left)


def test_a_group_that_was_trained_is_never_claimed_again(engine, make_trainer) -> None:
    """I6: a group is trained at most once, whatever rewards come later."""
    from ledger.rewards.posting import post_reward
    from ledger.rewards.posts import RewardPost

    trainer = make_trainer()
    exchanges = add_group(engine, 1, [1.0, 0.0])
    assert tick(trainer).state is StepState.PUBLISHED
    with engine.begin() as connection:
        post_reward(connection, "default", RewardPost(str(exchanges[0]), value=-1.0, choice=0))
    assert tick(trainer) is None
    assert one(engine, "SELECT count(*) FROM step_samples") == 2


def test_a_second_tick_while_a_step_runs_returns_at_once(engine, make_trainer) -> None:
    """B098: a message delivered twice, or again after the visibility time-out, finds a living lease."""
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    _, step = resume_or_claim(trainer)
    assert step is not None
    began_at = monotonic()
    assert [tick(make_trainer()) for _ in range(4)] == [None] * 4
    assert monotonic() - began_at < 5
    assert rows(engine, "SELECT id, attempt, fencing_token FROM training_steps") == [(step.id, 1, 1)]


def test_a_lease_that_ran_out_is_taken_over_with_a_higher_token(engine, make_trainer) -> None:
    add_group_after = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    _, dead = resume_or_claim(add_group_after)
    expire(engine)
    _, step = resume_or_claim(make_trainer())
    assert (step.id, step.attempt, step.fencing_token) == (dead.id, 2, 2)


def test_whoever_was_fenced_out_cannot_write_anything(engine, make_trainer) -> None:
    """I6: the old token is refused at every transition, and the transaction with it."""
    first = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    learner, old = resume_or_claim(first)
    expire(engine)
    assert tick(make_trainer()).state is StepState.PUBLISHED
    for write in (
        lambda c: transitions.move(c, old, StepState.BUILT, [StepState.CLAIMED]),
        lambda c: transitions.to_saved(c, old, "default@1", "0" * 64, {}),
        lambda c: transitions.to_published(c, old, {}),
        lambda c: transitions.to_failed(c, old, "late"),
        lambda c: transitions.to_skipped(c, old, {}, "late"),
    ):
        with pytest.raises(LeaseLostError), engine.begin() as connection:
            write(connection)
    assert one(engine, "SELECT state FROM training_steps") == "published"
    assert one(engine, f"SELECT live_version FROM policies WHERE id = '{learner.policy.id}'") == 1


def test_the_heartbeat_extends_the_lease_and_stops_the_work_when_fenced_out(engine, make_trainer) -> None:
    trainer = make_trainer(lease_seconds=0.4)
    add_group(engine, 1, [1.0, 0.0])
    _, step = resume_or_claim(trainer)
    with Lease(step, trainer.settings) as lease:
        sleep(0.8)  # twice the lease
        lease.check()
        assert tick(make_trainer()) is None
        with engine.begin() as connection:
            connection.execute(text("UPDATE training_steps SET fencing_token = fencing_token + 1"))
        sleep(0.3)  # less than the lease: it is the token that ends it
        with pytest.raises(LeaseLostError):
            lease.check()


def test_a_lease_counts_from_before_postgres_gave_it(engine, make_trainer) -> None:
    """Else a slow commit would let its holder go on when another one may take over already."""
    trainer = make_trainer(lease_seconds=0.2)
    add_group(engine, 1, [1.0, 0.0])
    asked_at = monotonic()
    _, step = resume_or_claim(trainer)
    sleep(0.3)
    with pytest.raises(LeaseLostError):
        Lease(step, trainer.settings, given_at=asked_at).check()


def test_a_lease_that_cannot_be_extended_ends_by_the_holders_own_clock(engine, make_trainer) -> None:
    trainer = make_trainer(lease_seconds=0.3)
    add_group(engine, 1, [1.0, 0.0])
    _, step = resume_or_claim(trainer)
    nowhere = trainer.settings.model_copy(update={"database_url": "postgresql:///x?host=/nowhere"})
    with Lease(step, nowhere) as lease:
        lease.check()
        sleep(0.5)
        with pytest.raises(LeaseLostError):
            lease.check()


def test_a_worker_that_is_told_to_stop_gives_its_lease_up_and_costs_no_attempt(engine, make_trainer) -> None:
    trainer, stop = make_trainer(), Event()
    trainer.should_stop = stop.is_set
    add_group(engine, 1, [1.0, 0.0])
    stop.set()
    tick(trainer)
    assert rows(engine, "SELECT state, attempt, lease_owner FROM training_steps") == [("built", 1, None)]
    assert tick(make_trainer()).attempt == 1
    assert issubclass(LeaseLostError, StepStoppedError)


def test_a_step_whose_worker_died_twice_is_set_aside(engine, make_trainer) -> None:
    add_group_after = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    resume_or_claim(add_group_after)
    for _ in range(2):
        expire(engine)
        resume_or_claim(make_trainer())
    assert rows(engine, "SELECT state, attempt FROM training_steps") == [("failed", 3)]
    assert rows(engine, "SELECT state, reason FROM groups") == [("skipped", "failed")]


def test_our_own_lease_that_ran_out_costs_no_attempt(engine, make_trainer) -> None:
    """Postgres was away for longer than the lease: the worker lives, and the batch is not to blame."""
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    resume_or_claim(trainer)
    expire(engine)
    assert tick(trainer).attempt == 1


def test_i7_a_number_that_ever_had_a_directory_is_never_used_again(engine, make_trainer) -> None:
    """I7: whatever Postgres has forgotten."""
    trainer = make_trainer()
    (trainer.settings.adapters / "default@7").mkdir(parents=True)
    add_group(engine, 1, [1.0, 0.0])
    assert tick(trainer).version == 8


def test_a_step_keeps_the_settings_that_it_began_with(engine, make_trainer) -> None:
    """I9: a changed environment does not change a step that is resumed."""
    add_group_after = make_trainer(learning_rate=1e-2)
    add_group(engine, 1, [1.0, 0.0])
    resume_or_claim(add_group_after)
    expire(engine)
    tick(make_trainer(learning_rate=1e-5))
    assert one(engine, "SELECT metrics->>'learning_rate' FROM training_steps") == "0.01"


def test_a_killed_connection_costs_one_tick_and_nothing_else(engine, make_trainer, database_url) -> None:
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    other = sync_engine(database_url, pool_size=1)
    with other.begin() as connection:
        connection.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                 " AND datname = current_database()")
        )  # fmt: skip
    other.dispose()
    assert tick(trainer).state is StepState.PUBLISHED


def test_i6_whoever_was_fenced_out_touches_no_file_of_the_version(engine, make_trainer, monkeypatch) -> None:
    """I6, I7: a worker that sleeps between its update and `save` wakes up after another one has published."""
    sleeper, other = make_trainer(), make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    real, seen = story._Run.reached, []

    def sleep_once(run, state, **facts: object) -> None:
        real(run, state, **facts)
        if state is StepState.UPDATED and not seen:
            seen.append(0)
            expire(engine)
            assert tick(other).state is StepState.PUBLISHED
            seen[0] = next(sleeper.settings.checkpoints_root.iterdir()).stat().st_ino

    monkeypatch.setattr(story._Run, "reached", sleep_once)
    tick(sleeper)
    (checkpoint,) = sleeper.settings.checkpoints_root.iterdir()
    assert checkpoint.stat().st_ino == seen[0]  # neither removed nor made again
    assert one(engine, "SELECT live_version FROM policies") == 1


def test_i6_nobody_takes_a_step_over_while_its_files_get_their_names(
    engine, make_trainer, monkeypatch
) -> None:
    sleeper, other = make_trainer(lease_seconds=0.3), make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    real, found = checkpoint.write_directory, []

    def slowly(*arguments: Any) -> None:
        sleep(0.5)  # the lease runs out
        found.append(resume_or_claim(other)[1])
        real(*arguments)

    monkeypatch.setattr(checkpoint, "write_directory", slowly)
    tick(sleeper)
    assert found == [None, None]
    expire(engine)
    assert tick(other).state is StepState.PUBLISHED
    assert rows(engine, "SELECT version, state FROM training_steps") == [(1, "published")]
