"""Settings of `slipstream adapters pull`. Apart from trainer.pull, so that whoever lists all settings loads no torch."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from ledger.settings import EnvironmentSettings


class PullSettings(EnvironmentSettings):
    adapters: Path = Field(default=Path(".slipstream/adapters"), validation_alias="SLIPSTREAM_ADAPTERS")
    url: str | None = Field(default=None, validation_alias="SLIPSTREAM_ADAPTERS_URL")
    seconds: Annotated[float, Field(gt=0)] = Field(
        default=5.0, validation_alias="SLIPSTREAM_ADAPTERS_PULL_SECONDS"
    )
