-- Judgements, append-only.

CREATE TABLE reward_events (
    id UUID NOT NULL,
    project_id UUID NOT NULL,
    target TEXT NOT NULL,
    trajectory_id UUID,
    exchange_id UUID,
    metric TEXT NOT NULL,
    value DOUBLE PRECISION,
    content JSONB,
    comment TEXT,
    source TEXT NOT NULL,
    is_retraction BOOLEAN DEFAULT false NOT NULL,
    idempotency_id TEXT,
    observed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_reward_events PRIMARY KEY (id),
    CONSTRAINT ck_reward_events_value_finite CHECK (value IS NULL OR (value > '-Infinity' AND value < 'Infinity'))
)
 PARTITION BY RANGE (id);

CREATE TABLE reward_events_default PARTITION OF reward_events DEFAULT;

CREATE INDEX ix_reward_events_early ON reward_events (project_id, target) WHERE trajectory_id IS NULL;
CREATE INDEX ix_reward_events_idempotency_id ON reward_events (project_id, idempotency_id) WHERE idempotency_id IS NOT NULL;
CREATE INDEX ix_reward_events_target ON reward_events (project_id, target);
CREATE INDEX ix_reward_events_trajectory_id ON reward_events (trajectory_id, id);

COMMENT ON TABLE reward_events IS 'One posted judgement each; never updated except to name the trajectory of an early one.';
COMMENT ON COLUMN reward_events.id IS 'UUIDv7; its time is the partition key.';
COMMENT ON COLUMN reward_events.project_id IS 'The tenant that posted it.';
COMMENT ON COLUMN reward_events.target IS 'The id posted, ours in one spelling (#k: choice k): a trajectory id, a reply''s id, or the caller''s own id.';
COMMENT ON COLUMN reward_events.trajectory_id IS 'The trajectory it judges; NULL while it is early (its row is not visible yet).';
COMMENT ON COLUMN reward_events.exchange_id IS 'The exchange it judges, where the reply''s id was used.';
COMMENT ON COLUMN reward_events.metric IS '`reward` counts towards the advantage; other names are stored.';
COMMENT ON COLUMN reward_events.value IS 'The judgement; true is 1, false is 0. NULL for a retraction, a comment or a demonstration.';
COMMENT ON COLUMN reward_events.content IS 'The text of a comment, the messages of a demonstration.';
COMMENT ON COLUMN reward_events.comment IS 'A remark beside the value.';
COMMENT ON COLUMN reward_events.source IS 'Who judges, such as user, program or judge.';
COMMENT ON COLUMN reward_events.is_retraction IS 'Takes back what this source said before for this metric.';
COMMENT ON COLUMN reward_events.idempotency_id IS 'The caller''s id for this post.';
COMMENT ON COLUMN reward_events.observed_at IS 'When the judgement was made.';
COMMENT ON COLUMN reward_events.created_at IS 'When the row was written (UTC).';
