"""How each process reads its settings: environment, secrets also from files (`NAME_FILE`), then the settings file.

A settings class declares its fields with `validation_alias` set to the variable's full name and uses
`EnvironmentSettings` for its configuration. It is built once, at the entry point, and passed down.
"""

import os
from pathlib import Path
from typing import Any, Self

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from ledger.errors import SettingsError
from ledger.settings_file import key_of, plain, read_settings_file


class SecretFileSource(PydanticBaseSettingsSource):
    """Reads a variable from the file that `NAME_FILE` names, as Docker secrets are mounted."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        name = str(field.validation_alias or field_name.upper())
        path = os.environ.get(f"{name}_FILE")
        return (_content(name, path) if path else None), name, False

    def __call__(self) -> dict[str, Any]:
        return _given(self)


class SettingsFileSource(PydanticBaseSettingsSource):
    """Reads the keys of the settings file that this class knows; the entry point refuses those that nobody knows."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls)
        file = read_settings_file()
        self._content = {} if file is None else file.content

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        name = str(field.validation_alias or field_name.upper())
        return plain(self._content.get(key_of(name))), name, False

    def __call__(self) -> dict[str, Any]:
        return _given(self)


class EnvironmentSettings(BaseSettings):
    """A frozen settings class: environment, `NAME_FILE`, the settings file, the default. `.env` is never read.

    Settings that were read once hold until the process ends, also where others are derived from them.
    """

    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True
    )

    @classmethod
    def from_environment(cls) -> Self:
        """The settings of this process. Raises SettingsError, or pydantic's ValidationError, which
        `ledger.settings_problems` puts into words.
        """
        return cls()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        if len(init_settings()) >= len(settings_cls.model_fields):
            return (init_settings,)  # given whole, by code: what the sources say now is of no interest
        only_full_names(env_settings)
        return init_settings, env_settings, SecretFileSource(settings_cls), SettingsFileSource(settings_cls)


def only_full_names(source: PydanticBaseSettingsSource) -> None:
    """Fields may be given by name in code, never in the environment: HOME, HOST and PORT mean something else there."""
    source.config = {**source.config, "populate_by_name": False}


def _given(source: PydanticBaseSettingsSource) -> dict[str, Any]:
    """What a source has, under the variables' full names."""
    values = {}
    for field_name, field in source.settings_cls.model_fields.items():
        value, name, _ = source.get_field_value(field, field_name)
        if value is not None:
            values[name] = value
    return values


def _content(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{name}_FILE names {path}, which cannot be read: {error}") from error
