"""A lone scored answer and its siblings train as any prompt group."""

import pytest

from ledger.vocabulary import BaselineKind, StepState
from tests.fakes import vllm_chat, vllm_tokens
from tests.fakes.vllm_tokens import Token
from tests.trainer.siblings.originals import add_original, siblings_of
from tests.trainer.tiny import VOCABULARY
from tests.trainer.traffic import call, rows
from trainer.siblings.siblings import make_siblings
from trainer.step import tick

PROMPT_IDS = [1, 5, 9]


@pytest.fixture
def small_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake speaks in the tiny model's tokens."""

    def token_at(model, prompt_ids, seed, choice, position) -> Token:
        del model, prompt_ids, seed, choice
        return Token((7 + position) % VOCABULARY, " w", -3.0)

    monkeypatch.setattr(vllm_tokens, "token_at", token_at)
    monkeypatch.setattr(vllm_chat, "prompt_ids_of", lambda _: PROMPT_IDS)


def test_the_group_becomes_ready_and_trains(engine, make_trainer, vllm, scorer, small_words) -> None:
    trainer = make_trainer(group_grace_seconds=0.0)
    vllm.base_model = trainer.settings.base_model
    scorer.answers = [(200, '{"reward": 0}')]
    exchange_id = add_original(engine, prompt_ids=PROMPT_IDS, choices=call(1, 1).choices)
    assert make_siblings(siblings_of(engine, [vllm], scorer.url, num_siblings=3)) == 3
    assert tick(trainer).state is StepState.PUBLISHED
    samples = rows(
        engine,
        "SELECT exchange_id, reward, baseline, baseline_kind FROM step_samples WHERE is_used ORDER BY 1",
    )
    assert {row.baseline_kind for row in samples} == {BaselineKind.PROMPT_GROUP}
    assert [(row.exchange_id == exchange_id, row.reward, row.baseline) for row in samples] == [
        (True, 1.0, 0.0), *[(False, 0.0, pytest.approx(1 / 3))] * 3
    ]  # fmt: skip
