"""Which names mean another provider's model, and what a call of one is: teacher data, of no version of the policy."""

import re
from dataclasses import dataclass, replace

from ledger.records import CallRecord
from ledger.vocabulary import Reason
from proxy.errors import UnknownModelError
from proxy.live import Target

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+/-]{0,255}").fullmatch


@dataclass(frozen=True, slots=True)
class ExternalModel:
    """Example: `openai/gpt-4o` -> provider "openai", name "gpt-4o"."""

    provider: str
    name: str

    def record(self, accepted: CallRecord, temperature: float | None) -> CallRecord:
        """The call as it is kept: no version answered it, and no version learns from it. A provider's own default
        temperature is not ours to know.
        """
        return replace(
            accepted,
            version=None,
            expected_model=None,
            untrainable_reason=Reason.EXTERNAL_MODEL,
            temperature=temperature,
        )


def external_model(requested: str, target: Target, providers: frozenset[str]) -> ExternalModel | None:
    """None: `target`, which is what the name means otherwise, answers. The names of a policy and of its base may begin
    like a provider's and stay theirs.

    Raises UnknownModelError for a name that no provider has: it would lead somewhere else.
    """
    provider, slash, name = requested.partition("/")
    if not slash or provider not in providers:
        return None
    if (
        target.policy.name in {requested, requested.rpartition("@")[0]}
        or requested == target.policy.base_model
    ):
        return None
    if not _NAME(name) or ".." in name or "//" in name:
        raise UnknownModelError(
            f"'{provider}' has no model of that name: write it as the provider does, as in {provider}/NAME.",
            param="model",
        )
    return ExternalModel(provider, name)
