"""The story of shadow siblings: take a run -> sample what is missing -> score it -> end it, or put it off.

Each arrow ends in a transaction that only the lease's holder can commit (docs/decisions/0017-shadow-siblings.md).
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any
from uuid import UUID

import psycopg
import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from ledger.policies import Policy
from ledger.siblings import runs as sibling_runs
from ledger.siblings.originals import (
    Original,
    Sampled,
    UnwantedError,
    check_wanted,
    read_original,
    record_sibling,
    sibling_call,
)
from ledger.vocabulary import SiblingReason, SiblingRunState
from trainer.judge.settings import JudgeSettings, JudgeWhen
from trainer.siblings.errors import BusyError, SamplingError
from trainer.siblings.reply import choice_of
from trainer.siblings.request import body_of, most_tokens, request_of
from trainer.siblings.scoring import ScoringError, counting_policies, score_sibling
from trainer.siblings.servers import Servers
from trainer.siblings.settings import SiblingSettings

logger = structlog.get_logger()
_LONGEST_PAUSE_SECONDS = 3600.0


@dataclass(slots=True)
class Siblings:
    """What a worker keeps between passes."""

    settings: SiblingSettings
    judge: JudgeSettings
    upstream_urls: Sequence[str]
    engine: Engine
    policies: Callable[[], Sequence[Policy]]
    owner: str
    is_training: Callable[[], bool] = lambda: False

    @property
    def has_scorer(self) -> bool:
        return self.judge.scorer_url is not None

    @property
    def is_on(self) -> bool:
        """Without somebody who scores them siblings would teach nothing."""
        return self.settings.num_siblings > 0 and (self.has_scorer or self.judge.when is not JudgeWhen.OFF)


def make_siblings(siblings: Siblings) -> int:
    """One pass; how many siblings were sampled. Safe to call at any time, from any process."""
    num_sampled = 0
    if not siblings.is_on:
        return num_sampled
    with siblings.engine.connect() as connection:
        policies = {policy.id: policy for policy in counting_policies(connection, siblings.policies())}
    for _ in range(siblings.settings.per_pass):
        num_left = siblings.settings.per_pass - num_sampled
        run = _taken(siblings, list(policies), may_sample=num_left > 0 and _may_sample(siblings))
        if run is None:
            break
        num_sampled += _Worked(siblings, policies[run.policy_id], run).work(num_left)
    return num_sampled


def _may_sample(siblings: Siblings) -> bool:
    """Looked at before a run is taken, so that a busy time writes nothing."""
    if siblings.is_training():
        return False
    with siblings.engine.connect() as connection:
        spent = sibling_runs.tokens_of_today(connection, siblings.settings.age_seconds)
    if spent >= siblings.settings.tokens_per_day:
        return False
    return asyncio.run(_is_any_idle(siblings))


async def _is_any_idle(siblings: Siblings) -> bool:
    async with Servers(siblings.settings, siblings.upstream_urls) as servers:
        return await servers.is_any_idle()


def _taken(siblings: Siblings, policy_ids: list[UUID], *, may_sample: bool) -> sibling_runs.SiblingRun | None:
    states = [SiblingRunState.SCORING] + [SiblingRunState.SAMPLING] * may_sample
    with siblings.engine.begin() as connection:
        return sibling_runs.take_run(
            connection,
            policy_ids,
            siblings.owner,
            states=states,
            lease_seconds=siblings.settings.lease_seconds,
            num_siblings=siblings.settings.num_siblings,
            age_seconds=siblings.settings.age_seconds,
        )


class _Worked:
    """One run while this worker holds it."""

    def __init__(self, siblings: Siblings, policy: Policy, run: sibling_runs.SiblingRun) -> None:
        self._siblings = siblings
        self._settings = siblings.settings
        self._policy = policy
        self._run = run
        self._num_sampled = 0

    def work(self, num_left: int) -> int:
        """As far as it goes now."""
        try:
            self._work(num_left)
        except sibling_runs.LeaseLostError:
            logger.warning("sibling_run_lost", run_id=str(self._run.id))
        return self._num_sampled

    def _work(self, num_left: int) -> None:
        try:
            self._advance(num_left)
        except UnwantedError as unwanted:
            self._end(unwanted.reason)
        except BusyError:
            self._put_off(self._run.num_attempts, self._settings.pass_seconds)
        except SamplingError as error:
            self._failed(SiblingReason.SAMPLING_FAILED, str(error))
        except ScoringError as error:
            self._failed(SiblingReason.SCORER_FAILED, str(error))
        except sibling_runs.LeaseLostError:
            raise
        except Exception as error:
            self._broke_off(error)
            raise

    def _advance(self, num_left: int) -> None:
        with self._siblings.engine.connect() as connection:
            original = read_original(connection, self._run)
        if self._run.num_attempts >= self._settings.attempts:  # the last ones ended with a crash
            failure = SamplingError if self._run.state is SiblingRunState.SAMPLING else ScoringError
            raise failure("Its workers died.")
        if self._run.state is SiblingRunState.SAMPLING:
            for sibling_id in self._missing():
                if self._num_sampled >= num_left:
                    raise BusyError
                self._sample(original, sibling_id)
                self._num_sampled += 1
            self._run = replace(self._run, state=SiblingRunState.SCORING)
        if self._siblings.has_scorer:
            self._score(original)
        self._end(None)

    def _missing(self) -> list[UUID]:
        with self._siblings.engine.connect() as connection:
            recorded = sibling_runs.recorded_siblings(connection, self._run)
        return [id_ for id_ in self._run.sibling_ids if id_ not in recorded]

    def _sample(self, original: Original, sibling_id: UUID) -> None:
        """Reserved, sampled, recorded: the last in one transaction."""
        if self._siblings.is_training():
            raise BusyError
        request = request_of(original, self._settings.max_tokens)
        most = len(original.prompt_ids) + most_tokens(original, self._settings.max_tokens)
        with self._siblings.engine.begin() as connection:
            check_wanted(connection, self._run)
            spent = sibling_runs.tokens_of_today(connection, self._settings.age_seconds)
            if spent + most > self._settings.tokens_per_day:
                raise BusyError
        sampled = asyncio.run(self._sampled(original, request, sibling_id, most))
        if list(sampled.prompt_ids) != list(original.prompt_ids):
            raise UnwantedError(SiblingReason.PROMPT_MISMATCH)
        call = sibling_call(
            self._run, self._policy, original, sampled, sibling_id=sibling_id, request=request
        )
        with self._siblings.engine.begin() as connection:
            record_sibling(connection, self._run, self._policy, call)
            sibling_runs.settle(connection, self._run, self._siblings.owner, sampled.num_tokens - most)
        self._run = replace(self._run, num_attempts=0)
        logger.info("sibling_sampled", run_id=str(self._run.id), version=sampled.version)

    async def _sampled(
        self, original: Original, request: dict[str, Any], sibling_id: UUID, most: int
    ) -> Sampled:
        async with Servers(self._settings, self._siblings.upstream_urls) as servers:
            place = await servers.idle_place(self._policy, original.version)
            self._reserve(most)
            started_at, began = datetime.now(UTC), perf_counter()
            body = body_of(original, request, place.model)
            reply = await servers.ask(place, original.endpoint, body, sibling_id.hex)
        answered_model, prompt_ids, choice = choice_of(original.endpoint, reply)
        seconds = perf_counter() - began
        return Sampled(place.version, place.model, answered_model, prompt_ids, choice, started_at, seconds)

    def _score(self, original: Original) -> None:
        with self._siblings.engine.connect() as connection:
            unscored = sibling_runs.unscored_siblings(connection, self._run)
        for sibling_id in unscored:
            self._reserve(0)
            score_sibling(self._siblings, self._policy, self._run, original, sibling_id)
            self._run = replace(self._run, num_attempts=0)

    def _reserve(self, num_tokens: int) -> None:
        with self._siblings.engine.begin() as connection:
            seconds = self._settings.lease_seconds
            sibling_runs.reserve(
                connection, self._run, self._siblings.owner, num_tokens=num_tokens, seconds=seconds
            )

    def _failed(self, reason: SiblingReason, why: str) -> None:
        num_attempts = self._run.num_attempts + 1
        logger.warning("sibling_failed", run_id=str(self._run.id), reason=reason, why=why)
        if num_attempts >= self._settings.attempts:
            self._end(reason)
        else:
            pause = self._settings.retry_seconds * 2 ** (num_attempts - 1)
            self._put_off(num_attempts, min(pause, _LONGEST_PAUSE_SECONDS))

    def _broke_off(self, error: Exception) -> None:
        """It must not hold up the others until its lease is over. Its words may be a user's."""
        is_scoring = self._run.state is SiblingRunState.SCORING
        reason = SiblingReason.SCORER_FAILED if is_scoring else SiblingReason.SAMPLING_FAILED
        with suppress(DBAPIError, psycopg.Error, sibling_runs.LeaseLostError):  # Postgres is away
            self._failed(reason, type(error).__name__)

    def _put_off(self, num_attempts: int, seconds: float) -> None:
        with self._siblings.engine.begin() as connection:
            sibling_runs.put_off(
                connection,
                self._run,
                self._siblings.owner,
                state=self._run.state,
                num_attempts=num_attempts,
                seconds=seconds,
            )

    def _end(self, reason: SiblingReason | None) -> None:
        with self._siblings.engine.begin() as connection:
            sibling_runs.end_run(connection, self._run, self._siblings.owner, reason)
        logger.info("sibling_run_ended", run_id=str(self._run.id), reason=reason)
