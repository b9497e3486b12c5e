"""How likely whole answers are: the sum of the logprobs of their sampled tokens, without gradient, packed as ever."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import UUID

import torch

from trainer.grpo.packing import pack
from trainer.grpo.samples import Sample
from trainer.policy_model import PolicyModel, deterministic
from trainer.update import on_device


def side_logprobs(
    model: PolicyModel,
    *,
    sides: Sequence[tuple[Sample, ...]],
    row_tokens: int,
    between_rows: Callable[[], None],
    is_base: bool,
) -> list[float]:
    """Of each side log pi at temperature 1; of the base with the adapter off. Summed in float64."""
    sums_S = torch.zeros(len(sides), dtype=torch.float64)
    samples = [_marked(sample, place) for place, side in enumerate(sides) for sample in side]
    with deterministic(model.device), torch.no_grad():
        for row in (on_device(row, model.device) for row in pack(samples, row_tokens)):
            between_rows()
            logprobs_T = model.base_logprobs(row) if is_base else model.logprobs(row)[0]
            place_T = torch.tensor([id_.int for id_ in row.exchange_ids])[row.owner_T.cpu()]
            sums_S.index_add_(0, place_T, logprobs_T.double().cpu())
        model.close_stems()  # what is learned next has a graph, and stems of its own
    return sums_S.tolist()


def _marked(sample: Sample, place: int) -> Sample:
    """Its spans named after their side: one exchange may stand in several."""
    return replace(sample, spans=tuple(replace(span, exchange_id=UUID(int=place)) for span in sample.spans))
