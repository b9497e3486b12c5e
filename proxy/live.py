"""Which version answers: the proxy's own idea of `live`, at most a second behind Postgres.

Invariant: a version is served as live only after each reachable replica was told to load it. Postgres may be away:
the last idea stays.
"""

from dataclasses import dataclass

from ledger.policies import Policy, adapter_name
from proxy.errors import UnknownModelError, UpstreamUnavailableError

_MAX_VERSION_DIGITS = 9
_Key = tuple[str, str]  # project, name of the policy


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
        return self.policy.base_model if self.version == 0 else adapter_name(self.policy.line, self.version)


class LivePolicies:
    """Of all projects. A name means a policy of the caller's own project; every project has a default policy."""

    def __init__(self, default_name: str, base_model: str) -> None:
        self._default_name = default_name
        self._base_model = base_model  # of the model servers here
        self._policies: dict[_Key, Policy] = {}
        self._serving: dict[_Key, int] = {}

    def learn(self, policy: Policy) -> bool:
        """Takes the state of a policy from Postgres; True if its live version is not the one served yet."""
        self._policies[_key(policy)] = policy
        return self._serving.get(_key(policy)) != policy.live_version

    def switch(self, policy: Policy) -> None:
        self._serving[_key(policy)] = policy.live_version

    def targets(self, project: str | None = None) -> list[Target]:
        """What each replica must hold, or what one project is answered with."""
        return [
            Target(self._policies[key], version)
            for key, version in self._serving.items()
            if project in (None, key[0])
        ]

    def resolve(self, requested: str, project: str) -> Target:
        """Any name goes to the project's default policy, but for a policy's own name and its pinned versions.

        Raises UnknownModelError, also for a policy on another base, or UpstreamUnavailableError for one that no server
        here can answer for now (I8).
        """
        name, _, version = requested.rpartition("@")
        for known in (requested, name):
            self._check_served(known, project)
        if (project, requested) in self._serving or (project, name) not in self._serving:
            return self._live(requested, project)
        if version == "base":
            return Target(self._policies[project, name], 0, is_pinned=True)
        if not (version.isascii() and version.isdigit() and len(version) <= _MAX_VERSION_DIGITS):
            raise unknown_model(requested)
        return Target(self._policies[project, name], int(version), is_pinned=True)

    def _check_served(self, name: str, project: str) -> None:
        policy = self._policies.get((project, name))
        if policy is None or (project, name) in self._serving:
            return
        if policy.base_model != self._base_model:
            raise UnknownModelError(
                f"The policy '{name}' learns on another base model than this proxy's servers hold: "
                "send this call to the proxy of that base model.",
                param="model",
            )
        raise UpstreamUnavailableError(f"No model server holds {name} now.", retry_after=5)

    def _live(self, requested: str, project: str) -> Target:
        """The live version of the policy with this name, else of the default policy."""
        is_known = (project, requested) in self._serving
        key = project, requested if is_known else self._default_name
        self._check_served(key[1], project)
        if key not in self._serving:
            raise UpstreamUnavailableError(f"No model server holds {self._default_name} now.", retry_after=5)
        return Target(self._policies[key], self._serving[key])


def _key(policy: Policy) -> _Key:
    return policy.project, policy.name


def unknown_model(name: str) -> UnknownModelError:
    return UnknownModelError(
        f"The model '{name}' does not exist: pin a version that was published, or name the policy alone.",
        param="model",
    )
