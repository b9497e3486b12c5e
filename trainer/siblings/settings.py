"""How many siblings, when and for how much. Off: SLIPSTREAM_SIBLINGS is 0."""

from typing import Annotated, Any

from pydantic import Field

from ledger.settings import EnvironmentSettings

Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
LEASE_BEYOND_SECONDS = 60.0


def _env(name: str, default: Any = ...) -> Any:
    return Field(default, validation_alias=name)


class SiblingSettings(EnvironmentSettings):
    num_siblings: Annotated[int, Field(ge=0, le=64)] = _env("SLIPSTREAM_SIBLINGS", 0)
    max_running: Annotated[int, Field(ge=0)] = _env("SLIPSTREAM_SIBLINGS_MAX_RUNNING", 0)
    per_pass: Count = _env("SLIPSTREAM_SIBLINGS_PER_PASS", 8)
    tokens_per_day: Annotated[int, Field(ge=0)] = _env("SLIPSTREAM_SIBLINGS_TOKENS_PER_DAY", 200_000)
    max_tokens: Count = _env("SLIPSTREAM_SIBLINGS_MAX_TOKENS", 2_048)
    pass_seconds: Seconds = _env("SLIPSTREAM_SIBLINGS_PASS_SECONDS", 15.0)
    age_seconds: Seconds = _env("SLIPSTREAM_SIBLINGS_AGE_SECONDS", 3_600.0)
    timeout_seconds: Seconds = _env("SLIPSTREAM_SIBLINGS_TIMEOUT_SECONDS", 120.0)
    look_seconds: Seconds = _env("SLIPSTREAM_SIBLINGS_LOOK_SECONDS", 0.5)
    attempts: Count = _env("SLIPSTREAM_SIBLINGS_ATTEMPTS", 5)
    retry_seconds: Annotated[float, Field(ge=0)] = _env("SLIPSTREAM_SIBLINGS_RETRY_SECONDS", 30.0)

    @property
    def lease_seconds(self) -> float:
        """One sample, or one score, and room to write it down."""
        return self.timeout_seconds + LEASE_BEYOND_SECONDS
