"""Group commit: posts that come while a transaction is under way go into the next one together. Nobody is made to wait
for company.

Invariants (I5): a post is answered after the commit that holds its event; whoever was told 503 is not written
afterwards, unless Postgres fell silent in the commit itself; a batch that fails is tried again one by one, so that one
bad post harms no other. A transaction that is held up (a lock, a slow disk) holds up the posts in it, and no later ones
as long as a lane is free.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import structlog
from sqlalchemy import Connection, Engine

from ledger.errors import LedgerError
from ledger.rewards.posting import Answer, post_rewards
from ledger.rewards.posts import Posting, RewardResult
from proxy.errors import LedgerUnavailableError, OverloadedError
from proxy.management import bounded
from proxy.management.bounded import MOST_TRIES, UNREACHABLE, TooLateError, is_passing
from proxy.management.lane import Lane
from proxy.metrics import Metrics

log = structlog.get_logger()
NUM_LANES = 3
MOST_TOGETHER = 200  # posts: as many locks does Postgres hold for a batch, twice
_PATIENCE_SECONDS = 0.25  # then the next batch goes another way
_CLOSE_SECONDS = 2.0
_TOO_MANY = "More rewards wait to be written than SLIPSTREAM_MAX_WAITING_REWARDS allows; try again soon."

Told: TypeAlias = Answer | LedgerUnavailableError


class BrokenPostError(LedgerError):
    """This reward could not be written, by itself either; the log says why."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """What one caller waits for; it is written in one transaction, in its order, if nothing is wrong with it."""

    postings: Sequence[Posting]
    answered: "asyncio.Future[list[Told]]"

    @property
    def num_posts(self) -> int:
        return sum(len(posting.posts) for posting in self.postings)


class RewardWriter:
    def __init__(self, engine: Engine, metrics: Metrics, max_waiting: int) -> None:
        """The engine's pool has room for NUM_LANES."""
        self._metrics = metrics
        self._max_waiting = max_waiting
        self._num_waiting = 0
        self._waiting: deque[_Waiting] = deque()
        self._has_news = asyncio.Event()
        self._lanes = [Lane(engine, f"rewards-{number}") for number in range(NUM_LANES)]
        self._free = list(self._lanes)
        self._running: set[asyncio.Task[None]] = set()

    async def post(self, posting: Posting) -> list[RewardResult]:
        """Committed when it returns. Raises LedgerError where it is refused, OverloadedError, LedgerUnavailableError."""
        [answer] = await self.post_each([posting])
        if isinstance(answer, LedgerError | LedgerUnavailableError):
            raise answer
        return answer

    async def post_each(self, postings: Sequence[Posting]) -> list[Told]:
        """In their order: each one's results, or why it was refused. Raises OverloadedError, LedgerUnavailableError.

        Where the ledger goes away in between, what is committed is answered, and the rest is LedgerUnavailableError.
        """
        num_posts = sum(len(posting.posts) for posting in postings)
        if self._num_waiting and self._num_waiting + num_posts > self._max_waiting:
            raise OverloadedError(_TOO_MANY, retry_after=1)
        self._num_waiting += num_posts
        answers: list[Told] = []
        try:
            async with asyncio.timeout(bounded.WAIT_SECONDS):
                for start in range(0, len(postings), MOST_TOGETHER):
                    answers += await self._answers(postings[start : start + MOST_TOGETHER])
        except TimeoutError:
            log.warning("database_unreachable", error="TimeoutError")
            return _with_the_rest(answers, len(postings), LedgerUnavailableError(retry_after=2))
        except LedgerUnavailableError as error:
            return _with_the_rest(answers, len(postings), error)
        finally:
            self._num_waiting -= num_posts
        return answers

    async def _answers(self, postings: Sequence[Posting]) -> list[Told]:
        waiting = _Waiting(postings, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._has_news.set()
        return await waiting.answered  # whoever gives up cancels it

    async def run(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            while batch := self._next_batch():
                lane = await self._free_lane()
                task = asyncio.create_task(self._write(lane, batch))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
                await asyncio.wait({task}, timeout=_PATIENCE_SECONDS)

    async def close(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*(asyncio.to_thread(lane.end, _CLOSE_SECONDS) for lane in self._lanes))

    def _next_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        num_posts = 0
        while self._waiting:
            num_posts += self._waiting[0].num_posts
            if batch and num_posts > MOST_TOGETHER:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _free_lane(self) -> Lane:
        while not self._free:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        return self._free.pop()

    async def _write(self, lane: Lane, batch: list[_Waiting]) -> None:
        try:
            await self._answer(lane, batch)
        finally:
            self._free.append(lane)

    async def _answer(self, lane: Lane, batch: list[_Waiting]) -> None:
        batch = [one for one in batch if not one.answered.done()]
        if not batch:
            return
        try:
            answers = await self._commit(lane, batch)
        except LedgerUnavailableError as error:
            _tell(batch, error)
        except Exception as error:  # noqa: BLE001 - one of them is guilty, or none
            log.warning("rewards_tried_again", error=type(error).__name__, num_postings=len(batch))
            for one in batch:
                await self._answer_singly(lane, one)
        else:
            for one in batch:
                _tell([one], list(answers[: len(one.postings)]))
                del answers[: len(one.postings)]

    async def _answer_singly(self, lane: Lane, waiting: _Waiting) -> None:
        answers: list[Told] = []
        try:
            for posting in waiting.postings:
                if waiting.answered.done():
                    return
                answers += await self._tried(lane, _Waiting([posting], waiting.answered))
            _tell([waiting], answers)
        except LedgerUnavailableError as error:
            _tell([waiting], _with_the_rest(answers, len(waiting.postings), error) if answers else error)

    async def _tried(self, lane: Lane, waiting: _Waiting) -> list[Answer]:
        for _ in range(MOST_TRIES):
            try:
                return await self._commit(lane, [waiting])
            except LedgerUnavailableError:
                raise
            except Exception as error:
                if not is_passing(error):
                    log.exception("reward_broken", exc_info=error)
                    break
        return [BrokenPostError()]

    async def _commit(self, lane: Lane, batch: list[_Waiting]) -> list[Answer]:
        """All of them, in one transaction. Raises LedgerUnavailableError, or whatever is wrong with one of them."""
        try:
            answers = await lane.transaction(lambda connection: _written(connection, batch))
        except UNREACHABLE as error:
            if is_passing(error):
                raise
            log.warning("database_unreachable", error=type(error).__name__)
            raise LedgerUnavailableError(retry_after=2) from error
        self._metrics.reward_commits.inc()
        return answers


def _written(connection: Connection, batch: list[_Waiting]) -> list[Answer]:
    """In the lane's thread."""
    answers = post_rewards(connection, [posting for one in batch for posting in one.postings])
    if any(one.answered.done() for one in batch):  # was told 503, and may have posted again
        raise TooLateError
    return answers


def _with_the_rest(answers: list[Told], num_postings: int, error: LedgerUnavailableError) -> list[Told]:
    """Raises the error where nothing was committed."""
    if not answers:
        raise error
    return answers + [error] * (num_postings - len(answers))


def _tell(batch: Sequence[_Waiting], said: list[Told] | Exception) -> None:
    for one in batch:
        if one.answered.done():
            continue
        if isinstance(said, Exception):
            one.answered.set_exception(said)
        else:
            one.answered.set_result(said)
