"""Settings of every process: read under their full names only, and documented."""

import re
from pathlib import Path

import pytest

from slipstream.catalogue import Setting, all_settings, masked, origin_of, processes

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"


def test_a_variable_that_is_named_like_a_field_is_not_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """HOME is not SLIPSTREAM_HOME, PORT is not SLIPSTREAM_PORT."""
    for settings_class in processes().values():
        for field in settings_class.model_fields:
            monkeypatch.setenv(field.upper(), "nonsense")
    for variable in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.setenv(variable, f"{variable.lower()}://x")
    monkeypatch.setenv("SLIPSTREAM_UPSTREAM_URLS", "http://127.0.0.1:1")
    monkeypatch.setenv("SLIPSTREAM_BASE_MODEL", "model")
    monkeypatch.setenv("SLIPSTREAM_ADAPTERS", "adapters")
    monkeypatch.setenv("SLIPSTREAM_ADAPTERS_URL", "file:///adapters")
    for settings_class in processes().values():
        values = settings_class.from_environment().model_dump(mode="json")
        assert "nonsense" not in values.values()


def test_all_settings_of_all_processes_are_documented_with_their_defaults() -> None:
    rows = re.findall(
        r"^\| `([A-Z0-9_]+)` \| (.*?) \| (.*?) \| (.+?) \|$",
        DOCUMENT.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    documented = {name: (default.strip("`"), readers) for name, default, readers, _ in rows}
    declared = {s.name: (s.default or "unset", ", ".join(s.readers)) for s in all_settings()}
    assert documented == declared


def test_processes_agree_on_the_default_of_a_setting_they_share() -> None:
    defaults: dict[str, set[object]] = {}
    for settings_class in processes().values():
        for field in settings_class.model_fields.values():
            if not field.is_required() and field.default is not None:
                defaults.setdefault(str(field.validation_alias), set()).add(field.default)
    assert {name: values for name, values in defaults.items() if len(values) > 1} == {}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("postgresql://me:hunter2@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("redis://:hunter2@host/0", "redis://:***@host/0"),
        ("hunter2", "***"),
        ("", ""),
    ],
)
def test_secrets_are_masked(value: str, shown: str) -> None:
    assert masked(Setting("DATABASE_URL", "", ("stack",), is_secret=True), value) == shown


def test_the_origin_of_a_value_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting("SLIPSTREAM_SEED", "0", ("trainer",), is_secret=False)
    assert origin_of(setting, {}) == ("0", "default")
    assert origin_of(setting, {"SLIPSTREAM_SEED": "3"}) == ("3", "stack")
    monkeypatch.setenv("SLIPSTREAM_SEED_FILE", "/run/secrets/seed")
    assert origin_of(setting, {}) == ("***", "file /run/secrets/seed")
    monkeypatch.setenv("SLIPSTREAM_SEED", "4")
    assert origin_of(setting, {}) == ("4", "environment")
