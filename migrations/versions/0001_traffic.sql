-- What passed through: groups of trajectories of exchanges.

CREATE TABLE groups (
    id UUID NOT NULL,
    project_id UUID NOT NULL,
    policy_id UUID NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    sequence INTEGER DEFAULT 0 NOT NULL,
    size INTEGER,
    state TEXT DEFAULT 'open' NOT NULL,
    step_id UUID,
    reason TEXT,
    last_member_at TIMESTAMP WITH TIME ZONE NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_groups PRIMARY KEY (id),
    CONSTRAINT uq_groups_project_id_policy_id_kind_key_sequence UNIQUE (project_id, policy_id, kind, key, sequence),
    CONSTRAINT ck_groups_kind_known CHECK (kind IN ('explicit', 'choices', 'prompt')),
    CONSTRAINT ck_groups_state_known CHECK (state IN ('open', 'claimed', 'trained', 'skipped')),
    CONSTRAINT ck_groups_reason_known CHECK (reason IN ('missing_token_ids', 'missing_logprobs', 'logprobs_mismatch', 'version_mismatch', 'greedy', 'cancelled', 'failed', 'interrupted', 'empty_completion', 'external_model', 'opted_out', 'duplicate_retry', 'unscored', 'no_variance', 'group_incomplete', 'group_already_trained', 'too_stale', 'too_long')),
    CONSTRAINT ck_groups_size_positive CHECK (size IS NULL OR size >= 1),
    CONSTRAINT fk_groups_project_id_projects FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT fk_groups_policy_id_policies FOREIGN KEY(policy_id) REFERENCES policies (id)
);

CREATE INDEX ix_groups_open ON groups (policy_id, created_at) WHERE state = 'open';

COMMENT ON TABLE groups IS 'Trajectories that attempted the same task; the reward baseline is computed inside a group.';
COMMENT ON COLUMN groups.id IS 'UUIDv7 of the group.';
COMMENT ON COLUMN groups.project_id IS 'The tenant.';
COMMENT ON COLUMN groups.policy_id IS 'The policy that answered.';
COMMENT ON COLUMN groups.kind IS 'explicit (caller''s id), choices (n of one call), prompt (same first prompt).';
COMMENT ON COLUMN groups.key IS 'The caller''s id, the call''s id, or prompt hash : window : versions.';
COMMENT ON COLUMN groups.sequence IS 'Counts groups of one key: a prompt group that was claimed is continued by the next.';
COMMENT ON COLUMN groups.size IS 'How many trajectories it will have, where that was declared.';
COMMENT ON COLUMN groups.state IS 'open, claimed, trained or skipped.';
COMMENT ON COLUMN groups.step_id IS 'The step that claimed, trained or skipped it.';
COMMENT ON COLUMN groups.reason IS 'Why it was skipped.';
COMMENT ON COLUMN groups.last_member_at IS 'When its newest member was recorded (Postgres'' clock).';
COMMENT ON COLUMN groups.created_at IS 'When the row was written (UTC).';

CREATE TABLE trajectories (
    id UUID NOT NULL,
    project_id UUID NOT NULL,
    policy_id UUID NOT NULL,
    group_id UUID,
    external_id TEXT,
    identified_by TEXT NOT NULL,
    choice_index INTEGER DEFAULT 0 NOT NULL,
    metadata JSONB,
    end_user TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_trajectories PRIMARY KEY (id),
    CONSTRAINT ck_trajectories_identified_by_known CHECK (identified_by IN ('path', 'header', 'metadata', 'conversation', 'new'))
)
 PARTITION BY RANGE (id);

CREATE TABLE trajectories_default PARTITION OF trajectories DEFAULT;

CREATE INDEX ix_trajectories_external_id ON trajectories (project_id, external_id);
CREATE INDEX ix_trajectories_group_id ON trajectories (group_id);

COMMENT ON TABLE trajectories IS 'One attempt at one task: a conversation or an agent run.';
COMMENT ON COLUMN trajectories.id IS 'UUIDv7; its time is the partition key.';
COMMENT ON COLUMN trajectories.project_id IS 'The tenant.';
COMMENT ON COLUMN trajectories.policy_id IS 'The policy that answered.';
COMMENT ON COLUMN trajectories.group_id IS 'The group, where it has one.';
COMMENT ON COLUMN trajectories.external_id IS 'The caller''s own id for it, if the caller gave one.';
COMMENT ON COLUMN trajectories.identified_by IS 'path, header, metadata, conversation or new.';
COMMENT ON COLUMN trajectories.choice_index IS 'Which choice of an n > 1 call it began as.';
COMMENT ON COLUMN trajectories.metadata IS 'The caller''s metadata of its first call.';
COMMENT ON COLUMN trajectories.end_user IS 'The request''s `user` (or safety identifier), for erasure.';
COMMENT ON COLUMN trajectories.created_at IS 'When the row was written (UTC).';

CREATE TABLE trajectory_names (
    project_id UUID NOT NULL,
    name TEXT NOT NULL,
    trajectory_id UUID NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_trajectory_names PRIMARY KEY (project_id, name),
    CONSTRAINT fk_trajectory_names_project_id_projects FOREIGN KEY(project_id) REFERENCES projects (id)
);

CREATE INDEX ix_trajectory_names_trajectory_id ON trajectory_names (trajectory_id);

COMMENT ON TABLE trajectory_names IS 'Callers'' ids, unique per tenant across all partitions.';
COMMENT ON COLUMN trajectory_names.project_id IS 'The tenant whose name it is.';
COMMENT ON COLUMN trajectory_names.name IS 'The caller''s own trajectory id.';
COMMENT ON COLUMN trajectory_names.trajectory_id IS 'The trajectory that the first call with this name began.';
COMMENT ON COLUMN trajectory_names.created_at IS 'When the row was written (UTC).';

CREATE TABLE exchanges (
    id UUID NOT NULL,
    trajectory_id UUID NOT NULL,
    project_id UUID NOT NULL,
    policy_id UUID NOT NULL,
    version INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    choice_index INTEGER NOT NULL,
    endpoint TEXT NOT NULL,
    is_streamed BOOLEAN NOT NULL,
    requested_model TEXT NOT NULL,
    answered_model TEXT,
    client_name TEXT,
    status TEXT NOT NULL,
    http_status INTEGER,
    error JSONB,
    is_delivered BOOLEAN NOT NULL,
    retry_of UUID,
    turn_type TEXT DEFAULT 'main' NOT NULL,
    parent_exchange_id UUID,
    num_shared_tokens INTEGER DEFAULT 0 NOT NULL,
    num_shared_messages INTEGER DEFAULT 0 NOT NULL,
    num_messages INTEGER,
    messages_sha256 BYTEA,
    num_transcript_tokens INTEGER,
    transcript_sha256 BYTEA,
    messages JSONB,
    request JSONB NOT NULL,
    response JSONB,
    completion_text TEXT,
    prompt_ids INTEGER[],
    completion_ids INTEGER[],
    logprobs REAL[],
    finish_reason TEXT,
    stop_reason TEXT,
    temperature DOUBLE PRECISION,
    top_p DOUBLE PRECISION,
    top_k INTEGER,
    max_tokens INTEGER,
    seed BIGINT,
    num_prompt_tokens INTEGER,
    num_completion_tokens INTEGER,
    first_token_seconds DOUBLE PRECISION,
    total_seconds DOUBLE PRECISION,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    is_trainable BOOLEAN NOT NULL,
    untrainable_reason TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_exchanges PRIMARY KEY (id),
    CONSTRAINT ck_exchanges_status_known CHECK (status IN ('completed', 'cancelled', 'failed', 'interrupted')),
    CONSTRAINT ck_exchanges_untrainable_reason_known CHECK (untrainable_reason IN ('missing_token_ids', 'missing_logprobs', 'logprobs_mismatch', 'version_mismatch', 'greedy', 'cancelled', 'failed', 'interrupted', 'empty_completion', 'external_model', 'opted_out', 'duplicate_retry', 'unscored', 'no_variance', 'group_incomplete', 'group_already_trained', 'too_stale', 'too_long')),
    CONSTRAINT ck_exchanges_turn_type_known CHECK (turn_type IN ('main', 'side')),
    CONSTRAINT ck_exchanges_untrainable_has_reason CHECK (is_trainable = (untrainable_reason IS NULL)),
    CONSTRAINT ck_exchanges_trainable_is_complete CHECK (NOT is_trainable OR (prompt_ids IS NOT NULL AND completion_ids IS NOT NULL AND logprobs IS NOT NULL AND cardinality(completion_ids) = cardinality(logprobs)))
)
 PARTITION BY RANGE (id);

CREATE TABLE exchanges_default PARTITION OF exchanges DEFAULT;

CREATE INDEX ix_exchanges_policy_version ON exchanges (policy_id, version);
CREATE INDEX ix_exchanges_trajectory_id ON exchanges (trajectory_id, id);

COMMENT ON TABLE exchanges IS 'One request and one choice of its response, with the exact token ids and sampling logprobs.';
COMMENT ON COLUMN exchanges.id IS 'UUIDv7; the call''s id plus the choice index.';
COMMENT ON COLUMN exchanges.trajectory_id IS 'The trajectory it is a turn of.';
COMMENT ON COLUMN exchanges.project_id IS 'The tenant.';
COMMENT ON COLUMN exchanges.policy_id IS 'The policy that answered.';
COMMENT ON COLUMN exchanges.version IS 'The policy version that produced it: decided at dispatch, verified against the reply.';
COMMENT ON COLUMN exchanges.request_id IS 'x-request-id of the call.';
COMMENT ON COLUMN exchanges.choice_index IS 'Which choice of its call.';
COMMENT ON COLUMN exchanges.endpoint IS 'The route, such as /v1/chat/completions.';
COMMENT ON COLUMN exchanges.is_streamed IS 'Whether the client asked for a stream.';
COMMENT ON COLUMN exchanges.requested_model IS '`model` as the client wrote it.';
COMMENT ON COLUMN exchanges.answered_model IS '`model` as vLLM answered; NULL if it never did.';
COMMENT ON COLUMN exchanges.client_name IS 'The client''s user agent.';
COMMENT ON COLUMN exchanges.status IS 'completed, cancelled, failed or interrupted.';
COMMENT ON COLUMN exchanges.http_status IS 'The status the client got.';
COMMENT ON COLUMN exchanges.error IS 'The error object, where there was one.';
COMMENT ON COLUMN exchanges.is_delivered IS 'Whether the answer was handed to the client''s connection to its end.';
COMMENT ON COLUMN exchanges.retry_of IS 'The exchange that this call repeats (an SDK''s retry).';
COMMENT ON COLUMN exchanges.turn_type IS 'main or side (served, never trained).';
COMMENT ON COLUMN exchanges.parent_exchange_id IS 'The earlier turn that this row is a delta of; NULL = the row is whole.';
COMMENT ON COLUMN exchanges.num_shared_tokens IS 'How many leading prompt tokens stand in the parent (its prompt, then its completion).';
COMMENT ON COLUMN exchanges.num_shared_messages IS 'How many leading messages stand in the parent (its messages).';
COMMENT ON COLUMN exchanges.num_messages IS 'How many messages the request had, the shared ones included.';
COMMENT ON COLUMN exchanges.messages_sha256 IS 'Digest of all its messages: does the next turn repeat them?';
COMMENT ON COLUMN exchanges.num_transcript_tokens IS 'Length of the whole prompt and the completion, in tokens.';
COMMENT ON COLUMN exchanges.transcript_sha256 IS 'Digest of the whole prompt and completion ids: does the next prompt begin with them?';
COMMENT ON COLUMN exchanges.messages IS 'The request''s messages after the shared ones, as sent (text made storable, see docs/sql.md).';
COMMENT ON COLUMN exchanges.request IS 'The rest of the request: tools, response_format, metadata and every unknown field.';
COMMENT ON COLUMN exchanges.response IS 'The choice as the client could read it: message or text, tool calls as raw text.';
COMMENT ON COLUMN exchanges.completion_text IS 'The visible text of the completion.';
COMMENT ON COLUMN exchanges.prompt_ids IS 'Prompt token ids after the shared ones, as vLLM returned them.';
COMMENT ON COLUMN exchanges.completion_ids IS 'Sampled token ids, as vLLM returned them.';
COMMENT ON COLUMN exchanges.logprobs IS 'Logprob of each sampled token at sampling time, natural log.';
COMMENT ON COLUMN exchanges.finish_reason IS 'As vLLM answered.';
COMMENT ON COLUMN exchanges.stop_reason IS 'As vLLM answered: the stop string or token id.';
COMMENT ON COLUMN exchanges.temperature IS 'As applied: the request''s, or the server''s default.';
COMMENT ON COLUMN exchanges.top_p IS 'As requested; NULL = the server''s default.';
COMMENT ON COLUMN exchanges.top_k IS 'As requested; NULL = the server''s default.';
COMMENT ON COLUMN exchanges.max_tokens IS 'max_tokens or max_completion_tokens.';
COMMENT ON COLUMN exchanges.seed IS 'As requested.';
COMMENT ON COLUMN exchanges.num_prompt_tokens IS 'usage.prompt_tokens.';
COMMENT ON COLUMN exchanges.num_completion_tokens IS 'Completion tokens of this choice.';
COMMENT ON COLUMN exchanges.first_token_seconds IS 'From the request''s arrival to the first token.';
COMMENT ON COLUMN exchanges.total_seconds IS 'From the request''s arrival to the last byte from vLLM.';
COMMENT ON COLUMN exchanges.started_at IS 'When the request arrived.';
COMMENT ON COLUMN exchanges.is_trainable IS 'Whether the trainer may use it.';
COMMENT ON COLUMN exchanges.untrainable_reason IS 'Why it may not.';
COMMENT ON COLUMN exchanges.created_at IS 'When the row was written (UTC).';
