"""Old optimizer states are pruned; adapters never are, since a caller may name any version that was published.

Invariant: what the next step starts from is whole: the live version, the parent of an unfinished step, and the newest
SLIPSTREAM_KEEP_CHECKPOINTS. All is decided under the policy's lock, under which steps begin and `live` moves.
"""

from glob import escape
from pathlib import Path

import structlog
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from ledger.durable import sync_path
from ledger.policies import Policy, adapter_name
from trainer.adapter_names import versions_of
from trainer.checkpoint import OPTIMIZER, PRUNED
from trainer.claim import ACTIVE, LOCK_POLICY
from trainer.settings import TrainerSettings

logger = structlog.get_logger()
OF_STEPS = text(
    f"SELECT parent_version, version FROM training_steps WHERE policy_id = :id AND state IN ({ACTIVE})"
)


def prune_checkpoints(engine: Engine, settings: TrainerSettings, policy: Policy) -> list[str]:
    """Best effort; the names of the checkpoints that have no optimizer state any more. Safe to break off and to repeat."""
    try:
        with engine.begin() as connection:
            needed = needed_versions(connection, settings, policy)
            old = sorted(kept_versions(settings.checkpoints_root, policy.line) - needed)
            names = [adapter_name(policy.line, version) for version in old]
            for name in names:
                _prune(settings.checkpoints_root / name)
    except (OSError, SQLAlchemyError) as error:
        logger.warning("checkpoints_not_pruned", policy=policy.line, error=str(error))
        return []
    if names:
        logger.info("checkpoints_pruned", policy=policy.line, names=names)
    return names


def needed_versions(connection: Connection, settings: TrainerSettings, policy: Policy) -> set[int]:
    """Locks the policy: until this transaction ends no step begins, and `live` stays."""
    live: int = connection.execute(LOCK_POLICY, {"policy_id": policy.id}).scalar_one()
    of_steps = {version for row in connection.execute(OF_STEPS, {"id": policy.id}) for version in row}
    newest = sorted(kept_versions(settings.checkpoints_root, policy.line))[-settings.keep_checkpoints :]
    return {live, *of_steps, *newest}


def kept_versions(root: Path, line: str) -> set[int]:
    """Versions of a line whose optimizer state lies on disk."""
    place = root / line
    found = place.parent.glob(f"{escape(place.name)}@*/{OPTIMIZER}")
    return set(versions_of(place.name, (path.parent.name for path in found)))


def _prune(checkpoint: Path) -> None:
    """One rename says that it was meant; only then the bytes go. A crash in between leaves them to nobody's harm."""
    pruned = checkpoint / PRUNED
    (checkpoint / OPTIMIZER).rename(pruned)
    sync_path(checkpoint)
    pruned.write_bytes(b"")
