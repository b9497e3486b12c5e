"""Posting rewards: append-only judgements, each written once, whoever posts it and how often (I5).

A few statements a batch, whatever its size; the result is that of posting one after the other, and what is refused
stops no other. Answer after the commit. Locks are taken in one order: the projects' (ledger.rewards.meanings), the judged
trajectories' by id, the judgements' by key (ledger.rewards.judgements), then whatever `move_late` takes: groups by id.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Literal, TypeAlias, cast
from uuid import UUID

from sqlalchemy import Connection

from ledger.bulk import insert_question
from ledger.direct import DirectConnection, direct
from ledger.erasure.rewards import without_words
from ledger.errors import LedgerError, RewardOutOfRangeError, RewardRefusedError
from ledger.groups.readiness import complete_groups, may_be_complete
from ledger.identifiers import new_id
from ledger.rewards.counting import not_counted, note, reasons_not_counted
from ledger.rewards.judgements import Event, Standing, lock_and_read
from ledger.rewards.late import LateReward, move_late
from ledger.rewards.meanings import Held, Meaning, Target
from ledger.rewards.metrics import ProjectRules, rules_of, rules_question
from ledger.rewards.posts import Posting, RewardPost, RewardResult, TakenBack
from ledger.rewards.ranges import Accepted, check_range
from ledger.rewards.targets import canonical, choice_needed
from ledger.tables import reward_events
from ledger.text import to_name, to_storable, to_storable_text
from ledger.vocabulary import JUDGE_SOURCE, NotCounted

Answer: TypeAlias = list[RewardResult] | LedgerError
_MOST_LOOKS = 20


@dataclass(slots=True)
class _Judgement:
    """One post on its way: what it means, and the event that says so, its own or one that stood already."""

    post: RewardPost
    meaning: Meaning
    of: Accepted
    event: Event
    is_new: bool = True
    taken_back: TakenBack | None = None
    reason: NotCounted | None = None


def post_reward(connection: Connection, project: str, post: RewardPost) -> RewardResult:
    """One. Raises RewardRefusedError, or LedgerError where there is no such project."""
    [answer] = post_rewards(connection, [Posting(project, [post])])
    if isinstance(answer, LedgerError):
        raise answer
    return answer[0]


def post_rewards(connection: Connection | DirectConnection, postings: Sequence[Posting]) -> list[Answer]:
    """The answer of each posting: its results, or why none of its posts was written."""
    if not postings:
        return []
    asked = direct(connection)
    prepared, standing = _held(asked, postings)
    answers: list[LedgerError | list[_Judgement]] = []
    for judgements in prepared:
        try:
            answers.append(
                judgements if isinstance(judgements, LedgerError) else _settled(standing, judgements)
            )
        except RewardRefusedError as error:
            answers.append(error)
    ready = _write(asked, [one for some in answers if not isinstance(some, LedgerError) for one in some])
    return [
        some if isinstance(some, LedgerError) else [_result(one, ready) for one in some] for some in answers
    ]


def _held(
    asked: DirectConnection, postings: Sequence[Posting]
) -> tuple[list[LedgerError | list[_Judgement]], Standing]:
    """Each posting's judgements, and what stands where they would, until the commit."""
    targets = [
        Target(posting.project, post.target, post.choice, post.is_whole)
        for posting in postings
        for post in posting.posts
    ]
    held = Held(asked, targets)
    [found] = held.look(rules_question({posting.project for posting in postings}))
    rules = rules_of(found)
    for _ in range(_MOST_LOOKS):
        meanings = iter(held.meanings)
        prepared = [
            _prepared(posting, rules.get(posting.project), list(islice(meanings, len(posting.posts))))
            for posting in postings
        ]
        events = [one.event for some in prepared if not isinstance(some, LedgerError) for one in some]
        answer, standing = lock_and_read(asked, held.question, events)
        if held.is_true(answer):
            return prepared, standing
        held.look()
    raise AssertionError("what is judged went away again and again")


def _prepared(
    posting: Posting, rules: ProjectRules | None, meanings: Sequence[Meaning]
) -> LedgerError | list[_Judgement]:
    """Or why one of its posts cannot be a judgement."""
    if rules is None:
        return LedgerError(f"there is no project {posting.project!r}: `slipstream keys` lists them")
    try:
        pairs = zip(posting.posts, meanings, strict=True)
        return [_judgement(post, rules, meaning) for post, meaning in pairs]
    except LedgerError as error:
        return error


def _judgement(post: RewardPost, rules: ProjectRules, meaning: Meaning) -> _Judgement:
    """Raises RewardRefusedError."""
    if meaning.choices:
        raise choice_needed(meaning.choices)
    of = rules.accepted(meaning.policy_id, to_name(post.metric))
    if post.value is not None and not math.isfinite(post.value):
        raise RewardOutOfRangeError("The reward must be a finite number.")
    return _Judgement(post, meaning, of, _event(post, rules.id, meaning))


def _event(post: RewardPost, project_id: UUID, meaning: Meaning) -> Event:
    event = {
        "id": new_id(),
        "project_id": project_id,
        "target": canonical(post.target, post.choice),
        "trajectory_id": meaning.trajectory_id,
        "exchange_id": meaning.exchange_id,
        "metric": to_name(post.metric),
        "value": None if post.value is None else float(post.value),
        "content": to_storable(post.content),
        "comment": None if post.comment is None else to_storable_text(post.comment),
        "source": to_name(post.source),
        "is_retraction": post.is_retraction,
        "idempotency_id": to_name(post.idempotency_id) if post.idempotency_id else None,
        "observed_at": post.observed_at or datetime.now(UTC),
        "key_id": post.key_id,
        "is_final": post.is_final,
        "is_whole": post.is_whole,
        "comparison_id": post.comparison_id,
    }
    if meaning.trajectory_id and meaning.is_erased:
        event |= without_words(meaning.trajectory_id, meaning.exchange_id, event["source"])
    return event


def _settled(standing: Standing, judgements: list[_Judgement]) -> list[_Judgement]:
    """In their order: each meets what the ones before it say. Raises RewardRefusedError; then nothing is added."""
    tried = standing if len(judgements) == 1 else standing.copy()
    for judgement in judgements:
        _settle(tried, judgement)
    if tried is not standing:
        standing.add(judgement.event for judgement in judgements if judgement.event)
    return judgements


def _settle(standing: Standing, judgement: _Judgement) -> None:
    """A retraction of what nobody said, or what was taken back already, is not written. Raises RewardRefusedError."""
    current = standing.current(judgement.event)
    if judgement.post.is_retraction and (current is None or current["is_retraction"]):
        judgement.event, judgement.is_new = current or {}, False
        return
    same = standing.same(judgement.event)
    if same is not None:
        judgement.event, judgement.is_new = same, False
        return
    check_range(
        judgement.post.metric, judgement.post.value, judgement.of
    )  # of what is new: a range may change
    standing.add([judgement.event])
    if judgement.post.is_retraction and current:
        judgement.taken_back = TakenBack(current["id"], current["value"])


def _write(asked: DirectConnection, judgements: list[_Judgement]) -> set[UUID]:
    """Their open groups that have all that they wait for."""
    new = [judgement for judgement in judgements if judgement.is_new]
    late = {one.meaning.trajectory_id: one.meaning for one in new if one.meaning.is_late}
    open_ones = {one.meaning.group_id for one in new if one.meaning.group_id and not one.meaning.is_late}
    may_be: Sequence[UUID] = ()
    if new:
        insert = insert_question(reward_events, [_row(judgement.event) for judgement in new])
        may_be = asked.ask(insert, may_be_complete(open_ones))[1].scalars()
    _say_what_counts(asked, judgements)
    if late:
        move_late(asked, [LateReward.of(meaning) for _, meaning in sorted(late.items())])
    return complete_groups(cast("Connection", asked), may_be)


def _say_what_counts(asked: DirectConnection, judgements: list[_Judgement]) -> None:
    """The view knows of every one; it is asked where only it does."""
    unsure = []
    for one in judgements:
        if one.post.is_retraction:
            one.reason = NotCounted.RETRACTION
            continue
        is_early = one.event["trajectory_id"] is None
        one.reason = not_counted(one.event["value"], one.of, is_early=is_early)
        is_repeated = not one.is_new and one.event["idempotency_id"] is not None
        if not is_early and (one.event["source"] == JUDGE_SOURCE or is_repeated):
            unsure.append(one)
    if unsure:
        reasons = reasons_not_counted(asked, [one.event["id"] for one in unsure])
        for one in unsure:
            one.reason = reasons.get(one.event["id"], one.reason)


def _row(event: Event) -> Event:
    """What is storable already is written as it is."""
    return event | {"content": None if event["content"] is None else json.dumps(event["content"])}


def _result(judgement: _Judgement, ready: set[UUID]) -> RewardResult:
    meaning = judgement.meaning
    status: Literal["recorded", "unchanged"] = "recorded" if judgement.is_new else "unchanged"
    return RewardResult(
        event_id=judgement.event.get("id"),
        status="early" if judgement.event and not meaning.trajectory_id else status,
        trajectory_id=meaning.trajectory_id,
        exchange_id=meaning.exchange_id,
        group_is_ready=meaning.group_id in ready,
        not_counted_reason=judgement.reason,
        note=note(judgement.reason, judgement.post.metric),
        taken_back=judgement.taken_back,
    )
