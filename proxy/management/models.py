"""GET /v1/models: the names that may be asked for. Any other name is answered too, by the default policy."""

from typing import Any

from ledger.policies import adapter_name
from proxy.live import LivePolicies, unknown_model
from proxy.upstream.replicas import Replicas


def list_models(live: LivePolicies, replicas: Replicas) -> dict[str, Any]:
    loaded: set[str] = set().union(*(replica.models for replica in replicas.all))
    names: list[str] = []
    for target in live.targets():
        name = target.policy.name
        versions = {int(model.removeprefix(f"{name}@")) for model in loaded if _is_version(model, name)}
        names += [name, f"{name}@base"]
        names += [adapter_name(name, version) for version in sorted(versions | {target.version})]
    return {"object": "list", "data": [_model(name) for name in names]}


def _is_version(model: str, policy_name: str) -> bool:
    return model.startswith(f"{policy_name}@") and model.removeprefix(f"{policy_name}@").isdigit()


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "slipstream"}


def read_model(live: LivePolicies, replicas: Replicas, model_id: str) -> dict[str, Any]:
    """Raises UnknownModelError."""
    for model in list_models(live, replicas)["data"]:
        if model["id"] == model_id:
            found: dict[str, Any] = model
            return found
    raise unknown_model(model_id)
