"""Pure arithmetic: advantages, samples, packing, the language model's head, and the loss. No I/O at all.

What differs from the GRPO of the paper (Shao et al. 2024, arXiv:2402.03300): token-level normalisation over the whole
step, no division by the standard deviation unless asked (Dr. GRPO, arXiv:2503.20783), CISPO instead of PPO's clip, and
rows that hold every common prefix once.
"""
