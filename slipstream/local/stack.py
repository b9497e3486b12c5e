"""The story of `slipstream up`: check, plan the children, start them in order, watch, stop in reverse."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from ledger.database import database_address
from ledger.settings_file import CONFIG
from slipstream.errors import UsageError
from slipstream.http import ask_http
from slipstream.local import postgres, processes, valkey
from slipstream.local.child import ChildSpec
from slipstream.local.display import Display
from slipstream.local.home import Home
from slipstream.local.model import Model, choose_model, model_spec
from slipstream.local.ports import free_ports, require_free
from slipstream.local.recovery import MARK, recover
from slipstream.local.supervisor import StopRequested, Supervisor
from slipstream.local.vllm import vllm_spec
from slipstream.settings import StackSettings

OUTSIDE_SECONDS = 20
OUTSIDE = "It was named by {}: check the address and that the server runs."


def run_stack(settings: StackSettings, console: Console) -> int:
    """Run until a stop is requested. Returns the exit code; raises SlipstreamError after everything was stopped."""
    home = Home.at(settings.home)
    home.create()
    with home.locked():
        require_space(home, settings)
        notes = recover(home)
        settings = with_port(settings)
        require_free(settings.host, settings.port)
        model = choose_model(home, settings.base_model)
        specs, addresses = plan(home, settings, model)
        with Display(console) as display:
            for note in notes:
                display.line(note)
            return supervise(
                Supervisor(home, specs, addresses, display.line, display.draw), display, settings, model
            )


def supervise(supervisor: Supervisor, display: Display, settings: StackSettings, model: Model) -> int:
    try:
        supervisor.start()
        supervisor.home.remember(model=model.name)  # not before: a model that does not start is nobody's
        display.finish()
        greet(supervisor.home, settings, display)
        supervisor.watch()
    except StopRequested:
        return 130
    finally:
        display.finish()
        display.line("stopping")
        supervisor.stop()
        display.line("everything has stopped")
    return 0


def with_port(settings: StackSettings) -> StackSettings:
    """Port 0 means any free one."""
    return settings if settings.port else settings.model_copy(update={"port": free_ports(1)[0]})


def require_space(home: Home, settings: StackSettings) -> None:
    free = shutil.disk_usage(home.root).free / 2**30
    if free < settings.min_free_gib:
        raise UsageError(
            f"Only {free:.1f} GiB are free below {home.root}, {settings.min_free_gib:.1f} GiB are needed: "
            "free some, choose another folder with --home, or lower SLIPSTREAM_MIN_FREE_GIB."
        )


def plan(home: Home, settings: StackSettings, model: Model) -> tuple[list[ChildSpec], dict[str, object]]:
    """The children in the order of their start, and what run.json says about the stack."""
    ports = dict(zip(("postgres", "valkey", "vllm"), free_ports(3), strict=True))
    if settings.database_url:
        database_address(settings.database_url.get_secret_value())  # says what is wrong with it, at once
    given = {"DATABASE_URL": settings.database_url, "REDIS_URL": settings.redis_url}
    secret = {name: value.get_secret_value() for name, value in given.items() if value}
    database = secret.get("DATABASE_URL") or postgres.database_url(home, ports["postgres"])
    broker = secret.get("REDIS_URL") or valkey.redis_url(home, ports["valkey"])
    upstream = settings.upstream_urls or f"http://127.0.0.1:{ports['vllm']}"
    own = {
        "DATABASE_URL": database, "REDIS_URL": broker, "SLIPSTREAM_UPSTREAM_URLS": upstream,
        "SLIPSTREAM_BASE_MODEL": model.name, "SLIPSTREAM_POLICY": settings.policy,
        "SLIPSTREAM_ADAPTERS": str(home / "adapters"), "SLIPSTREAM_CHECKPOINTS": str(home / "checkpoints"),
        "SLIPSTREAM_SPOOL": str(home / "spool"), "SLIPSTREAM_HOME": str(home.root),
        "SLIPSTREAM_HOST": settings.host, "SLIPSTREAM_PORT": str(settings.port),
        "SLIPSTREAM_LORA_RANK": str(settings.lora_rank), "SLIPSTREAM_KEEP_VERSIONS": str(settings.keep_versions),
        "SLIPSTREAM_WORKER_HEALTH_FILE": str(home / "worker.health"),
    }  # fmt: skip
    if config := os.environ.get(CONFIG):
        own[CONFIG] = str(Path(config).resolve())
    environment = {
        "SLIPSTREAM_SHUTDOWN_SECONDS": "10",
        **os.environ,
        MARK: str(home.root),
        "PYTHONUNBUFFERED": "1",
    }
    theirs, ours = environment, environment | own
    seconds = settings.start_seconds
    patience = min(seconds, OUTSIDE_SECONDS)
    specs = [model_spec(model, theirs)]
    if settings.database_url:
        specs.append(outside("postgres", "DATABASE_URL", lambda: postgres.ask_database(database), patience))
    else:
        is_new = not (home / "postgres").exists()
        specs.append(postgres.initdb_spec(home, theirs) if is_new else None)
        specs.append(postgres.postgres_spec(home, ports["postgres"], theirs, seconds))
    if settings.redis_url:
        specs.append(outside("valkey", "REDIS_URL", lambda: valkey.ask_valkey(broker), patience))
    else:
        specs.append(valkey.valkey_spec(home, ports["valkey"], theirs, seconds))
    if settings.upstream_urls:
        specs.append(outside("vllm", "SLIPSTREAM_UPSTREAM_URLS", lambda: ask_each(upstream), patience))
    else:
        specs.append(vllm_spec(settings, model, ports["vllm"], home / "adapters", theirs))
    specs += [
        processes.migrate_spec(settings, ours),
        processes.proxy_spec(settings, ours),
        processes.worker_spec(settings, ours, lambda: processes.ping_worker(broker)),
        processes.beat_spec(settings, ours),
    ]
    description: dict[str, object] = {"url": processes.local_address(settings), "environment": own}
    return [spec for spec in specs if spec], description


def outside(name: str, variable: str, ready: Callable[[], str], seconds: float) -> ChildSpec:
    """A server that somebody else runs: it is asked, not started."""
    return ChildSpec(name, OUTSIDE.format(variable), ready, start_seconds=seconds)


def ask_each(urls: str) -> str:
    """Empty when every upstream answers."""
    answers = [
        (url, ask_http(f"{url.strip().rstrip('/').removesuffix('/v1')}/v1/models")) for url in urls.split(",")
    ]
    return "; ".join(f"{url.strip()}: {answer}" for url, answer in answers if answer)


def greet(home: Home, settings: StackSettings, display: Display) -> None:
    url = processes.local_address(settings)
    has_keys = processes.has_keys(home.running()["environment"]["DATABASE_URL"])
    is_default = settings.home == StackSettings.model_fields["home"].default
    look = "slipstream" if is_default else f"slipstream --home {settings.home}"
    for line in (
        "Slipstream is up.",
        "",
        f"  export OPENAI_BASE_URL={url}/v1",
        "  export OPENAI_API_KEY=sk-slip-…      # a key of yours: calls without one are refused"
        if has_keys
        else "  export OPENAI_API_KEY=any            # no key exists yet: any is accepted, or none",
        "",
        f"  who may call        {look} keys list"
        if has_keys
        else f"  let only some in    {look} keys create      # from the first key on, every call needs one",
        f'  reward an answer    POST {url}/v1/trajectories/ID/reward  {{"reward": 1}}',
        f"  look into it        {look} status · {look} psql · {look} doctor",
        f"  state and logs      {home.root}",
        "",
        "Ctrl-C stops every process; the state stays.",
    ):
        display.console.print(line, markup=False, highlight=False, soft_wrap=True)
