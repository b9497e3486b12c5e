-- Erasure and exports. Metadata only: no row is read or rewritten here.

CREATE TABLE IF NOT EXISTS erasures (
    id UUID NOT NULL,
    project_id UUID NOT NULL,
    subject TEXT NOT NULL,
    subject_sha256 BYTEA NOT NULL,
    state TEXT NOT NULL,
    requested_by TEXT NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    report JSONB DEFAULT '{}' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_erasures PRIMARY KEY (id),
    CONSTRAINT ck_erasures_subject_known CHECK (subject IN ('user', 'trajectory')),
    CONSTRAINT ck_erasures_state_known CHECK (state IN ('requested', 'finished')),
    CONSTRAINT fk_erasures_project_id_projects FOREIGN KEY(project_id) REFERENCES projects (id)
);

CREATE INDEX IF NOT EXISTS ix_erasures_subject ON erasures (project_id, subject_sha256);
COMMENT ON TABLE erasures IS 'Requests to erase a user or a trajectory, and what came of them.';
COMMENT ON COLUMN erasures.id IS 'UUIDv7 of the erasure.';
COMMENT ON COLUMN erasures.project_id IS 'The tenant.';
COMMENT ON COLUMN erasures.subject IS 'What was erased: user or trajectory.';
COMMENT ON COLUMN erasures.subject_sha256 IS 'Digest of the subject''s name.';
COMMENT ON COLUMN erasures.state IS 'requested or finished.';
COMMENT ON COLUMN erasures.requested_by IS 'The key''s id, or who ran the command.';
COMMENT ON COLUMN erasures.finished_at IS 'When the last row was erased.';
COMMENT ON COLUMN erasures.report IS 'How many rows, which versions were trained on them, which exports hold them.';
COMMENT ON COLUMN erasures.created_at IS 'When the row was written (UTC).';

CREATE TABLE IF NOT EXISTS tombstones (
    project_id UUID NOT NULL,
    subject_sha256 BYTEA NOT NULL,
    erasure_id UUID NOT NULL,
    before_id UUID NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_tombstones PRIMARY KEY (project_id, subject_sha256, erasure_id),
    CONSTRAINT fk_tombstones_project_id_projects FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT fk_tombstones_erasure_id_erasures FOREIGN KEY(erasure_id) REFERENCES erasures (id)
);

CREATE INDEX IF NOT EXISTS ix_tombstones_erasure_id ON tombstones (erasure_id);
CREATE INDEX IF NOT EXISTS ix_tombstones_created_at ON tombstones (created_at);
COMMENT ON TABLE tombstones IS 'What a recorder asks before it writes: calls that were on their way when their user was erased.';
COMMENT ON COLUMN tombstones.project_id IS 'The tenant.';
COMMENT ON COLUMN tombstones.subject_sha256 IS 'Digest of a user''s name, or of a name of a trajectory.';
COMMENT ON COLUMN tombstones.erasure_id IS 'The erasure.';
COMMENT ON COLUMN tombstones.before_id IS 'Calls with smaller ids, which began before the request, are erased as they are recorded.';
COMMENT ON COLUMN tombstones.created_at IS 'When the row was written (UTC).';

CREATE TABLE IF NOT EXISTS exports (
    id UUID NOT NULL,
    path TEXT NOT NULL,
    format TEXT NOT NULL,
    filters JSONB NOT NULL,
    requested_by TEXT NOT NULL,
    num_exchanges BIGINT,
    finished_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_exports PRIMARY KEY (id)
);

COMMENT ON TABLE exports IS 'Files that left the ledger: an erasure lists those that may hold what it erased.';
COMMENT ON COLUMN exports.id IS 'UUIDv7 of the export.';
COMMENT ON COLUMN exports.path IS 'Machine and file, or - for the standard output.';
COMMENT ON COLUMN exports.format IS 'parquet or jsonl.';
COMMENT ON COLUMN exports.filters IS 'What was asked for; {} = everything.';
COMMENT ON COLUMN exports.requested_by IS 'Who ran the command.';
COMMENT ON COLUMN exports.num_exchanges IS 'How many rows it has; NULL = it was not finished.';
COMMENT ON COLUMN exports.finished_at IS 'When the file got its name.';
COMMENT ON COLUMN exports.created_at IS 'When the row was written (UTC).';

ALTER TABLE exchanges ADD COLUMN IF NOT EXISTS erased_at TIMESTAMP WITH TIME ZONE;
ALTER TABLE trajectories ADD COLUMN IF NOT EXISTS erased_at TIMESTAMP WITH TIME ZONE;
COMMENT ON COLUMN exchanges.erased_at IS 'When its payload was erased; NULL = it was not.';
COMMENT ON COLUMN trajectories.erased_at IS 'When it was erased; NULL = it was not.';

ALTER TABLE exchanges DROP CONSTRAINT IF EXISTS ck_exchanges_untrainable_reason_known;
ALTER TABLE exchanges ADD CONSTRAINT ck_exchanges_untrainable_reason_known
    CHECK (untrainable_reason IN ('missing_token_ids', 'missing_logprobs', 'logprobs_mismatch', 'version_mismatch', 'greedy', 'cancelled', 'failed', 'interrupted', 'empty_completion', 'external_model', 'opted_out', 'duplicate_retry', 'unscored', 'no_variance', 'group_incomplete', 'group_already_trained', 'too_stale', 'too_long', 'erased')) NOT VALID;
ALTER TABLE step_samples DROP CONSTRAINT IF EXISTS ck_step_samples_reason_known;
ALTER TABLE step_samples ADD CONSTRAINT ck_step_samples_reason_known
    CHECK (reason IN ('missing_token_ids', 'missing_logprobs', 'logprobs_mismatch', 'version_mismatch', 'greedy', 'cancelled', 'failed', 'interrupted', 'empty_completion', 'external_model', 'opted_out', 'duplicate_retry', 'unscored', 'no_variance', 'group_incomplete', 'group_already_trained', 'too_stale', 'too_long', 'erased')) NOT VALID;
ALTER TABLE groups DROP CONSTRAINT IF EXISTS ck_groups_reason_known;
ALTER TABLE groups ADD CONSTRAINT ck_groups_reason_known
    CHECK (reason IN ('missing_token_ids', 'missing_logprobs', 'logprobs_mismatch', 'version_mismatch', 'greedy', 'cancelled', 'failed', 'interrupted', 'empty_completion', 'external_model', 'opted_out', 'duplicate_retry', 'unscored', 'no_variance', 'group_incomplete', 'group_already_trained', 'too_stale', 'too_long', 'erased')) NOT VALID;
