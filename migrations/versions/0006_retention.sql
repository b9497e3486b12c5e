-- How long rows are kept, and what was removed. Metadata and a new table only: no row of traffic is read.

ALTER TABLE projects ADD COLUMN IF NOT EXISTS retention_days INTEGER;
ALTER TABLE policies ADD COLUMN IF NOT EXISTS retention_days INTEGER;
ALTER TABLE projects DROP CONSTRAINT IF EXISTS ck_projects_retention_days_positive;
ALTER TABLE policies DROP CONSTRAINT IF EXISTS ck_policies_retention_days_positive;
ALTER TABLE projects ADD CONSTRAINT ck_projects_retention_days_positive CHECK (retention_days >= 1);
ALTER TABLE policies ADD CONSTRAINT ck_policies_retention_days_positive CHECK (retention_days >= 1);

COMMENT ON COLUMN projects.retention_days IS 'A month is removed so many days after its end; NULL = never.';
COMMENT ON COLUMN policies.retention_days IS 'The same for this policy alone; NULL = as its project says.';

CREATE TABLE IF NOT EXISTS removals (
    id UUID NOT NULL,
    month DATE NOT NULL,
    table_name TEXT NOT NULL,
    project_id UUID NOT NULL,
    policy_id UUID,
    num_rows BIGINT NOT NULL,
    removed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_removals PRIMARY KEY (id),
    CONSTRAINT uq_removals_month_table_name_project_id_policy_id
        UNIQUE NULLS NOT DISTINCT (month, table_name, project_id, policy_id),
    CONSTRAINT ck_removals_num_rows_positive CHECK (num_rows >= 1)
);

COMMENT ON TABLE removals IS 'What retention removed: so a row that is gone can be told from one that was lost.';
COMMENT ON COLUMN removals.id IS 'UUIDv7 of the removal.';
COMMENT ON COLUMN removals.month IS 'First day of the month (UTC) that the removed rows'' ids lie in.';
COMMENT ON COLUMN removals.table_name IS 'exchanges, trajectories, reward_events, trajectory_names or groups.';
COMMENT ON COLUMN removals.project_id IS 'Whose rows they were.';
COMMENT ON COLUMN removals.policy_id IS 'The policy whose retention was over; NULL = the rows named none.';
COMMENT ON COLUMN removals.num_rows IS 'How many rows went, over all runs.';
COMMENT ON COLUMN removals.removed_at IS 'When the last of them went.';
COMMENT ON COLUMN removals.created_at IS 'When the row was written (UTC).';
