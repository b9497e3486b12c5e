"""The language model's head at trained positions only, in chunks: memory stays flat whatever the vocabulary.

Legend: T = trained tokens, H = hidden size, V = vocabulary, C = tokens of a chunk. The head is frozen, and logprob t
depends on hidden state t alone, so its whole Jacobian is one [T, H] matrix: that is kept, the [T, V] logits never are.
"""

from typing import Any

import torch
from torch import Tensor

from trainer.grpo.head_chunks import chunk_tokens


class _Logprobs(torch.autograd.Function):
    """logprob_t = log_softmax(h_t W^T / temperature_t)[target_t]; d/dh_t = (onehot_t - p_t) W / temperature_t."""

    @staticmethod
    def forward(
        ctx: Any, hidden_TH: Tensor, weight_VH: Tensor, target_T: Tensor, temperatures_T: Tensor
    ) -> tuple[Tensor, Tensor]:
        jacobian_TH = torch.empty_like(hidden_TH)
        logprobs_T = torch.empty(len(target_T), dtype=_exact(hidden_TH), device=hidden_TH.device)
        entropies_T = torch.empty_like(logprobs_T)
        size = chunk_tokens(len(weight_VH), is_gpu=hidden_TH.is_cuda)
        for begin in range(0, len(target_T), size):
            chunk = slice(begin, begin + size)
            logprobs_CV = (hidden_TH[chunk] @ weight_VH.T).to(logprobs_T.dtype)
            logprobs_CV /= temperatures_T[chunk, None]
            logprobs_CV -= logprobs_CV.amax(
                -1, keepdim=True
            )  # first: of a sure token the rest is all there is
            logprobs_CV -= logprobs_CV.logsumexp(-1, keepdim=True)
            probs_CV = logprobs_CV.exp()
            logprobs_T[chunk] = logprobs_CV.gather(1, target_T[chunk, None])[:, 0]
            entropies_T[chunk] = -torch.linalg.vecdot(probs_CV, logprobs_CV)
            del logprobs_CV
            pull_CV = probs_CV.neg_()  # onehot - p, before any rounding: of a sure token little is left
            pull_CV.scatter_add_(1, target_T[chunk, None], torch.ones_like(pull_CV[:, :1]))
            pull_CH = pull_CV.to(weight_VH.dtype) @ weight_VH
            jacobian_TH[chunk] = pull_CH / temperatures_T[chunk, None].to(pull_CH.dtype)
        ctx.save_for_backward(jacobian_TH)
        ctx.mark_non_differentiable(entropies_T)
        return logprobs_T, entropies_T

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (jacobian_TH,) = ctx.saved_tensors
        return gradients[0][:, None].to(jacobian_TH.dtype) * jacobian_TH, None, None, None


def _exact(hidden_TH: Tensor) -> torch.dtype:
    """float32 at least: a softmax over a vocabulary in bfloat16 is wrong in the second decimal."""
    return torch.promote_types(hidden_TH.dtype, torch.float32)


def token_logprobs(
    hidden_TH: Tensor, weight_VH: Tensor, target_T: Tensor, temperatures_T: Tensor
) -> tuple[Tensor, Tensor]:
    """(policy_logprobs_T, entropies_T) of frozen head `weight_VH`; the entropies carry no gradient."""
    logprobs_T, entropies_T = _Logprobs.apply(hidden_TH, weight_VH, target_T, temperatures_T)  # type: ignore[no-untyped-call]
    return logprobs_T, entropies_T
