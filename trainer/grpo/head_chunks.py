"""How many tokens the head computes at once. Apart from trainer.grpo.head, so that memory is predicted without torch."""

CPU_LOGITS = 1 << 23  # numbers: 32 MiB in float32
GPU_LOGITS = 1 << 26


def chunk_tokens(vocabulary: int, *, is_gpu: bool) -> int:
    """Example: 170 tokens of SmolLM2's 49,152 on a CPU. Fewer than 32 would leave the cores idle."""
    return max(32, (GPU_LOGITS if is_gpu else CPU_LOGITS) // vocabulary)
