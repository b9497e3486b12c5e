"""The data position of a step: which samples it learned from, so that two attempts, or an audit, can be compared.

Invariant: two steps with the same digest learned from the same tokens, logprobs, temperatures and advantages, in the same
order. The rows themselves stay in `step_samples`.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from trainer.grpo.samples import Sample


def data_position(samples: Sequence[Sample]) -> dict[str, Any]:
    """Example: {"num_samples": 2, "num_exchanges": 3, "num_tokens": 41, "newest_exchange_id": "0197…", "sha256": "9f…"}."""
    exchange_ids = {span.exchange_id for sample in samples for span in sample.spans}
    digest = hashlib.sha256()
    for sample in samples:
        digest.update(json.dumps(asdict(sample), default=str).encode() + b"\n")
    return {
        "num_samples": len(samples),
        "num_exchanges": len(exchange_ids),
        "num_tokens": sum(sample.num_sampled for sample in samples),
        "newest_exchange_id": str(max(exchange_ids)) if exchange_ids else None,
        "sha256": digest.hexdigest(),
    }
