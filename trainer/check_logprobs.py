"""Do the recorded sampling logprobs agree with the trainer's own at the same version? The loop's health in one number."""

from collections import defaultdict
from dataclasses import dataclass
from uuid import UUID

import torch
from sqlalchemy import Connection, text

from ledger.conversation import WholeExchange, whole_exchanges
from ledger.policies import Policy, ensure_policy
from trainer.checkpoint import read_parent
from trainer.grpo.packing import pack
from trainer.grpo.samples import merge_turns, turn_defect
from trainer.model_cache import ModelCache
from trainer.policy_model import PolicyModel
from trainer.settings import TrainerSettings
from trainer.update import on_device
from trainer.verdicts import as_turn

NUM_VERSIONS = 4
RECENT = text("""
    SELECT id, trajectory_id FROM (
        SELECT id, trajectory_id, row_number() OVER (PARTITION BY version ORDER BY id DESC) AS place
        FROM exchanges
        WHERE policy_id = :policy_id AND is_trainable AND version > (
            SELECT max(version) FROM exchanges WHERE policy_id = :policy_id AND is_trainable
        ) - :num_versions
    ) AS recent WHERE place <= :limit
""")


@dataclass(frozen=True, slots=True)
class LogprobCheck:
    """Example: 40 exchanges, 320 tokens, mean absolute difference 2e-5, largest 3e-4; versions (0, 1, 2)."""

    num_exchanges: int
    num_tokens: int
    mean_difference: float
    max_difference: float
    versions: tuple[int, ...]


def check_logprobs(settings: TrainerSettings, connection: Connection, limit: int = 16) -> LogprobCheck:
    """Recompute the newest `limit` trainable exchanges of each of the newest four versions that have some; logprobs of reshaped
    ones are of another distribution. Raises CheckpointError if a version cannot be read.
    """
    policy = ensure_policy(connection, name=settings.policy, base_model=settings.base_model)
    by_version: dict[int, list[WholeExchange]] = defaultdict(list)
    for exchange in _recent(connection, policy, limit):
        turn = as_turn(exchange, 0.0)
        if turn_defect(turn, settings.sample_max_tokens) is None and not turn.is_reshaped:
            by_version[turn.version].append(exchange)
    model = ModelCache().get(settings)
    differences = [
        _differences(model, settings, policy, version, exchanges)
        for version, exchanges in sorted(by_version.items())
    ]
    found = torch.cat(differences) if differences else torch.zeros(0)
    return LogprobCheck(
        num_exchanges=sum(map(len, by_version.values())),
        num_tokens=found.numel(),
        mean_difference=float(found.mean()) if found.numel() else 0.0,
        max_difference=float(found.max()) if found.numel() else 0.0,
        versions=tuple(sorted(by_version)),
    )


def _recent(connection: Connection, policy: Policy, limit: int) -> list[WholeExchange]:
    rows = connection.execute(
        RECENT, {"policy_id": policy.id, "limit": limit, "num_versions": NUM_VERSIONS}
    ).all()
    wanted: set[UUID] = {row.id for row in rows}
    whole = whole_exchanges(connection, sorted({row.trajectory_id for row in rows}))
    return [exchange for turns in whole.values() for exchange in turns if exchange.exchange_id in wanted]


def _differences(
    model: PolicyModel,
    settings: TrainerSettings,
    policy: Policy,
    version: int,
    exchanges: list[WholeExchange],
) -> torch.Tensor:
    """|policy_logprobs - sampling_logprobs| of every token, at the version that sampled it: shape [tokens]."""
    parent = read_parent(settings, policy.line, version)
    model.reset(parent.adapter, parent.moments)
    samples = [sample for exchange in exchanges for sample in merge_turns([as_turn(exchange, 0.0)])]
    found = []
    with torch.no_grad():
        for packed in pack(samples, settings.row_tokens):
            row = on_device(packed, model.device)
            found.append((model.logprobs(row)[0] - row.sampling_logprobs_T).abs().cpu())
    return torch.cat(found)
