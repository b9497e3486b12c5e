"""Shadow siblings: more answers to a prompt that one scored answer has, sampled while vLLM is idle (ADR 0017)."""
