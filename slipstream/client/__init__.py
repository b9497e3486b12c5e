"""The small client beside the openai SDK: it judges what was answered, and names trajectories.

Nothing here raises into the user's program unless asked to, and nothing else of Slipstream is imported.
"""

from slipstream.client.asynchronous import AsyncClient
from slipstream.client.judgement import Judgement
from slipstream.client.opened import current_trajectory
from slipstream.client.result import CallFailedError, Result
from slipstream.client.synchronous import Client
from slipstream.client.trajectory import Trajectory, trajectory

__all__ = [
    "AsyncClient",
    "CallFailedError",
    "Client",
    "Judgement",
    "Result",
    "Trajectory",
    "current_trajectory",
    "trajectory",
]
