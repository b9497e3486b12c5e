"""Samples: a trajectory's exchanges as the fewest token sequences in which every sampled token stands once.

Invariant (I3): ids and logprobs are those that the server returned. Nothing is tokenised here, and no mask is guessed
from a token's value: what was sampled is known by position (B114, B115, B120, B121).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from uuid import UUID

from ledger.vocabulary import Reason


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange, whole: what was sent to the model and what it sampled, token by token."""

    exchange_id: UUID
    version: int
    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    sampling_logprobs: Sequence[float]
    temperature: float = 1.0
    advantage: float = 0.0
    is_reshaped: bool = False  # not drawn from the model's own distribution: see ledger.reshaping


@dataclass(frozen=True, slots=True)
class Span:
    """The tokens `start <= i < stop` of a sample: sampled by one version in one exchange."""

    exchange_id: UUID
    version: int
    start: int
    stop: int
    sampling_logprobs: tuple[float, ...]
    temperature: float
    advantage: float
    is_reshaped: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """One sequence. Example: turn 1 has prompt (5, 6) and completion (7,); turn 2's prompt is (5, 6, 7, 8), its
    completion (9, 2). The second prompt begins with everything so far, so both make one sample:

        token_ids  5  6  7  8  9  2
        spans            ^1    ^2 ^2      Span(start=2, stop=3), Span(start=4, stop=6)

    The tokens 5, 6 and 8 were not sampled: they are context and get no gradient.
    """

    token_ids: tuple[int, ...]
    spans: tuple[Span, ...]

    @property
    def num_sampled(self) -> int:
        return sum(span.stop - span.start for span in self.spans)

    def staleness(self, parent_version: int) -> int:
        """The step's parent version minus the oldest version in the sample."""
        return parent_version - min(span.version for span in self.spans)


def turn_defect(turn: Turn, max_tokens: int) -> Reason | None:
    """Why a turn cannot be learned from, or None. A bad sample is data, not a crash: it is counted, not raised."""
    if not turn.prompt_ids:
        return Reason.MISSING_TOKEN_IDS  # the first sampled token would have nothing that predicts it
    if not turn.completion_ids:
        return Reason.EMPTY_COMPLETION
    if len(turn.sampling_logprobs) != len(turn.completion_ids) or not all(
        map(isfinite, turn.sampling_logprobs)
    ):
        return Reason.LOGPROBS_MISMATCH
    if not turn.temperature > 0:
        return Reason.GREEDY
    if len(turn.prompt_ids) + len(turn.completion_ids) > max_tokens:
        return Reason.TOO_LONG
    return None


def merge_turns(turns: Iterable[Turn]) -> list[Sample]:
    """Samples of one trajectory's turns, in order: a turn whose prompt begins with all of the running sequence
    continues it; any other begins a new one. Lossless: each sampled token is in exactly one span.
    """
    samples: list[Sample] = []
    for turn in turns:
        prompt = tuple(turn.prompt_ids)
        so_far = samples[-1].token_ids if samples else ()
        is_continued = bool(samples) and prompt[: len(so_far)] == so_far
        spans = samples.pop().spans if is_continued else ()
        samples.append(Sample((*prompt, *turn.completion_ids), (*spans, _span(turn))))
    return samples


def _span(turn: Turn) -> Span:
    start = len(turn.prompt_ids)
    return Span(
        exchange_id=turn.exchange_id,
        version=turn.version,
        start=start,
        stop=start + len(turn.completion_ids),
        sampling_logprobs=tuple(turn.sampling_logprobs),
        temperature=turn.temperature,
        advantage=turn.advantage,
        is_reshaped=turn.is_reshaped,
    )
