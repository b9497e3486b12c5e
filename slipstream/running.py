"""Where a command finds the system it talks to: the environment first, then the stack that runs in the home."""

import os
from dataclasses import dataclass
from pathlib import Path

from slipstream.errors import NotRunningError
from slipstream.local.home import Home
from slipstream.local.processes import local_address
from slipstream.settings import StackSettings


@dataclass(frozen=True)
class Running:
    """`variables` are the running stack's, with the caller's environment over them; `url` is the proxy's base."""

    home: Home
    variables: dict[str, str]
    url: str
    is_stack: bool

    @property
    def spool(self) -> Path:
        """The proxies' spool on this machine; it need not be there."""
        return Path(self.variables.get("SLIPSTREAM_SPOOL") or self.home / "spool")

    def require(self, name: str) -> str:
        """A variable, from the environment, its file, or the running stack."""
        value = self.variables.get(name)
        if not value:
            raise NotRunningError(
                f"{name} is not known: no stack runs in {self.home.root} and the environment does not name it. "
                "Start one with `slipstream up`, or set it."
            )
        return value


def find_running() -> Running:
    """Raises nothing: what is missing shows when it is required."""
    settings = StackSettings()
    home = Home.at(settings.home)
    run = home.running()
    variables = {str(k): str(v) for k, v in run.get("environment", {}).items()}
    variables |= {k: v for k, v in os.environ.items() if v}
    secrets = {"DATABASE_URL": settings.database_url, "REDIS_URL": settings.redis_url}
    variables |= {name: secret.get_secret_value() for name, secret in secrets.items() if secret}
    url = os.environ.get("SLIPSTREAM_URL") or run.get("url") or local_address(settings)
    return Running(home, variables, str(url).rstrip("/").removesuffix("/v1"), bool(run))


def adopt(running: Running) -> None:
    """Put the running stack's variables into our environment, so that the other processes' settings can be built."""
    for name, value in running.variables.items():
        os.environ.setdefault(name, value)
