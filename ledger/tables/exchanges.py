"""What passed through, call by call: the exact token ids, the sampling logprobs, and all that stands beside them."""

from sqlalchemy import (
    REAL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from ledger.tables.metadata import created_at, metadata, one_of
from ledger.vocabulary import ExchangeStatus, IdentifiedBy, Reason

# Where a request may name its user. A name may be longer than an index holds: its beginning is indexed.
USERS = {
    "user": "request ->> 'user'::text",
    "safety_identifier": "request ->> 'safety_identifier'::text",
    "metadata_user_id": "request #>> '{metadata,user_id}'::text[]",
}


def _index_of_user(name: str, value: str) -> Index:
    return Index(
        f"ix_exchanges_{name}",
        "project_id",
        text(f'"left"({value}, 256)'),
        postgresql_where=text(f"({value}) IS NOT NULL"),
    )


exchanges = Table(
    "exchanges",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7; the call's id plus the choice index."),
    Column("trajectory_id", Uuid, nullable=False, comment="The trajectory it is a turn of."),
    Column("project_id", Uuid, nullable=False, comment="The tenant."),
    Column("policy_id", Uuid, nullable=False, comment="The policy that answered."),
    Column(
        "version",
        Integer,
        comment="The policy version that produced it: decided at dispatch, verified against the reply. "
        "NULL = an external provider did.",
    ),
    Column("request_id", Text, nullable=False, comment="x-request-id of the call."),
    Column("choice_index", Integer, nullable=False, comment="Which choice of its call."),
    Column("endpoint", Text, nullable=False, comment="The route, such as /v1/chat/completions."),
    Column("is_streamed", Boolean, nullable=False, comment="Whether the client asked for a stream."),
    Column("requested_model", Text, nullable=False, comment="`model` as the client wrote it."),
    Column("answered_model", Text, comment="`model` as vLLM answered; NULL if it never did."),
    Column("client_name", Text, comment="The client's user agent."),
    Column("status", Text, nullable=False, comment="completed, cancelled, failed or interrupted."),
    Column("http_status", Integer, comment="The status the client got."),
    Column("error", JSONB, comment="The error object, where there was one."),
    Column(
        "is_delivered",
        Boolean,
        nullable=False,
        comment="Whether the answer was handed to the client's connection to its end.",
    ),
    Column("retry_of", Uuid, comment="The exchange that this call repeats (an SDK's retry)."),
    Column(
        "turn_type",
        Text,
        nullable=False,
        server_default=text("'main'"),
        comment="main or side (served, never trained).",
    ),
    Column(
        "parent_exchange_id",
        Uuid,
        comment="The earlier turn that this row is a delta of; NULL = the row is whole.",
    ),
    Column(
        "num_shared_tokens",
        Integer,
        nullable=False,
        server_default=text("0"),
        comment="How many leading prompt tokens stand in the parent (its prompt, then its completion).",
    ),
    Column(
        "num_shared_messages",
        Integer,
        nullable=False,
        server_default=text("0"),
        comment="How many leading messages stand in the parent (its messages).",
    ),
    Column("num_messages", Integer, comment="How many messages the request had, the shared ones included."),
    Column(
        "messages_sha256", LargeBinary, comment="Digest of all its messages: does the next turn repeat them?"
    ),
    Column(
        "num_transcript_tokens", Integer, comment="Length of the whole prompt and the completion, in tokens."
    ),
    Column(
        "transcript_sha256",
        LargeBinary,
        comment="Digest of the whole prompt and completion ids: does the next prompt begin with them?",
    ),
    Column(
        "messages",
        JSONB,
        comment="The request's messages after the shared ones, as sent (text made storable, see docs/sql.md).",
    ),
    Column(
        "request",
        JSONB,
        nullable=False,
        comment="The rest of the request: tools, response_format, metadata and every unknown field.",
    ),
    Column(
        "response",
        JSONB,
        comment="The choice as the client could read it: message or text, tool calls as raw text.",
    ),
    Column("completion_text", Text, comment="The visible text of the completion."),
    Column(
        "prompt_ids", ARRAY(Integer), comment="Prompt token ids after the shared ones, as vLLM returned them."
    ),
    Column("completion_ids", ARRAY(Integer), comment="Sampled token ids, as vLLM returned them."),
    Column(
        "logprobs",
        ARRAY(REAL),
        key="sampling_logprobs",
        comment="Logprob of each sampled token at sampling time, natural log.",
    ),
    Column("finish_reason", Text, comment="As vLLM answered."),
    Column("stop_reason", Text, comment="As vLLM answered: the stop string or token id."),
    Column("temperature", Double, comment="As applied: the request's, or the server's default."),
    Column("top_p", Double, comment="As requested; NULL = the server's default."),
    Column("top_k", Integer, comment="As requested; NULL = the server's default."),
    Column("max_tokens", Integer, comment="max_tokens or max_completion_tokens."),
    Column("seed", BigInteger, comment="As requested."),
    Column("num_prompt_tokens", Integer, comment="usage.prompt_tokens."),
    Column("num_completion_tokens", Integer, comment="Completion tokens of this choice."),
    Column("first_token_seconds", Double, comment="From the request's arrival to the first token."),
    Column("total_seconds", Double, comment="From the request's arrival to the last byte from vLLM."),
    Column("started_at", DateTime(timezone=True), nullable=False, comment="When the request arrived."),
    Column("is_trainable", Boolean, nullable=False, comment="Whether the trainer may use it."),
    Column("untrainable_reason", Text, comment="Why it may not."),
    created_at(),
    Column("key_id", Uuid, comment="The API key that asked; NULL = none was needed."),
    Column("request_sha256", LargeBinary, comment="Digest of the request's body as it arrived."),
    Column(
        "num_retries",
        Integer,
        nullable=False,
        server_default=text("0"),
        comment="x-stainless-retry-count: above 0, the SDK says that it repeats an earlier call.",
    ),
    Column(
        "identified_by",
        Text,
        comment="How its trajectory was found: path, header, metadata, conversation or new; NULL = before 0003.",
    ),
    Column(
        "conversation_sha256",
        LargeBinary,
        comment="Digest of its messages and its answer, as the next turn would repeat them.",
    ),
    Column(
        "continues_sha256",
        LargeBinary,
        comment="The conversation that it goes on with, where that was looked for when it was recorded.",
    ),
    Column(
        "prompt_index",
        Integer,
        nullable=False,
        server_default=text("0"),
        comment="Which prompt of its call it answers (legacy completions take several).",
    ),
    Column("erased_at", DateTime(timezone=True), comment="When its payload was erased; NULL = it was not."),
    Column(
        "is_explored",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="Whether temperature 0 was asked for and `temperature` was sampled with instead.",
    ),
    Column(
        "is_shadow",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="Whether the worker sampled it: no user ever saw it.",
    ),
    one_of("status", ExchangeStatus),
    one_of("untrainable_reason", Reason),
    one_of("turn_type", ("main", "side")),
    one_of("identified_by", IdentifiedBy),
    CheckConstraint("is_trainable = (untrainable_reason IS NULL)", name="untrainable_has_reason"),
    CheckConstraint(
        "NOT is_trainable OR (prompt_ids IS NOT NULL AND completion_ids IS NOT NULL AND logprobs IS NOT NULL"
        " AND cardinality(completion_ids) = cardinality(logprobs))",
        name="trainable_is_complete",
    ),
    Index("ix_exchanges_trajectory_id", "trajectory_id", "id"),
    Index("ix_exchanges_policy_version", "policy_id", "version"),
    Index(
        "ix_exchanges_request", "request_sha256", "id", postgresql_where=text("request_sha256 IS NOT NULL")
    ),
    Index("ix_exchanges_retries", "request_sha256", "id", postgresql_where=text("num_retries > 0")),
    Index(
        "ix_exchanges_conversation",
        "conversation_sha256",
        "id",
        postgresql_where=text("conversation_sha256 IS NOT NULL"),
    ),
    Index(
        "ix_exchanges_awaiting",
        "continues_sha256",
        "id",
        postgresql_where=text("continues_sha256 IS NOT NULL AND identified_by = 'new'"),
    ),
    *(_index_of_user(name, value) for name, value in USERS.items()),
    postgresql_partition_by="RANGE (id)",
    comment="One request and one choice of its response, with the exact token ids and sampling logprobs.",
)
