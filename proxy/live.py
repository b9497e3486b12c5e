"""Which version answers: the proxy's own idea of `live`, at most a second behind Postgres.

Invariant: a version is served as live only after each reachable replica was told to load it. Postgres may be away:
the last idea stays.
"""

from dataclasses import dataclass

from ledger.policies import Policy, adapter_name
from proxy.errors import UnknownModelError, UpstreamUnavailableError

_MAX_VERSION_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Target:
    """The version that answers one call, and its two names."""

    policy: Policy
    version: int
    is_pinned: bool = False

    @property
    def public_model(self) -> str:
        """What the client reads in `model`, e.g. `default@0`."""
        return adapter_name(self.policy.name, self.version)

    @property
    def upstream_model(self) -> str:
        """What vLLM knows it as: the base's own name for version 0."""
        return self.policy.base_model if self.version == 0 else self.public_model


class LivePolicies:
    def __init__(self, default: Policy) -> None:
        self._default_name = default.name
        self._policies: dict[str, Policy] = {}
        self._serving: dict[str, int] = {}
        self.learn(default)
        self.switch(default)

    def learn(self, policy: Policy) -> bool:
        """Takes the state of a policy from Postgres; True if its live version is not the one served yet."""
        self._policies[policy.name] = policy
        return self._serving.get(policy.name) != policy.live_version

    def switch(self, policy: Policy) -> None:
        self._serving[policy.name] = policy.live_version

    def targets(self) -> list[Target]:
        """What each replica must hold."""
        return [Target(self._policies[name], version) for name, version in self._serving.items()]

    def resolve(self, requested: str) -> Target:
        """Any name goes to the default policy, but for a policy's own name and its pinned versions.

        Raises UnknownModelError, or UpstreamUnavailableError for a policy that no server here can answer for (I8).
        """
        if requested in self._serving:
            return Target(self._policies[requested], self._serving[requested])
        name, _, version = requested.rpartition("@")
        if missing := {requested, name} & self._policies.keys() - self._serving.keys():
            raise UpstreamUnavailableError(f"No model server holds {missing.pop()} now.", retry_after=5)
        if name not in self._serving:
            return Target(self._policies[self._default_name], self._serving[self._default_name])
        if version == "base":
            return Target(self._policies[name], 0, is_pinned=True)
        if not (version.isascii() and version.isdigit() and len(version) <= _MAX_VERSION_DIGITS):
            raise unknown_model(requested)
        return Target(self._policies[name], int(version), is_pinned=True)


def unknown_model(name: str) -> UnknownModelError:
    return UnknownModelError(
        f"The model '{name}' does not exist: pin a version that was published, or name the policy alone.",
        param="model",
    )
