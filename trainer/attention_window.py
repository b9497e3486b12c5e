"""How far back a base's tokens look. Our masks (trainer/grpo/packing.py) know no window: they let a token see all before it.

Invariant: no sample is longer than the shortest window of its base, and so each token sees what it sees in vLLM.
"""

from typing import Any


def shortest_window(config: Any) -> int | None:
    """In tokens, of transformers' configuration; None where every layer looks back to the beginning."""
    text = config.get_text_config()
    window: int | None = getattr(text, "sliding_window", None)
    if not window or getattr(text, "use_sliding_window", True) is False:
        return None
    kinds = getattr(text, "layer_types", None)
    return window if kinds is None or "sliding_attention" in kinds else None
