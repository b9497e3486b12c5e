"""What a process checks before it reads its settings: the settings file, its environment, each policy's table.

Invariant: everything that is wrong is told at once, and nothing that was written is ignored.
"""

from pydantic import ValidationError

from ledger.settings import EnvironmentSettings
from ledger.settings_file import key_of, read_settings_file
from ledger.settings_problems import problems_of, refused, unknown_keys
from slipstream.catalogue import all_settings


def check(*classes: type[EnvironmentSettings]) -> None:
    """What these classes read, and the whole settings file. Raises SettingsError."""
    if problems := find_problems(*classes):
        raise refused(problems)


def find_problems(*classes: type[EnvironmentSettings]) -> list[str]:
    """One sentence each. Raises SettingsError where there is nothing to look at: a file that cannot be read."""
    file = read_settings_file()
    problems = (
        [] if file is None else unknown_keys(file, [key_of(setting.name) for setting in all_settings()])
    )
    for settings_class in classes:
        try:
            settings_class.from_environment()
        except ValidationError as error:
            problems += problems_of(error)
    return problems + _of_tables()


def _of_tables() -> list[str]:
    from trainer.policy_settings import table_problems
    from trainer.settings import TrainerSettings

    try:
        settings = TrainerSettings.from_environment()
    except ValidationError:  # its own process says so
        settings = None
    return table_problems(settings, read_settings_file())
