"""`slipstream config`: every setting with its value and origin, secrets masked, and where the running worker has another."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ledger.errors import LedgerError
from ledger.settings_file import CONFIG, SettingsFile, key_of, read_settings_file
from ledger.settings_origin import outside_origin, written
from ledger.workers import Worker, newest_worker
from slipstream.catalogue import Setting, all_settings, masked, origin_of
from slipstream.commands.look import JsonOption, ledger_connection, show_table
from slipstream.configuration import find_problems
from slipstream.errors import SlipstreamError, UsageError
from slipstream.running import find_running

POLICIES = "SLIPSTREAM_POLICIES"
PolicyOption = Annotated[
    str | None, typer.Option(help="What holds for this policy, its own table first.", show_default=False)
]


@dataclass(frozen=True)
class Sources:
    """Where values come from, besides the environment."""

    stack: Mapping[str, str]  # what the running one gave its children
    file: SettingsFile | None

    def of(self, setting: Setting) -> tuple[str, str]:
        value, origin = origin_of(setting, self.stack, self.file)
        if setting.name == POLICIES and origin.startswith(self._name):
            value = ", ".join(self.tables)
        return masked(setting, value), origin

    def of_policy(self, setting: Setting, policy: str) -> tuple[str, str]:
        """Its own table, else as for every policy."""
        key = key_of(setting.name)
        table = self.tables.get(policy, {})
        return (
            (masked(setting, written(table[key])), self._place(policy, key))
            if key in table
            else self.of(setting)
        )

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        said = outside_origin(POLICIES)
        tables = json.loads(said[0]) if said else self.file.content.get("policies", {}) if self.file else {}
        return dict(tables)

    @property
    def _name(self) -> str:
        return self.file.path.name if self.file else "\n"

    def _place(self, policy: str, key: str) -> str:
        where = (
            self.file.place("policies", policy, key)
            if self.file and not outside_origin(POLICIES)
            else POLICIES
        )
        return f"{where}, [policies.{policy}]"


def config(policy: PolicyOption = None, as_json: JsonOption = False) -> None:
    """Every setting, its value (secrets masked) and where it came from; and what the worker runs with, where that differs."""
    running = find_running()
    stack: dict[str, str] = running.home.running().get("environment", {})
    sources = Sources(stack, read_settings_file(stack.get(CONFIG)))
    problems = find_problems()
    name = policy or origin_of(_setting("SLIPSTREAM_POLICY"), stack, sources.file)[0]
    worker, note = ask_worker(name)
    rows = [
        {**row, "worker": difference(row, worker)}
        for row in (rows_of_policy(sources, policy) if policy else rows_of_all(sources))
    ]
    show(rows, note, as_json=as_json)
    if problems:
        raise SlipstreamError("The settings file holds what cannot be used:\n" + "\n".join(problems))


def rows_of_all(sources: Sources) -> list[dict[str, str]]:
    return [_row(setting, *sources.of(setting)) for setting in all_settings()]


def rows_of_policy(sources: Sources, policy: str) -> list[dict[str, str]]:
    """The settings that may differ from policy to policy."""
    from trainer.policy_settings import VARIABLES

    default = sources.of(_setting("SLIPSTREAM_POLICY"))[0]
    if policy not in (known := [default, *sources.tables]):
        raise UsageError(
            f"{policy!r} is no policy of these settings: there are {', '.join(dict.fromkeys(known))}."
        )
    own = set(VARIABLES.values())
    return [
        _row(setting, *sources.of_policy(setting, policy))
        for setting in all_settings()
        if setting.name in own
    ]


def ask_worker(policy: str) -> tuple[Worker | None, str]:
    """What the newest worker of this policy was started with, and why nobody knows."""
    try:
        with ledger_connection() as connection:
            worker = newest_worker(connection, policy)
    except (LedgerError, SlipstreamError) as error:
        return None, f"What the worker runs with is not known: {error}"
    if worker is None:
        return None, f"No worker was ever started for policy {policy}."
    return (
        worker,
        f"The newest worker of policy {policy} was started at {worker.started_at:%Y-%m-%d %H:%M:%S %Z}.",
    )


def difference(row: Mapping[str, str], worker: Worker | None) -> str:
    """The worker's value, where it is another one; empty where it is the same, or where it tells none."""
    from trainer.settings import TrainerSettings

    if worker is None:
        return ""
    fields = {str(field.validation_alias): name for name, field in TrainerSettings.model_fields.items()}
    name = fields.get(row["setting"])
    if name is None or name not in worker.settings:
        return ""
    if name == "memory_mib" and not row["value"]:  # unset: the worker looks how much there is
        return ""
    value = "" if worker.settings[name] is None else written(worker.settings[name])
    return "" if _same(value, row["value"]) else value or "unset"


def show(rows: list[dict[str, str]], note: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(rows))
        return
    columns = ["setting", "value", "origin", "read by"]
    if any(row["worker"] for row in rows):
        columns.append("worker")
        note += " It has other values (column worker): restart it, and it takes these, but for samples longer than its memory holds."
    show_table(columns, [[row[column] for column in columns] for row in rows])
    typer.echo(note, err=True)


def _row(setting: Setting, value: str, origin: str) -> dict[str, str]:
    return {"setting": setting.name, "value": value, "origin": origin, "read by": ", ".join(setting.readers)}


def _setting(name: str) -> Setting:
    return next(setting for setting in all_settings() if setting.name == name)


def _same(one: str, other: str) -> bool:
    """8 and 8.0, true and True are the same."""
    try:
        return float(one) == float(other)
    except ValueError:
        return one.casefold() == other.casefold()
