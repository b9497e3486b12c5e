-- slipstream_reader: may read schema v1 and nothing else. Roles belong to the whole server, so it may exist already,
-- and a managed server may not let us create one: then an administrator grants the two lines below to a role of theirs.

DO $$
BEGIN
    CREATE ROLE slipstream_reader NOLOGIN;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN RAISE NOTICE 'slipstream_reader was not created: CREATEROLE is missing';
END
$$;

DO $$
BEGIN
    GRANT USAGE ON SCHEMA v1 TO slipstream_reader;
    GRANT SELECT ON ALL TABLES IN SCHEMA v1 TO slipstream_reader;
EXCEPTION
    WHEN undefined_object THEN NULL;
END
$$;
