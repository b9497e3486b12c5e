"""Laws of samples: the merge is lossless, and what was sampled is known by position alone."""

from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.vocabulary import Reason
from tests.trainer.tiny import turn
from trainer.grpo.samples import Turn, merge_turns, turn_defect

tokens = st.lists(st.integers(0, 5), min_size=1, max_size=5)


@st.composite
def conversations(draw: st.DrawFn) -> list[Turn]:
    """Turns of which some extend all that came before, and some do not."""
    turns: list[Turn] = []
    for number in range(draw(st.integers(1, 5))):
        prompt = draw(tokens)
        if turns and draw(st.booleans()):
            prompt = [*turns[-1].prompt_ids, *turns[-1].completion_ids, *prompt]
        turns.append(turn(number, prompt, draw(tokens)))
    return turns


@given(conversations())
def test_a_prefix_merge_is_lossless(turns) -> None:
    """B121: every sampled token is in exactly one span, with its own context and logprobs."""
    samples = merge_turns(turns)
    spans = {span.exchange_id: (sample, span) for sample in samples for span in sample.spans}
    assert len(spans) == sum(len(sample.spans) for sample in samples) == len(turns)
    for made in turns:
        sample, span = spans[made.exchange_id]
        assert list(sample.token_ids[: span.start]) == list(made.prompt_ids)
        assert list(sample.token_ids[span.start : span.stop]) == list(made.completion_ids)
        assert list(span.sampling_logprobs) == list(made.sampling_logprobs)


def test_turns_that_extend_each_other_make_one_sample() -> None:
    (sample,) = merge_turns([turn(1, [5, 6], [7]), turn(2, [5, 6, 7, 8], [9, 2])])
    assert sample.token_ids == (5, 6, 7, 8, 9, 2)
    assert [(span.start, span.stop) for span in sample.spans] == [(2, 3), (4, 6)]
    assert sample.num_sampled == 3


def test_a_prompt_rendered_differently_begins_a_new_sample_and_trains_on_what_was_sent() -> None:
    """B115: the second prompt shows the first answer otherwise; both are kept as they were sent."""
    first, second = merge_turns([turn(1, [5, 6], [7, 2]), turn(2, [5, 6, 8, 2, 9], [4])])
    assert first.token_ids == (5, 6, 7, 2)
    assert second.token_ids == (5, 6, 8, 2, 9, 4)


def test_ids_that_no_tokeniser_would_give_are_trained_as_sampled() -> None:
    """B114: [3, 3] may decode to the text of [4]; it stays [3, 3]."""
    (sample,) = merge_turns([turn(1, [9], [3, 3])])
    assert sample.token_ids == (9, 3, 3)


def test_the_end_token_is_trained_even_where_it_is_also_the_padding_token() -> None:
    """B120: eos = pad = 2, in prompt and completion. Masks come from positions, never from values."""
    (sample,) = merge_turns([turn(1, [2, 5, 2], [7, 2])])
    assert [(span.start, span.stop) for span in sample.spans] == [(3, 5)]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (turn(1, [], [7]), Reason.MISSING_TOKEN_IDS),
        (turn(1, [5], []), Reason.EMPTY_COMPLETION),
        (turn(1, [5], [7], sampling_logprob=nan), Reason.LOGPROBS_MISMATCH),
        (turn(1, [5], [7], temperature=0.0), Reason.GREEDY),
        (turn(1, [5] * 60, [7] * 5), Reason.TOO_LONG),
        (turn(1, [5] * 60, [7] * 4), None),
    ],
)
def test_a_bad_turn_is_data_with_a_reason_and_not_a_crash(bad, reason) -> None:
    assert turn_defect(bad, max_tokens=64) is reason


def test_staleness_is_counted_from_the_oldest_version_of_the_sample() -> None:
    (sample,) = merge_turns([turn(1, [5], [7], version=3), turn(2, [5, 7, 8], [9], version=4)])
    assert sample.staleness(parent_version=5) == 2
