-- Large values: lz4 where the server was built with it (faster than pglz both ways; partitions inherit it).

DO $$
DECLARE
    large record;
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)
    ) THEN
        RETURN;
    END IF;
    FOR large IN
        SELECT a.attrelid::regclass AS relation, a.attname AS name
        FROM pg_attribute AS a
        JOIN pg_class AS c ON c.oid = a.attrelid
        JOIN pg_type AS t ON t.oid = a.atttypid
        WHERE c.relnamespace = current_schema()::regnamespace
            AND c.relkind IN ('r', 'p')
            AND a.attnum > 0
            AND NOT a.attisdropped
            AND t.typname IN ('jsonb', 'text', '_int4', '_float4')
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET COMPRESSION lz4', large.relation, large.name);
    END LOOP;
END
$$;
