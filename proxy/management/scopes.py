"""Which scope a route asks of its caller's key."""

from typing import Annotated, Any

from fastapi import Depends, Request

from ledger.vocabulary import Scope
from proxy.access.caller import Caller


def caller_with(scope: Scope) -> Any:
    """A dependency: the caller, whose key has this scope. Every route has one, but for those that need no key."""

    async def caller_of(request: Request) -> Caller:
        caller: Caller = request.scope["caller"]
        return caller.require(scope)

    return Depends(caller_of)


Inferring = Annotated[Caller, caller_with(Scope.INFER)]
Judging = Annotated[Caller, caller_with(Scope.REWARD)]
Administering = Annotated[Caller, caller_with(Scope.ADMIN)]
