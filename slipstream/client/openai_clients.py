"""What an OpenAI client made inside a trajectory is given: docs/client.md says what is patched, when, and until when.

While at least one trajectory is open, `__init__` of openai.OpenAI and openai.AsyncOpenAI fills in arguments that the
caller left out, and only in a context in which a trajectory is open. `copy` marks copies: they are what they copy.
Nothing here raises into a constructor.
"""

import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from slipstream.client.opened import current_trajectory
from slipstream.client.result import logger

if TYPE_CHECKING:
    from slipstream.client.trajectory import Trajectory

_lock = threading.Lock()
_num_watching = 0
_patched: list[tuple[type, str, Any, Any]] = []  # class, attribute, original, ours
_is_copying: ContextVar[bool] = ContextVar("slipstream_is_copying", default=False)
_OWN_WAYS = (
    "provider",
    "workload_identity",
    "data_residency",
)  # of reaching another place with other credentials


def watch() -> None:
    """From the first open trajectory on. Without the openai SDK nothing is done."""
    global _num_watching  # noqa: PLW0603 - a class is patched once for the whole process
    with _lock:
        _num_watching += 1
        if _num_watching == 1:
            try:
                _patch()
            except Exception as error:  # noqa: BLE001 - an SDK that cannot be imported or patched is left alone
                logger.warning("openai_not_patched error=%s: %s", type(error).__name__, error)


def unwatch() -> None:
    """Until the last one is closed. What somebody else patched over ours stays, and does nothing."""
    global _num_watching  # noqa: PLW0603
    with _lock:
        _num_watching -= 1
        if _num_watching == 0:
            _unpatch()


def arguments_for(trajectory: "Trajectory", given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an OpenAI client that is meant to speak for the trajectory."""
    headers = {**trajectory.headers, **(given.get("default_headers") or {})}
    arguments = {"base_url": trajectory.address.v1, **given, "default_headers": headers}
    return _with_key(trajectory, arguments)


def _patch() -> None:
    if "openai" not in sys.modules and find_spec("openai") is None:
        return
    import openai

    known = {(owner, name) for owner, name, _, _ in _patched}  # another's patch lies over ours
    for owner in (openai.OpenAI, openai.AsyncOpenAI):
        for name, make in (("__init__", _adopting), ("copy", _copying), ("with_options", _copying)):
            if (owner, name) not in known:
                original = owner.__dict__[name]
                ours = make(original)
                setattr(owner, name, ours)
                _patched.append((owner, name, original, ours))


def _unpatch() -> None:
    for patch in list(_patched):
        owner, name, original, ours = patch
        if owner.__dict__.get(name) is ours:
            setattr(owner, name, original)
            _patched.remove(patch)


def _adopting(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def __init__(self: Any, *args: Any, **arguments: Any) -> None:  # noqa: N807 - it is one
        original(self, *args, **_adopted(self, arguments))

    return __init__


def _copying(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def copy(self: Any, *args: Any, **arguments: Any) -> Any:
        token = _is_copying.set(True)
        try:
            return original(self, *args, **arguments)
        finally:
            _is_copying.reset(token)

    return copy


def _adopted(client: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    trajectory = current_trajectory()
    if trajectory is None or _is_copying.get():
        return arguments
    try:
        return _filled_in(trajectory, arguments) if _is_adoptable(client, arguments) else arguments
    except Exception as error:  # noqa: BLE001 - the client is made as it would have been without us
        logger.warning("openai_client_not_adopted error=%s: %s", type(error).__name__, error)
        return arguments


def _is_adoptable(client: Any, arguments: Mapping[str, Any]) -> bool:
    """Not the module's own client (`openai.chat…`), which lives on, nor one that names its own trajectory or way."""
    import openai

    names = {str(name).lower() for name in arguments.get("default_headers") or {}}
    return (
        not isinstance(client, getattr(openai, "_ModuleClient", ()))
        and not any(arguments.get(name) for name in _OWN_WAYS)
        and not names & {"x-trajectory-id", "x-session-id"}
    )


def _filled_in(trajectory: "Trajectory", arguments: dict[str, Any]) -> dict[str, Any]:
    url = arguments.get("base_url")
    if url:  # the caller's own: a frameworks' proxy, or another service, which is none of our business
        if not trajectory.address.is_of(str(url)):
            return arguments
        return {
            **arguments,
            "default_headers": {**trajectory.headers, **(arguments.get("default_headers") or {})},
        }
    if not trajectory.address.is_given:
        logger.warning("openai_client_not_adopted error=no address: set SLIPSTREAM_URL or OPENAI_BASE_URL")
        return arguments
    given = {name: value for name, value in arguments.items() if name != "base_url"}
    return arguments_for(trajectory, given)


def _with_key(trajectory: "Trajectory", arguments: dict[str, Any]) -> dict[str, Any]:
    """The SDK refuses to be made without a key; on loopback any will do."""
    if arguments.get("api_key") is None:
        arguments["api_key"] = trajectory.address.key or os.environ.get("OPENAI_API_KEY") or "any"
    return arguments
