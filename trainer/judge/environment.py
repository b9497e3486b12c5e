"""What the process that holds LiteLLM may know of this one's environment: providers' keys, and nothing of ours.

Invariant: neither the database's address nor a key of Slipstream reaches a process that speaks to strangers.
"""

from collections.abc import Mapping
from pathlib import Path

from ledger.keys import KEY_START

_OURS = ("SLIPSTREAM_", "LITELLM_", "PG", "POSTGRES_", "CELERY_")
# The last two may well name ourselves: where to ask is said, never guessed.
_DROPPED = {"DATABASE_URL", "REDIS_URL", "OPENAI_API_BASE", "OPENAI_BASE_URL"}
_KEY_FILE = "_KEY_FILE"
FORCED = {
    "LITELLM_MODE": "PRODUCTION",  # else it reads a .env file
    "LITELLM_LOG": "CRITICAL",
    "LITELLM_OFFLINE_MODE": "true",  # nothing is fetched but what is asked for
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "PYTHONWARNINGS": "ignore",
}


def child_environment(ours: Mapping[str, str], package_root: Path) -> dict[str, str]:
    """Keys may also come from files: OPENAI_API_KEY_FILE. Raises OSError."""
    kept = {name: value for name, value in ours.items() if not _is_ours(name)}
    for name in [name for name in kept if name.endswith(_KEY_FILE)]:
        path, variable = kept.pop(name), name.removesuffix("_FILE")
        if path and variable not in kept:
            kept[variable] = Path(path).read_text(encoding="utf-8").strip()
    paths = [str(package_root), *filter(None, [kept.get("PYTHONPATH")])]
    # OPENAI_API_KEY holds a key of ours where the shell talks to this proxy.
    kept = {name: value for name, value in kept.items() if not value.startswith(KEY_START)}
    return {**kept, **FORCED, "PYTHONPATH": ":".join(paths)}


def _is_ours(name: str) -> bool:
    return name in _DROPPED or name.startswith(_OURS) or name.removesuffix("_FILE") in _DROPPED
