"""Loopback ports: free ones for the inner servers, and a clear answer where the proxy's is taken."""

import contextlib
import socket

from slipstream.errors import UsageError


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on now. The servers that get them are started right away."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def require_free(host: str, port: int) -> None:
    """Raise UsageError where `host:port` cannot be listened on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UsageError(
                f"Port {port} on {host} cannot be used ({error.strerror}): "
                "choose another with --port, or stop what listens there."
            ) from error


def is_listening(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False
