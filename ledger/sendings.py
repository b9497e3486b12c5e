"""The sendings of one body with one key, read from the ledger and from a batch: what ledger.retries decides about.

Only families that hold a retry are looked at. Of a body that was sent very often the newest calls are read.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.drafts import Draft
from ledger.identifiers import MAX_CHOICES
from ledger.retries import WINDOW_SECONDS, Sending, SentExchange
from ledger.text import to_storable_text
from ledger.vocabulary import ExchangeStatus, IdentifiedBy

MAX_EXCHANGES = 1000
_UNTAGGED = (IdentifiedBy.NEW, IdentifiedBy.CONVERSATION)
_WANTED = """
    unnest(CAST(:projects AS uuid[]), CAST(:keys AS uuid[]), CAST(:endpoints AS text[]), CAST(:bodies AS bytea[]),
        CAST(:first_ids AS uuid[]), CAST(:last_ids AS uuid[])) WITH ORDINALITY
        AS wanted (project_id, key_id, endpoint, body, first_id, last_id, number)
"""
_SENT = """
    e.request_sha256 = wanted.body AND e.id >= wanted.first_id AND e.id <= wanted.last_id
        AND e.project_id = wanted.project_id AND e.endpoint = wanted.endpoint
        AND e.key_id IS NOT DISTINCT FROM wanted.key_id
"""
RETRIED = f"""
    SELECT wanted.number FROM {_WANTED}
    CROSS JOIN LATERAL (SELECT 1 FROM exchanges AS e WHERE {_SENT} AND e.num_retries > 0 LIMIT 1) AS retry
"""  # noqa: S608 - constants
FAMILY = f"""
    SELECT wanted.number, sent.* FROM {_WANTED}
    CROSS JOIN LATERAL (
        SELECT e.id, e.trajectory_id, e.num_retries, e.status, e.is_delivered, e.is_trainable, e.identified_by,
            e.retry_of
        FROM exchanges AS e WHERE {_SENT}
        ORDER BY e.id DESC LIMIT {MAX_EXCHANGES}
    ) AS sent
"""  # noqa: S608 - constants

FamilyKey = tuple[UUID, UUID | None, str, str]  # project, API key, endpoint, body


@dataclass(slots=True)
class Family:
    """What was recorded of the sendings of one body, and what comes now."""

    drafts: list[Draft]
    rows: list[Any] = field(default_factory=list)

    def links(self) -> dict[UUID, UUID]:
        return {call_of(row.id): call_of(row.retry_of) for row in self.rows if row.retry_of}

    def known(self, taken: set[UUID]) -> list[Sending]:
        """`taken`: trajectories whose group is no longer open."""
        calls = _by_call(self.rows)
        return [_recorded(call_id, rows, taken) for call_id, rows in calls.items()]

    def new(self, placed: dict[UUID, UUID]) -> list[Sending]:
        return [_coming(call_id, drafts, placed) for call_id, drafts in _by_call(self.drafts).items()]


def read_families(connection: Connection, drafts: Sequence[Draft]) -> list[Family]:
    """The families of a batch in which there is a retry."""
    sent: dict[FamilyKey, Family] = {}
    for draft in drafts:
        if draft.request_sha256:
            sent.setdefault(_key(draft), Family([])).drafts.append(draft)
    keys = sorted(sent, key=str)
    retried = {number - 1 for number in _numbers(connection, keys, sent)}
    wanted = [k for n, k in enumerate(keys) if n in retried or any(d.num_retries for d in sent[k].drafts)]
    if wanted:
        for row in connection.execute(text(FAMILY), columns(wanted, sent)):
            sent[wanted[row.number - 1]].rows.append(row)
    return [sent[key] for key in wanted]


def _numbers(connection: Connection, keys: list[FamilyKey], sent: dict[FamilyKey, Family]) -> Iterable[int]:
    return connection.scalars(text(RETRIED), columns(keys, sent)).all() if keys else []


def columns(keys: list[FamilyKey], sent: dict[FamilyKey, Family]) -> dict[str, list[Any]]:
    window = WINDOW_SECONDS * 1000 << 80
    return {
        "projects": [key[0] for key in keys],
        "keys": [key[1] for key in keys],
        "endpoints": [key[2] for key in keys],
        "bodies": [key[3] for key in keys],
        "first_ids": [UUID(int=sent[key].drafts[0].id.int - window) for key in keys],
        "last_ids": [UUID(int=sent[key].drafts[-1].id.int + window) for key in keys],
    }


def call_of(exchange_id: UUID) -> UUID:
    return UUID(int=exchange_id.int // MAX_CHOICES * MAX_CHOICES)


def _key(draft: Draft) -> FamilyKey:
    call = draft.call
    return draft.project_id, call.key_id, to_storable_text(call.endpoint), draft.request_sha256 or ""


def _by_call(exchanges: Iterable[Any]) -> dict[UUID, list[Any]]:
    calls: dict[UUID, list[Any]] = defaultdict(list)
    for exchange in sorted(exchanges, key=lambda one: one.id):
        calls[call_of(exchange.id)].append(exchange)
    return calls


def _recorded(call_id: UUID, rows: list[Any], taken: set[UUID]) -> Sending:
    return Sending(
        call_id=call_id,
        num_retries=rows[0].num_retries,
        is_completed=rows[0].status == ExchangeStatus.COMPLETED,
        is_delivered=rows[0].is_delivered,
        is_taken=any(row.is_trainable and row.trajectory_id in taken for row in rows),
        exchanges=tuple(
            SentExchange(row.id, row.trajectory_id, row.is_trainable, row.identified_by in _UNTAGGED)
            for row in rows
        ),
    )


def _coming(call_id: UUID, drafts: list[Draft], placed: dict[UUID, UUID]) -> Sending:
    call = drafts[0].call
    return Sending(
        call_id=call_id,
        num_retries=drafts[0].num_retries,
        is_completed=call.status is ExchangeStatus.COMPLETED,
        is_delivered=call.is_delivered,
        is_taken=False,
        exchanges=tuple(
            SentExchange(draft.id, placed[draft.id], draft.reason is None, draft.identified_by in _UNTAGGED)
            for draft in drafts
        ),
    )
