"""What steps of sft and dpo write about themselves is in the documented list, and all of what that says of them is written."""

from ledger.figures import BREAKDOWNS, BY_NAME, FACTS, OF_COPYING
from ledger.vocabulary import StepKind, StepState
from tests.trainer.imitation.given import ask, metrics_of_step
from tests.trainer.preference.test_dpo import compared, dpo
from tests.trainer.traffic import add_group
from trainer.step import tick

KNOWN = BY_NAME.keys() | BREAKDOWNS.keys() | FACTS.keys()


def test_a_step_of_dpo_and_one_of_sft_write_the_list(engine, make_trainer) -> None:
    trainer = make_trainer()
    compared(engine)
    assert dpo(trainer).state is StepState.PUBLISHED
    of_dpo = metrics_of_step(engine)
    add_group(engine, 2, [1.0, 0.0])
    ask(engine, StepKind.SFT, **{"from": "best", "top": 0.5})
    assert tick(trainer).kind is StepKind.SFT
    of_sft = metrics_of_step(engine)
    assert (of_dpo.keys() | of_sft.keys()) - KNOWN == set()
    assert OF_COPYING - (of_dpo.keys() | of_sft.keys()) == set()
    for metrics in (of_dpo, of_sft):
        assert metrics.keys() >= {"completion_tokens_mean", "tokens_used", "grad_norm", "seconds_update"}
