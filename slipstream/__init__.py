"""What a user types or imports: the command line, the small client, the embedded local stack.

`from slipstream import Client` imports the client alone, when it is asked for: no server, no database, no torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slipstream.client import AsyncClient, CallFailedError, Client, Result, Trajectory, current_trajectory
    from slipstream.client import trajectory as trajectory

__all__ = [
    "AsyncClient",
    "CallFailedError",
    "Client",
    "Result",
    "Trajectory",
    "current_trajectory",
    "trajectory",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import slipstream.client

    return getattr(slipstream.client, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
