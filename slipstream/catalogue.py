"""Every setting of every process, with its value and where it came from; the values of secrets are masked.

docs/settings.md is compared with this list by a test.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ledger.masking import is_secret_name
from ledger.masking import masked as masked_value
from ledger.settings import EnvironmentSettings
from ledger.settings_file import SettingsFile
from ledger.settings_origin import file_origin, outside_origin

REQUIRED = "required"


@dataclass(frozen=True)
class Setting:
    """One variable. `readers` are the processes whose settings class declares it."""

    name: str
    default: str
    readers: tuple[str, ...]
    is_secret: bool


def processes() -> dict[str, type[EnvironmentSettings]]:
    """The settings class of each process; the worker reads those of the judge and the siblings, too."""
    from proxy.settings import ProxySettings
    from slipstream.settings import StackSettings
    from trainer.judge.settings import JudgeSettings
    from trainer.pull_settings import PullSettings
    from trainer.settings import TrainerSettings
    from trainer.siblings.settings import SiblingSettings

    return {
        "stack": StackSettings,
        "proxy": ProxySettings,
        "trainer": TrainerSettings,
        "judge": JudgeSettings,
        "siblings": SiblingSettings,
        "pull": PullSettings,
    }


def all_settings() -> list[Setting]:
    """Sorted by name; one entry per variable, however many processes read it."""
    found: dict[str, Setting] = {}
    for reader, settings_class in processes().items():
        for field_name, field in settings_class.model_fields.items():
            name = str(field.validation_alias or field_name.upper())
            known = found.get(name)
            default = known.default if known and known.default not in ("", REQUIRED) else default_of(field)
            readers = (*(known.readers if known else ()), reader)
            is_secret = field.annotation in (SecretStr, SecretStr | None) or is_secret_name(name)
            found[name] = Setting(name, default, readers, is_secret or bool(known and known.is_secret))
    return [found[name] for name in sorted(found)]


def default_of(field: FieldInfo) -> str:
    """The default as it is written in the environment; REQUIRED where there is none."""
    if field.default is PydanticUndefined and field.default_factory is None:
        return REQUIRED
    value: Any = field.get_default(call_default_factory=True, validated_data={})
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def masked(setting: Setting, value: str) -> str:
    """The value as it may be shown."""
    return masked_value(value, is_secret=setting.is_secret)


def origin_of(
    setting: Setting, stack: Mapping[str, str], file: SettingsFile | None = None
) -> tuple[str, str]:
    """Value and origin: environment, secret file, stack (the running one gave it), settings file, default."""
    if outside := outside_origin(setting.name):
        return outside
    if setting.name in stack:
        return stack[setting.name], "stack"
    if said := file_origin(setting.name, file):
        return said
    return ("", "not set") if setting.default == REQUIRED else (setting.default, "default")
