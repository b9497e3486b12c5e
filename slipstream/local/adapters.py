"""Which adapters the embedded vLLM must be able to hold: those of all policies on its base, old lines included."""

import json
from collections.abc import Iterator
from pathlib import Path

from ledger.policy_tables import base_of
from slipstream.settings import StackSettings


def largest_rank(settings: StackSettings, adapters: Path) -> int:
    """Of what will be trained, and of what was: a live version of a larger rank is served until a new line follows it."""
    return max(
        settings.lora_rank, *(table.get("lora_rank", 0) for table in _tables(settings)), *_ranks(adapters), 1
    )


def num_adapters(settings: StackSettings) -> int:
    """Versions of the default policy, and the live one of each other, besides one that is being loaded."""
    return settings.keep_versions + len(_tables(settings)) + 1


def _tables(settings: StackSettings) -> list[dict[str, int]]:
    own = settings.base_model or ""
    return [
        table
        for name, table in settings.policies.items()
        if name != settings.policy and base_of(settings.policies, name, own) == own
    ]


def _ranks(adapters: Path) -> Iterator[int]:
    for path in adapters.glob("*@*/adapter_config.json"):
        try:
            yield int(json.loads(path.read_text(encoding="utf-8"))["r"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # whoever loads it says so
