"""Exchanges made whole again: what `ledger.deltas` left out is put back, exactly."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, literal_column, select
from sqlalchemy.dialects.postgresql import JSONB

from ledger.reshaping import RESHAPING_FIELDS, is_reshaped
from ledger.tables import exchanges, trajectories


@dataclass(frozen=True, slots=True)
class WholeExchange:
    """One exchange with its whole prompt. Example: prompt_ids [1, 5, 9], completion_ids [7, 2], logprobs of those two."""

    exchange_id: UUID
    trajectory_id: UUID
    group_id: UUID | None
    version: int | None  # None: another provider answered
    choice_index: int
    prompt_ids: list[int] | None
    completion_ids: list[int] | None
    sampling_logprobs: list[float] | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    finish_reason: str | None
    is_trainable: bool
    untrainable_reason: str | None
    num_completion_tokens: int | None
    is_reshaped: bool = False  # see ledger.reshaping


_AS_STORED = [
    "trajectory_id", "version", "choice_index", "completion_ids", "sampling_logprobs", "temperature", "top_p",
    "top_k", "finish_reason", "is_trainable", "untrainable_reason", "num_completion_tokens",
]  # fmt: skip


# Of a request only what may reshape; an explored call was drawn without its min_p.
_RESHAPING = literal_column(
    f"""(SELECT jsonb_object_agg(field.key, field.value)
        FROM jsonb_each(exchanges.request) AS field
        WHERE field.key IN ({", ".join(f"'{name}'" for name in RESHAPING_FIELDS)})
          AND NOT (field.key = 'min_p' AND exchanges.is_explored))""",  # noqa: S608 - names of our own
    JSONB,
).label("reshaping")


def whole_exchanges(
    connection: Connection, trajectory_ids: Sequence[UUID]
) -> dict[UUID, list[WholeExchange]]:
    """The exchanges of each trajectory in turn order (their ids' order), deltas undone."""
    of = exchanges.c
    rows = connection.execute(
        select(
            of.id, of.prompt_ids, of.parent_exchange_id, of.num_shared_tokens, *(of[n] for n in _AS_STORED),
            trajectories.c.group_id, _RESHAPING,
        )
        .join_from(exchanges, trajectories, trajectories.c.id == of.trajectory_id)
        .where(of.trajectory_id.in_(trajectory_ids))
        .order_by(of.trajectory_id, of.id)
    ).all()  # fmt: skip
    whole: dict[UUID, list[WholeExchange]] = {id_: [] for id_ in trajectory_ids}
    for row, prompt_ids in zip(rows, whole_prompts(rows), strict=True):
        kept = {name: getattr(row, name) for name in _AS_STORED}
        whole[row.trajectory_id].append(
            WholeExchange(
                exchange_id=row.id,
                group_id=row.group_id,
                prompt_ids=prompt_ids,
                is_reshaped=is_reshaped(row.top_p, row.top_k, row.reshaping or {}),
                **kept,
            )
        )
    return whole


def whole_prompts(rows: Iterable[Any]) -> list[list[int] | None]:
    """Whole prompt ids of rows in id order: a parent is among the rows before. None where a part of it was erased."""
    transcripts: dict[UUID, list[int]] = {}
    prompts: list[list[int] | None] = []
    for row in rows:
        prompt = row.prompt_ids
        if prompt is not None and row.parent_exchange_id is not None:
            shared = transcripts.get(row.parent_exchange_id)
            prompt = None if shared is None else shared[: row.num_shared_tokens] + prompt
        if prompt is not None:
            transcripts[row.id] = prompt + (row.completion_ids or [])
        prompts.append(prompt)
    return prompts


def whole_messages(rows: Iterable[Any]) -> list[list[Any] | None]:
    """Whole messages (storable form) of rows in id order, without those that were erased."""
    known: dict[UUID, list[Any]] = {}
    for row in rows:
        if row.messages is not None:
            shared = (
                known.get(row.parent_exchange_id, [])[: row.num_shared_messages]
                if row.num_shared_messages
                else []
            )
            known[row.id] = shared + row.messages
    return [known.get(row.id) for row in rows]
