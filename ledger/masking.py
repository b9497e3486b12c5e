"""What may be shown of a setting's value: a URL without its password, another secret not at all."""

import re

MASK = "***"
_SECRET_NAME = re.compile(r"(?<!_PER)_KEY|PASSWORD|SECRET|TOKEN$")
_URL_PASSWORD = re.compile(r"(?<=://)([^:/@\s]*):([^@\s]*)@")


def is_secret_name(name: str) -> bool:
    return bool(_SECRET_NAME.search(name))


def masked(value: str, *, is_secret: bool) -> str:
    without = _URL_PASSWORD.sub(rf"\1:{MASK}@", value)
    return without if "://" in value or not is_secret or not value else MASK
