"""A step beside an erasure: what is erased is never learned from, and never makes a step crash."""

import pytest

from ledger.erasure.erase import begin, erase_some, finish
from ledger.erasure.subject import Subject
from ledger.vocabulary import ErasureSubject, StepState
from tests.trainer.traffic import add_group, one, rows
from trainer import step as story
from trainer.step import tick


def erase_trajectories_of(engine, exchange_ids) -> None:
    with engine.begin() as connection:
        for id_ in exchange_ids:
            subject = Subject(ErasureSubject.TRAJECTORY, str(id_))
            erasure = begin(connection, "default", subject, "test")
            while erase_some(connection, erasure):
                pass
            finish(connection, erasure)


def test_what_is_erased_before_the_claim_is_left_out_for_that_reason(engine, make_trainer, replica) -> None:
    trainer = make_trainer(group_deadline_seconds=0.0)
    ids = add_group(engine, 1, [1.0, 0.0, 0.5])
    erase_trajectories_of(engine, ids[:1])
    step = tick(trainer)
    assert step.state is StepState.PUBLISHED
    found = rows(engine, "SELECT exchange_id, reason FROM step_samples WHERE reason IS NOT NULL")
    assert found == [(ids[0], "erased")]


@pytest.mark.parametrize(("num_erased", "state"), [(1, "published"), (3, "skipped")])
def test_what_is_erased_between_build_and_update_is_not_learned_from(
    engine, make_trainer, replica, monkeypatch, num_erased, state
) -> None:
    """The step goes on with the rest, says so in its samples, and is skipped where there is no rest."""
    trainer = make_trainer()
    ids = add_group(engine, 1, [1.0, 0.0, 0.5])
    built = story.build_samples

    def build_then_erase(run) -> None:
        built(run)
        erase_trajectories_of(engine, ids[:num_erased])

    monkeypatch.setattr(story, "build_samples", build_then_erase)
    step = tick(trainer)
    assert str(step.state) == state
    found = rows(engine, "SELECT exchange_id FROM step_samples WHERE NOT is_used AND reason = 'erased'")
    assert {row.exchange_id for row in found} == set(ids[:num_erased])
    assert one(engine, "SELECT count(*) FROM groups WHERE state = 'claimed'") == 0
