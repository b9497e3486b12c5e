"""The columns of an export, in order: what a row is made of and how each value is written.

Text and JSON stand as the ledger stores them: U+001A escapes what neither Postgres nor a file can hold (docs/sql.md).
"""

from enum import StrEnum

EXPORT_VERSION = 1


class Kind(StrEnum):
    """JSON, ids and logprobs are carried as the text that Postgres wrote: exact, and cheaper than values."""

    TEXT = "text"
    UUID = "uuid"
    INTEGER = "integer"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    MOMENT = "moment"
    JSON = "json"  # the text of a JSON value
    IDS = "ids"  # "1,2,3"
    REALS = "reals"  # "-0.5,NaN"


STORED = {
    "request_id": Kind.TEXT, "choice_index": Kind.INTEGER, "prompt_index": Kind.INTEGER, "endpoint": Kind.TEXT,
    "is_streamed": Kind.BOOLEAN, "requested_model": Kind.TEXT, "answered_model": Kind.TEXT,
    "client_name": Kind.TEXT, "status": Kind.TEXT, "http_status": Kind.INTEGER, "error": Kind.JSON,
    "is_delivered": Kind.BOOLEAN, "retry_of": Kind.UUID, "num_retries": Kind.INTEGER, "turn_type": Kind.TEXT,
    "identified_by": Kind.TEXT, "request": Kind.JSON, "response": Kind.JSON, "completion_text": Kind.TEXT,
    "completion_ids": Kind.IDS, "logprobs": Kind.REALS, "finish_reason": Kind.TEXT, "stop_reason": Kind.TEXT,
    "temperature": Kind.DOUBLE, "top_p": Kind.DOUBLE, "top_k": Kind.INTEGER, "max_tokens": Kind.INTEGER,
    "seed": Kind.INTEGER, "num_prompt_tokens": Kind.INTEGER, "num_completion_tokens": Kind.INTEGER,
    "first_token_seconds": Kind.DOUBLE, "total_seconds": Kind.DOUBLE, "started_at": Kind.MOMENT,
    "is_trainable": Kind.BOOLEAN, "untrainable_reason": Kind.TEXT, "created_at": Kind.MOMENT,
    "is_explored": Kind.BOOLEAN, "is_shadow": Kind.BOOLEAN,
}  # fmt: skip
"""Columns of `exchanges` that are written as they are."""

DIGESTS = ("request_sha256", "conversation_sha256")
OF_TRAJECTORY = {
    "external_id": Kind.TEXT, "trajectory_identified_by": Kind.TEXT, "trajectory_choice_index": Kind.INTEGER,
    "metadata": Kind.JSON, "end_user": Kind.TEXT,
}  # fmt: skip
OF_GROUP = {
    "group_id": Kind.UUID, "group_kind": Kind.TEXT, "group_key": Kind.TEXT, "group_sequence": Kind.INTEGER,
    "group_size": Kind.INTEGER, "group_state": Kind.TEXT, "group_reason": Kind.TEXT,
}  # fmt: skip
COLUMNS: dict[str, Kind] = {
    "export_version": Kind.INTEGER, "id": Kind.UUID, "trajectory_id": Kind.UUID, "project": Kind.TEXT,
    "policy": Kind.TEXT, "base_model": Kind.TEXT, "version": Kind.INTEGER, "adapter_sha256": Kind.TEXT,
    "messages": Kind.JSON, "prompt_ids": Kind.IDS,
    **STORED,
    **dict.fromkeys(DIGESTS, Kind.TEXT),
    **OF_TRAJECTORY,
    **OF_GROUP,
    "reward": Kind.DOUBLE, "rewards": Kind.JSON, "samples": Kind.JSON,
}  # fmt: skip
