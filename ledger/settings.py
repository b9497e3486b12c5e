"""How each process reads its settings: environment alone, secrets also from files (`NAME_FILE`).

A settings class declares its fields with `validation_alias` set to the variable's full name and uses
`EnvironmentSettings` for its configuration. It is built once, at the entry point, and passed down.
"""

import os
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict


class SecretFileSource(PydanticBaseSettingsSource):
    """Reads a variable from the file that `NAME_FILE` names, as Docker secrets are mounted."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        name = str(field.validation_alias or field_name.upper())
        path = os.environ.get(f"{name}_FILE")
        return (Path(path).read_text(encoding="utf-8").strip() if path else None), name, False

    def __call__(self) -> dict[str, Any]:
        values = {}
        for field_name, field in self.settings_cls.model_fields.items():
            value, name, _ = self.get_field_value(field, field_name)
            if value is not None:
                values[name] = value
        return values


class EnvironmentSettings(BaseSettings):
    """A frozen settings class: environment first, then `NAME_FILE`, then the default. `.env` is never read."""

    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True
    )

    @classmethod
    def from_environment(cls) -> Self:
        """The settings of this process. Raises pydantic's ValidationError, which `explain` puts into words."""
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
        only_full_names(env_settings)
        return init_settings, env_settings, SecretFileSource(settings_cls)


def only_full_names(source: PydanticBaseSettingsSource) -> None:
    """Fields may be given by name in code, never in the environment: HOME, HOST and PORT mean something else there."""
    source.config = {**source.config, "populate_by_name": False}


def explain(error: ValidationError) -> str:
    """One line per wrong setting: its variable, and what is wrong. Never the value, which may be a secret."""
    return "\n".join(
        f"{'.'.join(str(part) for part in e['loc'])}: {e['msg']}" for e in error.errors(include_input=False)
    )
