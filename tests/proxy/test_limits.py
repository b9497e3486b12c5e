"""Numbers as clients may write them, and what is left of them for the record."""

import pytest

from proxy.errors import InvalidRequestError
from proxy.settings import ProxySettings
from proxy.surface.limits import checked_max_tokens


@pytest.fixture
def settings() -> ProxySettings:
    return ProxySettings(database_url="postgresql://", upstream_urls="http://vllm", base_model="base-model")  # type: ignore[call-arg,arg-type]


def test_no_number_of_tokens_is_left_to_vllm_and_not_recorded(settings: ProxySettings) -> None:
    """-Infinity is a number to Python's JSON, and no integer."""
    for value in (float("-inf"), float("nan"), "many", None, True):
        assert checked_max_tokens({"max_tokens": value}, "max_tokens", settings=settings) is None


def test_infinitely_many_tokens_are_refused(settings: ProxySettings) -> None:
    with pytest.raises(InvalidRequestError):
        checked_max_tokens({"max_tokens": float("inf")}, "max_tokens", settings=settings)
