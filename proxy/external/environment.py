"""What the child may know of this process' environment: the operator's provider keys, and nothing of ours.

Invariant: neither the database's address nor any other secret of the proxy reaches the process that speaks to others.
"""

from collections.abc import Mapping
from pathlib import Path

_OURS = ("SLIPSTREAM_", "LITELLM_", "PG", "POSTGRES_")
_DROPPED = {
    "DATABASE_URL",
    "REDIS_URL",
    "OPENAI_API_BASE",
    "OPENAI_BASE_URL",
}  # the last two may well name ourselves
_KEPT = {"LITELLM_PROXY_API_KEY"}
_KEY_FILE = "_KEY_FILE"
FORCED = {
    "LITELLM_MODE": "PRODUCTION",  # else it reads a .env file
    "LITELLM_LOG": "CRITICAL",
    "LITELLM_OFFLINE_MODE": "true",  # nothing is fetched but what a call asks for
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "PYTHONWARNINGS": "ignore",
}


def child_environment(ours: Mapping[str, str], package_root: Path) -> dict[str, str]:
    """Keys may also come from files: OPENAI_API_KEY_FILE names one that holds OPENAI_API_KEY. Raises OSError."""
    kept = {name: value for name, value in ours.items() if name in _KEPT or not _is_ours(name)}
    for name in [name for name in kept if name.endswith(_KEY_FILE)]:
        path, variable = kept.pop(name), name.removesuffix("_FILE")
        if path and variable not in kept:
            kept[variable] = Path(path).read_text(encoding="utf-8").strip()
    paths = [str(package_root), *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, **FORCED, "PYTHONPATH": ":".join(paths)}


def _is_ours(name: str) -> bool:
    return name in _DROPPED or name.startswith(_OURS) or name.removesuffix("_FILE") in _DROPPED
