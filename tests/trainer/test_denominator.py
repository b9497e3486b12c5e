"""What a step's loss is divided by: the tokens of what is trained, and nothing of what was left out."""

from dataclasses import replace
from math import exp

import pytest

from ledger.records import CallRecord
from ledger.vocabulary import StepState
from tests.trainer.test_ladder import NOW, add, in_group
from tests.trainer.traffic import call, one
from trainer.step import Trainer, tick


def policy_logprobs(trainer: Trainer, record: CallRecord) -> list[float]:
    """Under the base model, token by token."""
    model = trainer.models.get(trainer.settings)
    model.reset(None, None)
    tokens, found = list(record.prompt_ids or ()), []
    for token in record.choices[0].completion_ids or ():
        found.append(float(model.next_token_logprobs(tokens)[token]))
        tokens.append(token)
    return found


def terms(logprobs: list[float], advantage: float) -> list[float]:
    """CISPO; traffic.call says that everything was sampled with the logprob -3."""
    return [-min(exp(logprob + 3), 3.0) * advantage * logprob for logprob in logprobs]


@pytest.mark.parametrize("normalize", ["tokens", "sequences"])
def test_a_truncated_answer_is_in_neither_numerator_nor_denominator(engine, make_trainer, normalize) -> None:
    """B123: three rows, of which the first was cut off. The others have the rewards 1 and 0: advantages 1/2 and -1/2."""
    trainer = make_trainer(**NOW, train_truncated=False, normalize=normalize)
    first, good, bad = (in_group(call(k, 1), "g") for k in range(3))
    cut = replace(first, choices=[replace(first.choices[0], finish_reason="length")])
    add(engine, cut, good, bad, rewards=[-1.0, 1.0, 0.0])
    step = tick(trainer)
    assert step is not None
    assert step.state is StepState.PUBLISHED
    metrics = one(engine, "SELECT metrics FROM training_steps")
    of_good = terms(policy_logprobs(trainer, good), 0.5)
    of_bad = terms(policy_logprobs(trainer, bad), -0.5)
    num_tokens = len(of_good) + len(of_bad)
    by_sequences = (sum(of_good) / len(of_good) + sum(of_bad) / len(of_bad)) / 2
    expected = (sum(of_good) + sum(of_bad)) / num_tokens if normalize == "tokens" else by_sequences
    assert metrics["num_trained_tokens"] == num_tokens
    assert metrics["loss"] == pytest.approx(expected, rel=1e-4)
