"""A greedy call teaches nothing: a share of them is sampled at a stated temperature, where the operator says so.

Invariant: the calls of one trajectory, an SDK's retries among them, share the decision. It is a digest of the trajectory's
id or name: nothing is remembered, nothing is waited for. docs/exploring.md says which calls take part.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from ledger.identifiers import parse_id
from ledger.records import Attribution, CallRecord
from ledger.verdict import is_greedy
from proxy.live import Target
from proxy.metrics import Metrics
from proxy.settings import ProxySettings
from proxy.surface.request import ModelRequest

_DIGEST_BYTES = 8
_CUT = ("top_p", "top_k", "min_p", "seed")  # vLLM heeds none of them at temperature 0


def is_explorable(request: ModelRequest, record: CallRecord, target: Target) -> bool:
    """Greedy, and of use to the trainer. With `n` > 1 vLLM refuses temperature 0, and shall; a pinned version is
    compared with others.
    """
    attribution = record.attribution
    return (
        is_greedy(record.temperature, record.top_k)
        and request.can_teach
        and request.num_choices == request.num_prompts
        and not target.is_pinned
        and not attribution.is_opted_out
        and attribution.turn_type == "main"
    )


def explored(record: CallRecord, settings: ProxySettings, metrics: Metrics) -> CallRecord:
    """The record of an explorable call that has its trajectory, as it will be sampled."""
    if not is_chosen(record.project, record.attribution, settings.explore_share):
        metrics.unexplored.inc()
        return record
    metrics.explored.inc()
    return replace(
        record, is_explored=True, temperature=settings.explore_temperature, top_p=None, top_k=None, seed=None
    )


def is_chosen(project: str, attribution: Attribution, share: float) -> bool:
    """Example: share 0.1 -> one in ten trajectories, the same ones in every process."""
    if not share:
        return False
    name = attribution.external_id
    own_id = parse_id(name) if name else attribution.trajectory_id
    seed = own_id.hex if own_id else f"{project}\n{name}"
    digest = hashlib.sha256(seed.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:_DIGEST_BYTES]) < share * (1 << 8 * _DIGEST_BYTES)


def sampling_of(record: CallRecord) -> Mapping[str, str | None]:
    """The members of the request that change: set to a JSON text, or cut (None)."""
    if not record.is_explored:
        return {}
    return {"temperature": repr(record.temperature), **dict.fromkeys(_CUT)}
