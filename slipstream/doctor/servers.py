"""Checks of what runs: proxy, database, broker, ticks, upstreams."""

import os
import time
from pathlib import Path

from sqlalchemy import text

from ledger.errors import LedgerError
from slipstream.doctor.finding import Finding, good, note, wrong
from slipstream.doctor.ledger import asked_of_ledger
from slipstream.http import ask_http, call
from slipstream.local.ports import is_listening
from slipstream.local.valkey import ask_valkey
from slipstream.running import Running
from slipstream.settings import StackSettings

START = "Start the stack with `slipstream up`, or set {} to a running server."


def check_proxy(running: Running, settings: StackSettings) -> Finding:
    """Ready, or what its port answers instead; more of it to an administrator's key."""
    missing = ask_http(f"{running.url}/ready", 5, os.environ.get("OPENAI_API_KEY"))
    if not missing:
        return good("proxy", f"{running.url} is ready")
    if not running.is_stack and not is_listening(settings.host, settings.port):
        return note(
            "proxy", f"nothing listens at {running.url}; the port is free", "Start it with `slipstream up`."
        )
    return wrong(
        "proxy",
        f"{running.url}/ready: {missing}",
        "Its log says why; another program may hold the port (--port).",
    )


def check_ledger(running: Running) -> Finding:
    """Reachable, and its schema is the one this version needs."""
    url = running.variables.get("DATABASE_URL")
    if not url:
        return note("database", "no address is known", START.format("DATABASE_URL"))
    try:
        version, num_rows = ask_ledger(url)
    except LedgerError as error:
        what, _, remedy = str(error).partition(": ")
        return wrong("database", what, remedy)
    detail = f"PostgreSQL {version}, schema fits, {num_rows} exchanges"
    return good("database", detail, num_exchanges=num_rows)


def ask_ledger(url: str) -> tuple[str, int]:
    """Server version and number of exchanges. Raises LedgerError with the remedy."""
    from ledger.database import check_database, sync_engine, translated_errors

    engine = sync_engine(url, pool_size=1)
    try:
        with translated_errors(), engine.connect() as connection:
            check_database(connection)
            version = connection.execute(text("SHOW server_version")).scalar_one()
            return str(version), int(connection.execute(text("SELECT count(*) FROM exchanges")).scalar_one())
    finally:
        engine.dispose()


def check_broker(running: Running) -> Finding:
    url = running.variables.get("REDIS_URL")
    if not url:
        return note("valkey", "no address is known", START.format("REDIS_URL"))
    if missing := ask_valkey(url):
        return wrong("valkey", missing, "Check REDIS_URL. Without it steps wait; nothing is lost.")
    return good("valkey", "answers PING")


def check_ticks(running: Running, settings: StackSettings) -> Finding:
    """Health of the trainer means that a tick ran, not that a process lives: the worker touches a file at each."""
    path = running.variables.get("SLIPSTREAM_WORKER_HEALTH_FILE")
    if not path:
        return note("ticks", "no health file is known", "Set SLIPSTREAM_WORKER_HEALTH_FILE for the worker.")
    file = Path(path)
    age = time.time() - file.stat().st_mtime if file.exists() else None
    if age is None or age > settings.tick_max_age_seconds:
        seen = "no tick ran yet" if age is None else f"the last tick ran {age:.0f} s ago"
        return wrong("ticks", seen, "See the logs of worker and beat; is the broker reachable for both?")
    return good("ticks", f"the last tick ran {age:.0f} s ago", age_seconds=round(age, 1))


def check_upstreams(running: Running) -> list[Finding]:
    """Each vLLM: it answers, serves the base model, can load adapters, and holds the live one."""
    urls = running.variables.get("SLIPSTREAM_UPSTREAM_URLS")
    if not urls:
        return [note("upstream", "no address is known", START.format("SLIPSTREAM_UPSTREAM_URLS"))]
    plain = [url.strip().rstrip("/").removesuffix("/v1") for url in urls.split(",") if url.strip()]
    return [
        check_upstream(url, running.variables.get("SLIPSTREAM_BASE_MODEL", ""), live_names(running))
        for url in plain
    ]


def check_upstream(url: str, base_model: str, live: list[str]) -> Finding:
    try:
        status, body = call(f"{url}/v1/models")
    except (OSError, ValueError) as error:
        return wrong(
            "upstream", f"{url} does not answer: {error}", "Its log says why (logs/vllm.log in the home)."
        )
    if status != 200 or not isinstance(body, dict):  # noqa: PLR2004
        return wrong("upstream", f"{url} answered {status}", "Is SLIPSTREAM_UPSTREAM_URLS a vLLM server?")
    served = [model.get("id") for model in body.get("data", [])]
    if base_model and base_model not in served:
        return wrong(
            "upstream",
            f"{url} serves {served}, not {base_model}",
            "Make SLIPSTREAM_BASE_MODEL and vLLM's --model equal.",
        )
    if not can_load_adapters(url):
        return wrong(
            "upstream",
            f"{url} cannot load adapters",
            "Start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1.",
        )
    if absent := [name for name in live if name not in served]:
        return wrong(
            "upstream",
            f"{url} lacks {', '.join(absent)}",
            "The proxy loads it within seconds; see its log if not.",
        )
    return good("upstream", f"{url} serves {', '.join(map(str, served))}", num_models=len(served))


def can_load_adapters(url: str) -> bool:
    """Unloading a name that nobody has: 404 with vLLM's words where loading is on, FastAPI's Not Found where it is off."""
    try:
        status, body = call(f"{url}/v1/unload_lora_adapter", {"lora_name": "slipstream-doctor@0"})
    except (OSError, ValueError):
        return False
    return status in (200, 400, 404) and body != {"detail": "Not Found"}


def live_names(running: Running) -> list[str]:
    """Names of the live adapters, from the ledger; none where it cannot be read (another check says so)."""
    from ledger.policies import adapter_name, read_policies

    policies = asked_of_ledger(running, read_policies)
    return [adapter_name(p.line, p.live_version) for p in policies if p.live_version]
