"""The check that recorded sampling logprobs are those of the version they are stamped with."""

import pytest

from ledger.recording import record_calls
from ledger.records import CallRecord
from tests.trainer.traffic import add_group, call
from trainer import checkpoint
from trainer.check_logprobs import check_logprobs
from trainer.step import tick


def honest(trainer, seed: int, version: int) -> CallRecord:
    """A call whose recorded logprobs are computed by the model at that version, token by token."""
    model = trainer.models.get(trainer.settings)
    parent = checkpoint.read_parent(trainer.settings, "default", version)
    model.reset(parent.adapter, parent.moments)
    record = call(seed, 2, version=version)
    for choice in record.choices:
        tokens = list(record.prompt_ids)
        choice.sampling_logprobs.clear()
        for token in choice.completion_ids:
            choice.sampling_logprobs.append(float(model.next_token_logprobs(tokens)[token]))
            tokens.append(token)
    return record


def test_logprobs_recorded_at_each_version_agree(engine, make_trainer) -> None:
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    tick(trainer)
    with engine.begin() as connection:
        record_calls(connection, [honest(trainer, 10, 0), honest(trainer, 11, 1)])
        found = check_logprobs(trainer.settings, connection, limit=2)
    assert found.num_exchanges == 4
    assert found.versions == (0, 1)
    assert found.max_difference < 1e-4


def test_what_was_not_drawn_from_the_models_own_distribution_is_not_compared(engine, make_trainer) -> None:
    trainer = make_trainer()
    with engine.begin() as connection:
        record_calls(connection, [honest(trainer, 10, 0), call(11, 2, top_p=0.9)])
        found = check_logprobs(trainer.settings, connection, limit=4)
    assert found.num_exchanges == 2
    assert found.max_difference < 1e-4


def test_logprobs_of_another_version_or_position_do_not_agree(engine, make_trainer) -> None:
    """An off-by-one in the logprobs, or a wrong version, is what this check is for."""
    trainer = make_trainer(learning_rate=0.1)
    add_group(engine, 1, [1.0, 0.0])
    tick(trainer)
    with engine.begin() as connection:
        record_calls(connection, [honest(trainer, 9, 0)])  # the newest of version 0 agree
        assert check_logprobs(trainer.settings, connection, limit=2).mean_difference < 1e-4
        wrong = honest(trainer, 10, 0)
        record_calls(connection, [call(10, 2, version=1, prompt_ids=wrong.prompt_ids, choices=wrong.choices)])
        assert check_logprobs(trainer.settings, connection, limit=2).mean_difference > 1e-3
        moved = honest(trainer, 11, 1)
        for choice in moved.choices:
            choice.sampling_logprobs.append(choice.sampling_logprobs.pop(0))
        record_calls(connection, [moved])
        assert check_logprobs(trainer.settings, connection, limit=2).mean_difference > 1e-3


def test_without_traffic_there_is_nothing_to_compare(engine, make_trainer) -> None:
    trainer = make_trainer()
    with engine.begin() as connection:
        found = check_logprobs(trainer.settings, connection, limit=4)
    assert (found.num_tokens, found.mean_difference) == (0, pytest.approx(0.0))
