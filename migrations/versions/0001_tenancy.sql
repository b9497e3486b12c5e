-- Who calls and what learns.

CREATE TABLE projects (
    id UUID NOT NULL,
    name TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_projects PRIMARY KEY (id),
    CONSTRAINT uq_projects_name UNIQUE (name)
);

COMMENT ON TABLE projects IS 'Tenants. Every trajectory, reward and key belongs to one.';
COMMENT ON COLUMN projects.id IS 'UUIDv7 of the project.';
COMMENT ON COLUMN projects.name IS 'Its name; `default` exists from the start.';
COMMENT ON COLUMN projects.created_at IS 'When the row was written (UTC).';

CREATE TABLE api_keys (
    id UUID NOT NULL,
    project_id UUID NOT NULL,
    prefix TEXT NOT NULL,
    key_hash BYTEA NOT NULL,
    scopes TEXT[] NOT NULL,
    revoked_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_api_keys PRIMARY KEY (id),
    CONSTRAINT fk_api_keys_project_id_projects FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT uq_api_keys_key_hash UNIQUE (key_hash)
);

COMMENT ON TABLE api_keys IS 'Keys of the data plane, hashed.';
COMMENT ON COLUMN api_keys.id IS 'UUIDv7 of the key.';
COMMENT ON COLUMN api_keys.project_id IS 'The project it acts for.';
COMMENT ON COLUMN api_keys.prefix IS 'First characters, to recognise it by. Never enough to use it.';
COMMENT ON COLUMN api_keys.key_hash IS 'Keyed hash of the whole key.';
COMMENT ON COLUMN api_keys.scopes IS 'Any of infer, reward, admin.';
COMMENT ON COLUMN api_keys.revoked_at IS 'When it stopped working; NULL = works.';
COMMENT ON COLUMN api_keys.created_at IS 'When the row was written (UTC).';

CREATE TABLE policies (
    id UUID NOT NULL,
    project_id UUID NOT NULL,
    name TEXT NOT NULL,
    base_model TEXT NOT NULL,
    live_version INTEGER DEFAULT 0 NOT NULL,
    reward_min DOUBLE PRECISION DEFAULT -1 NOT NULL,
    reward_max DOUBLE PRECISION DEFAULT 1 NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_policies PRIMARY KEY (id),
    CONSTRAINT uq_policies_project_id_name UNIQUE (project_id, name),
    CONSTRAINT ck_policies_live_version_not_negative CHECK (live_version >= 0),
    CONSTRAINT ck_policies_reward_range_not_empty CHECK (reward_min < reward_max),
    CONSTRAINT fk_policies_project_id_projects FOREIGN KEY(project_id) REFERENCES projects (id)
);

COMMENT ON TABLE policies IS 'Named learners: one base model and a line of versions.';
COMMENT ON COLUMN policies.id IS 'UUIDv7 of the policy.';
COMMENT ON COLUMN policies.project_id IS 'The project that owns it.';
COMMENT ON COLUMN policies.name IS 'What a client may say as `model`.';
COMMENT ON COLUMN policies.base_model IS 'The name or path of the base model in vLLM.';
COMMENT ON COLUMN policies.live_version IS 'The version that new trajectories get. Moves only to a version that every replica confirmed.';
COMMENT ON COLUMN policies.reward_min IS 'Smallest reward accepted.';
COMMENT ON COLUMN policies.reward_max IS 'Largest reward accepted.';
COMMENT ON COLUMN policies.created_at IS 'When the row was written (UTC).';

CREATE TABLE policy_versions (
    policy_id UUID NOT NULL,
    version INTEGER NOT NULL,
    parent_version INTEGER,
    state TEXT NOT NULL,
    adapter_path TEXT,
    adapter_sha256 TEXT,
    published_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_policy_versions PRIMARY KEY (policy_id, version),
    CONSTRAINT ck_policy_versions_state_known CHECK (state IN ('base', 'saved', 'published', 'retired', 'failed')),
    CONSTRAINT fk_policy_versions_policy_id_policies FOREIGN KEY(policy_id) REFERENCES policies (id)
);

COMMENT ON TABLE policy_versions IS 'The line of versions of each policy. An adapter never changes once it has a name.';
COMMENT ON COLUMN policy_versions.policy_id IS 'The policy.';
COMMENT ON COLUMN policy_versions.version IS '0 = the base model; only grows.';
COMMENT ON COLUMN policy_versions.parent_version IS 'The version it was trained from; NULL for the base.';
COMMENT ON COLUMN policy_versions.state IS 'base, saved, published, retired or failed.';
COMMENT ON COLUMN policy_versions.adapter_path IS 'Its directory below the adapters'' root; NULL for the base. Never reused.';
COMMENT ON COLUMN policy_versions.adapter_sha256 IS 'Hex digest of adapter_model.safetensors.';
COMMENT ON COLUMN policy_versions.published_at IS 'When it first became live.';
COMMENT ON COLUMN policy_versions.created_at IS 'When the row was written (UTC).';
