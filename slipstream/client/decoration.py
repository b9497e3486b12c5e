"""A function each of whose calls is a trajectory: plain, asynchronous, or a generator of either kind.

A generator's trajectory is open from its first step to its end, but current only while the generator itself runs.
"""

import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from slipstream.client import opened

if TYPE_CHECKING:
    from slipstream.client.trajectory import Trajectory


P = ParamSpec("P")
R = TypeVar("R")


def decorated(function: Callable[P, R], pattern: "Trajectory") -> Callable[P, R]:
    made: Callable[P, R] = _maker(function)(function, pattern)
    return made


def _maker(function: Callable[..., Any]) -> Callable[[Callable[..., Any], "Trajectory"], Callable[..., Any]]:
    if inspect.isasyncgenfunction(function):
        return _async_generator
    if inspect.isgeneratorfunction(function):
        return _generator
    if inspect.iscoroutinefunction(function):
        return _coroutine
    return _plain


def _plain(function: Callable[..., Any], pattern: "Trajectory") -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **arguments: Any) -> Any:
        with pattern.again() as trajectory:
            returned = function(*args, **arguments)
            trajectory.rewarded_by(returned)
            return returned

    return call


def _coroutine(function: Callable[..., Any], pattern: "Trajectory") -> Callable[..., Any]:
    @wraps(function)
    async def call(*args: Any, **arguments: Any) -> Any:
        async with pattern.again() as trajectory:
            returned = await function(*args, **arguments)
            trajectory.rewarded_by(returned)
            return returned

    return call


def _generator(function: Callable[..., Any], pattern: "Trajectory") -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **arguments: Any) -> Generator[Any, Any, Any]:
        with pattern.again() as trajectory:
            returned = yield from _stepped(function(*args, **arguments), trajectory)
            trajectory.rewarded_by(returned)
            return returned

    return call


def _stepped(generator: Generator[Any, Any, Any], trajectory: "Trajectory") -> Generator[Any, Any, Any]:
    """Between two steps the caller runs, in its own trajectory or none."""
    step, given = generator.send, None
    while True:
        try:
            item = step(given)
        except StopIteration as end:
            return end.value
        opened.leave(trajectory)
        try:
            step, given = generator.send, (yield item)
        except BaseException as error:  # noqa: BLE001 - thrown in by the caller: the generator's to handle
            step, given = generator.throw, error
        finally:
            opened.enter(trajectory)


def _async_generator(function: Callable[..., Any], pattern: "Trajectory") -> Callable[..., Any]:
    @wraps(function)
    async def call(*args: Any, **arguments: Any) -> AsyncGenerator[Any, Any]:
        async with pattern.again() as trajectory:
            generator = function(*args, **arguments)
            step, given = generator.asend, None
            while True:
                try:
                    item = await step(given)
                except StopAsyncIteration:
                    return
                opened.leave(trajectory)
                try:
                    step, given = generator.asend, (yield item)
                except BaseException as error:  # noqa: BLE001 - as above
                    step, given = generator.athrow, error
                finally:
                    opened.enter(trajectory)

    return call
