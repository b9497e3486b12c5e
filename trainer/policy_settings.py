"""The settings of each policy that a worker trains: its table of the settings file over the settings of the process.

Invariant: what a table says is used or refused, never ignored.
"""

import os
from typing import Any

from pydantic import ValidationError

from ledger.policy_tables import base_of
from ledger.settings_file import SettingsFile, key_of, plain
from ledger.settings_problems import sentence, shown, unknown_key
from trainer.settings import LEARNING_FIELDS, TIMING_FIELDS, TrainerSettings

_OF_THE_PROCESS = {"tick_seconds", "silence_seconds"}
_ALSO_OWN = {
    "base_model", "upstream_urls", "keep_versions", "probe_tolerance", "publish_attempts", "step_attempts",
    "retry_seconds", "replica_timeout_seconds",
}  # fmt: skip
OWN_FIELDS = (LEARNING_FIELDS | TIMING_FIELDS | _ALSO_OWN) - _OF_THE_PROCESS
VARIABLES = {
    name: str(field.validation_alias)
    for name, field in TrainerSettings.model_fields.items()
    if name in OWN_FIELDS
}
FIELDS = {key_of(variable): name for name, variable in VARIABLES.items()}  # by what a table calls them


def known_policies(settings: TrainerSettings) -> list[str]:
    """The default policy, and each that has a table."""
    return [settings.policy, *(name for name in settings.policies if name != settings.policy)]


def trained_settings(settings: TrainerSettings) -> list[TrainerSettings]:
    """Those of each policy that this worker trains. Raises ValidationError; `table_problems` says what is wrong."""
    names = known_policies(settings) if settings.trained_policies is None else settings.trained_policies
    return [settings_of(settings, name) for name in names]


def served_together(settings: TrainerSettings) -> list[TrainerSettings]:
    """Of those, the ones that the process' own model servers answer for."""
    return [own for own in trained_settings(settings) if own.upstream_urls == settings.upstream_urls]


def settings_of(settings: TrainerSettings, name: str) -> TrainerSettings:
    """What holds for this policy: its own table over the process' settings."""
    table = {FIELDS[key]: plain(value) for key, value in settings.policies.get(name, {}).items()}
    return TrainerSettings(**(settings.model_dump() | table | {"policy": name}))


def table_problems(settings: TrainerSettings | None, file: SettingsFile | None) -> list[str]:
    """All that is wrong with the tables, in words. `settings` of the process are None where they are wrong themselves."""
    tables = _tables(settings, file)
    known = _errors({})
    problems = [
        problem
        for name, table in tables.items()
        for problem in (*_unknown(name, table, file), *_wrong(name, table, file, known))
    ]
    return problems if settings is None else problems + _contradictions(settings)


def _tables(settings: TrainerSettings | None, file: SettingsFile | None) -> dict[str, dict[str, Any]]:
    if settings is not None:
        return settings.policies
    tables = file.content.get("policies") if file else None
    found = tables.items() if isinstance(tables, dict) else ()
    return {name: table for name, table in found if isinstance(table, dict)}


def _unknown(name: str, table: dict[str, Any], file: SettingsFile | None) -> list[str]:
    everybodys = {key_of(str(field.validation_alias)) for field in TrainerSettings.model_fields.values()}
    return [
        f"{_place(file, name, key)}: {key} holds for the whole process: write it above the policies' tables"
        if key in everybodys
        else unknown_key(key, FIELDS, _place(file, name, key))
        for key in table
        if key not in FIELDS
    ]


def _wrong(name: str, table: dict[str, Any], file: SettingsFile | None, known: list[Any]) -> list[str]:
    """What is wrong only with the table's values in place."""
    values = {VARIABLES[FIELDS[key]]: plain(value) for key, value in table.items() if key in FIELDS}
    seen = {(detail["loc"], detail["msg"]) for detail in known}
    return [
        _problem(name, detail, file)
        for detail in _errors(values)
        if (detail["loc"], detail["msg"]) not in seen
    ]


def _problem(name: str, detail: Any, file: SettingsFile | None) -> str:
    variable = str(detail["loc"][0]) if detail["loc"] else ""
    key = key_of(variable)
    return f"{_place(file, name, key)}: {key} = {shown(variable, detail['input'])}: {sentence(detail)}"


def _errors(values: dict[str, Any]) -> list[Any]:
    try:
        TrainerSettings(**values)
    except ValidationError as error:
        return list(error.errors(include_url=False))
    return []


def _contradictions(settings: TrainerSettings) -> list[str]:
    problems = []
    default = settings.policy
    if base_of(settings.policies, default, settings.base_model) != settings.base_model:
        problems.append(
            f"policies.{default}.base_model: the default policy learns on SLIPSTREAM_BASE_MODEL, which its proxy serves: "
            "set that, or give the other base a policy name of its own"
        )
    problems += [
        f'policies.{name}.base_model: another base is served by other model servers: name them, upstream_urls = ["http://…"]'
        for name, table in settings.policies.items()
        if table.get("base_model", settings.base_model) != settings.base_model
        and "upstream_urls" not in table
    ]
    unknown = set(settings.trained_policies or ()) - set(known_policies(settings))
    return problems + [
        f"SLIPSTREAM_TRAINED_POLICIES: {name} has no table [policies.{name}] and is not the default policy"
        for name in sorted(unknown)
    ]


def _place(file: SettingsFile | None, name: str, key: str) -> str:
    if file is None or os.environ.get("SLIPSTREAM_POLICIES"):
        return f"SLIPSTREAM_POLICIES, {name}"
    return f"{file.place('policies', name, key)}, [policies.{name}]"
