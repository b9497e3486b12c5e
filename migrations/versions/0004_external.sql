ALTER TABLE exchanges ALTER COLUMN version DROP NOT NULL;
ALTER TABLE step_samples ALTER COLUMN staleness DROP NOT NULL;

COMMENT ON COLUMN exchanges.version IS 'The policy version that produced it: decided at dispatch, verified against the reply. NULL = an external provider did.';
COMMENT ON COLUMN step_samples.staleness IS 'The step''s parent version minus the exchange''s version; NULL = no version produced it.';
COMMENT ON COLUMN v1.exchanges.policy IS 'Name of the policy that answered, or, where version is NULL, whose teacher data it is.';
COMMENT ON COLUMN v1.exchanges.version IS 'The policy version that produced it: decided at dispatch, verified against the reply. NULL = an external provider did.';
COMMENT ON COLUMN v1.exchanges.model IS 'NAME@version: `model` as the client was told. NULL = an external provider: see answered_model.';
COMMENT ON COLUMN v1.exchanges.answered_model IS '`model` as vLLM, or the external provider, answered; NULL if it never did.';
COMMENT ON COLUMN v1.trajectories.first_version IS 'The oldest policy version in it; NULL = external providers answered all of it.';
COMMENT ON COLUMN v1.trajectories.last_version IS 'The newest policy version in it; NULL = external providers answered all of it.';
COMMENT ON COLUMN v1.lineage.staleness IS 'The step''s parent version minus the exchange''s version; NULL = no version produced it.';
