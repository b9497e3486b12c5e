"""What can go wrong between the proxy and a model server.

UpstreamError
├── ConnectError      no connection could be made: nothing was asked, so asking elsewhere is safe
├── BrokenError       the connection was lost before the reply ended
├── SilentError       nothing arrived for as long as was allowed
└── MalformedError    what arrived is no HTTP reply that we can read

None of them holds a byte of a request or of a reply.
"""


class UpstreamError(Exception):
    """The model server's reply was not received whole."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class ConnectError(UpstreamError):
    """The model server accepts no connection."""


class BrokenError(UpstreamError):
    """The model server's connection was lost before its reply ended.

    `has_begun`: a byte of the reply was seen. `was_reused`: the connection had been kept from an earlier reply, so
    that the server may have closed it at the moment of the request.
    """

    def __init__(self, message: str, *, has_begun: bool, was_reused: bool) -> None:
        super().__init__(message)
        self.has_begun = has_begun
        self.was_reused = was_reused


class SilentError(UpstreamError):
    """The model server was silent for too long."""


class MalformedError(UpstreamError):
    """The model server's reply is not HTTP that we can read."""
