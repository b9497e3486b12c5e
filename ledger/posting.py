"""Posting rewards: append-only judgements, each written once, whoever posts it and how often (I5).

A few statements a batch, whatever its size; the result is that of posting one after the other, and what is refused
stops no other. Answer after the commit. Locks are taken in one order: the projects' (ledger.meanings), the judged
trajectories' by id, the judgements' by key (ledger.judgements), then whatever `move_late` takes: groups by id.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias, cast
from uuid import UUID

from sqlalchemy import Connection

from ledger.bulk import insert_new_rows
from ledger.counting import not_counted, note, reasons_not_counted
from ledger.direct import DirectConnection, direct
from ledger.erasure.rewards import without_words
from ledger.errors import LedgerError, RewardOutOfRangeError, RewardRefusedError
from ledger.groups import complete_groups
from ledger.identifiers import new_id
from ledger.judgements import Event, Standing, lock_and_read
from ledger.late_rewards import LateReward, move_late
from ledger.meanings import Meaning, Target, held
from ledger.metrics import ProjectRules, read_rules
from ledger.ranges import Accepted, check_range
from ledger.reward_posts import Posting, RewardPost, RewardResult
from ledger.tables import reward_events
from ledger.targets import canonical, choice_needed
from ledger.text import to_name, to_storable, to_storable_text
from ledger.vocabulary import JUDGE_SOURCE, NotCounted

Answer: TypeAlias = list[RewardResult] | LedgerError


@dataclass(slots=True)
class _Judgement:
    """One post on its way: what it means, and the event that says so, its own or one that stood already."""

    post: RewardPost
    meaning: Meaning
    of: Accepted
    event: Event
    is_new: bool = True
    reason: NotCounted | None = None


def post_reward(connection: Connection, project: str, post: RewardPost) -> RewardResult:
    """One. Raises RewardRefusedError, or LedgerError where there is no such project."""
    [answer] = post_rewards(connection, [Posting(project, [post])])
    if isinstance(answer, LedgerError):
        raise answer
    return answer[0]


def post_rewards(connection: Connection | DirectConnection, postings: Sequence[Posting]) -> list[Answer]:
    """The answer of each posting: its results, or why none of its posts was written."""
    asked = direct(connection)
    answers: dict[int, Answer] = {}
    projects = read_rules(asked, {posting.project for posting in postings})
    meanings = _meanings(asked, postings, projects)
    prepared: dict[int, list[_Judgement]] = {}
    for number, posting in enumerate(postings):
        try:
            prepared[number] = _prepared(posting, projects, meanings.get(number))
        except LedgerError as error:
            answers[number] = error
    standing = _standing(asked, prepared)
    written: dict[int, list[_Judgement]] = {}
    for number, judgements in prepared.items():
        try:
            written[number] = _settled(standing, judgements)
        except RewardRefusedError as error:
            answers[number] = error
    ready = _write(asked, [judgement for some in written.values() for judgement in some])
    answers |= {number: [_result(one, ready) for one in some] for number, some in written.items()}
    return [answers[number] for number in range(len(postings))]


def _meanings(
    asked: DirectConnection, postings: Sequence[Posting], projects: dict[str, ProjectRules]
) -> dict[int, list[Meaning]]:
    """By the number of the posting; held until the commit."""
    targets: list[Target] = []
    numbers: list[int] = []
    for number, posting in enumerate(postings):
        if posting.project in projects:
            id_ = projects[posting.project].id
            targets += [Target(id_, post.target, post.choice, post.is_whole) for post in posting.posts]
            numbers += [number] * len(posting.posts)
    found: dict[int, list[Meaning]] = {}
    for number, meaning in zip(numbers, held(asked, targets) if targets else (), strict=True):
        found.setdefault(number, []).append(meaning)
    return found


def _prepared(
    posting: Posting, projects: dict[str, ProjectRules], meanings: list[Meaning] | None
) -> list[_Judgement]:
    """Raises LedgerError where one of its posts cannot be a judgement."""
    if meanings is None:
        raise LedgerError(f"there is no project {posting.project!r}: `slipstream keys` lists them")
    rules = projects[posting.project]
    judgements = []
    for post, meaning in zip(posting.posts, meanings, strict=True):
        if meaning.choices:
            raise choice_needed(meaning.choices)
        of = rules.accepted(meaning.policy_id, to_name(post.metric))
        _check_value(post, of)
        judgements.append(_Judgement(post, meaning, of, _event(post, rules.id, meaning)))
    return judgements


def _check_value(post: RewardPost, of: Accepted) -> None:
    if post.value is not None and not math.isfinite(post.value):
        raise RewardOutOfRangeError("The reward must be a finite number.")
    check_range(post.metric, post.value, of)


def _event(post: RewardPost, project_id: UUID, meaning: Meaning) -> Event:
    event = {
        "id": new_id(),
        "project_id": project_id,
        "target": canonical(post.target, post.choice),
        "trajectory_id": meaning.trajectory_id,
        "exchange_id": meaning.exchange_id,
        "metric": to_name(post.metric),
        "value": post.value,
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


def _standing(asked: DirectConnection, prepared: dict[int, list[_Judgement]]) -> Standing:
    events = [judgement.event for some in prepared.values() for judgement in some]
    return lock_and_read(asked, events) if events else Standing()


def _settled(standing: Standing, judgements: list[_Judgement]) -> list[_Judgement]:
    """In their order: each meets what the ones before it say. Raises RewardRefusedError; then nothing is added."""
    tried = standing if len(judgements) == 1 else standing.copy()
    for judgement in judgements:
        same = tried.same(judgement.event)
        if same is None:
            tried.add([judgement.event])
        else:
            judgement.event, judgement.is_new = same, False
    if tried is not standing:
        standing.add(judgement.event for judgement in judgements)
    return judgements


def _write(asked: DirectConnection, judgements: list[_Judgement]) -> set[UUID]:
    """Their open groups that have all that they wait for."""
    new = [judgement for judgement in judgements if judgement.is_new]
    insert_new_rows(cast("Connection", asked), reward_events, [_row(judgement.event) for judgement in new])
    _say_what_counts(asked, judgements)
    late = {one.meaning.trajectory_id: one.meaning for one in new if one.meaning.is_late}
    if late:
        move_late(asked, [LateReward.of(meaning) for _, meaning in sorted(late.items())])
    open_ones = {one.meaning.group_id for one in new if one.meaning.group_id and not one.meaning.is_late}
    return complete_groups(cast("Connection", asked), open_ones)


def _say_what_counts(asked: DirectConnection, judgements: list[_Judgement]) -> None:
    """The view knows of every one; it is asked where only it does."""
    unsure = []
    for one in judgements:
        is_early = one.event["trajectory_id"] is None
        one.reason = not_counted(
            one.event["value"], one.of, is_early=is_early, is_retraction=one.event["is_retraction"]
        )
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
        event_id=judgement.event["id"],
        status=status if meaning.trajectory_id else "early",
        trajectory_id=meaning.trajectory_id,
        exchange_id=meaning.exchange_id,
        group_is_ready=meaning.group_id in ready,
        not_counted_reason=judgement.reason,
        note=note(judgement.reason, judgement.post.metric),
    )
