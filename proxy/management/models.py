"""GET /v1/models: the names that may be asked for. Any other name is answered too, by the default policy."""

from typing import Any

from ledger.policies import adapter_name
from proxy.live import LivePolicies, unknown_model
from proxy.upstream.replicas import Replicas


def list_models(live: LivePolicies, replicas: Replicas, project: str) -> dict[str, Any]:
    """Of one project."""
    loaded: set[str] = set().union(*(replica.models for replica in replicas.all))
    names: list[str] = []
    for target in live.targets(project):
        name, start = target.policy.name, f"{target.policy.line}@"
        versions = {int(n) for model in loaded if (n := _after(start, model)).isdecimal()}
        names += [name, f"{name}@base"]
        names += [adapter_name(name, version) for version in sorted(versions | {target.version})]
    return {"object": "list", "data": [_model(name) for name in names]}


def _after(start: str, model: str) -> str:
    return model.removeprefix(start) if model.startswith(start) else ""


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "slipstream"}


def read_model(live: LivePolicies, replicas: Replicas, project: str, model_id: str) -> dict[str, Any]:
    """Raises UnknownModelError."""
    for model in list_models(live, replicas, project)["data"]:
        if model["id"] == model_id:
            found: dict[str, Any] = model
            return found
    raise unknown_model(model_id)
