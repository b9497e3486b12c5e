"""The look-ups of retries and conversations read their indexes, however many rows there are."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from ledger import continuations, recording_lock, sendings
from ledger.recording import record_calls
from tests.ledger.calls import a_call, a_policy, later, rows

DIGEST = "\\x" + "00" * 32
MANY = text("""
    INSERT INTO exchanges (id, trajectory_id, project_id, policy_id, version, request_id, choice_index, endpoint,
        is_streamed, requested_model, status, is_delivered, request, started_at, is_trainable, untrainable_reason,
        request_sha256, num_retries, conversation_sha256, continues_sha256, identified_by)
    SELECT CAST(left(CAST(e.id AS text), 24) || lpad(to_hex(n), 12, '0') AS uuid), gen_random_uuid(), e.project_id,
        e.policy_id, 0, '', 0, e.endpoint, false, '', 'failed', false, '{}', now(), false, 'failed', digest,
        n % 10 / 9, digest, digest, 'new'
    FROM exchanges AS e, generate_series(1, 20000) AS n, sha256(CAST(CAST(n AS text) AS bytea)) AS digest
""")
FAMILY = {
    "keys": [None], "endpoints": ["/v1/chat/completions"], "bodies": [DIGEST], "first_ids": [later(-900)],
    "last_ids": [later(900)],
}  # fmt: skip
TURN = {"digests": [DIGEST], "ids": [later(60)]}
AWAITED = {
    "bodies": [DIGEST], "first_id": later(-900), "last_id": later(900), "answered": [DIGEST], "looked_for": [DIGEST],
    "begun": [UUID(int=1)], "gone_on_with": [UUID(int=2)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("query", "values", "indexes"),
    [
        (sendings.RETRIED, FAMILY, ["request_sha256_id_idx1"]),
        (sendings.FAMILY, FAMILY, ["request_sha256_id_idx"]),
        (continuations.ANSWERED, TURN, ["conversation_sha256_id_idx", "trajectory_id_id_idx"]),
        (continuations.AWAITING, TURN, ["continues_sha256_id_idx", "trajectory_id_id_idx"]),
        (
            recording_lock.IS_AWAITED.text,
            AWAITED,
            ["request_sha256_id_idx", "continues_sha256_id_idx", "conversation_sha256"],
        ),
    ],
    ids=["retried", "family", "answered", "awaiting", "awaited"],
)
def test_a_look_up_reads_its_index(
    connection: Connection, query: str, values: dict[str, Any], indexes: list[str]
) -> None:
    a_policy(connection)
    record_calls(connection, [a_call(call_id=later(0))])
    connection.execute(MANY)
    connection.execute(text("ANALYZE exchanges"))
    project = connection.scalar(text("SELECT project_id FROM exchanges LIMIT 1"))
    plan = "\n".join(row[0] for row in rows(connection, f"EXPLAIN {query}", projects=[project], **values))
    month = connection.scalar(text("SELECT CAST(CAST(tableoid AS regclass) AS text) FROM exchanges LIMIT 1"))
    assert f"Seq Scan on {month}" not in plan, plan  # the other months are empty
    for index in indexes:
        assert index in plan, plan
