-- Which calls of which process are committed, as sets of numbers: docs/decisions/0010-audit.md.

CREATE TABLE IF NOT EXISTS capture_processes (
    process TEXT NOT NULL,
    host TEXT NOT NULL,
    spool TEXT NOT NULL,
    num_damaged BIGINT DEFAULT 0 NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_capture_processes PRIMARY KEY (process)
);

COMMENT ON TABLE capture_processes IS 'Proxy processes that recorded calls: one for each directory of a spool.';
COMMENT ON COLUMN capture_processes.process IS 'Name of its directory in the spool: process id and 12 random digits.';
COMMENT ON COLUMN capture_processes.host IS 'The machine it ran on.';
COMMENT ON COLUMN capture_processes.spool IS 'The directory of the spool on that machine.';
COMMENT ON COLUMN capture_processes.num_damaged IS 'Damaged places found in its segments.';
COMMENT ON COLUMN capture_processes.seen_at IS 'When it, or its adopter, last reported.';
COMMENT ON COLUMN capture_processes.ended_at IS 'When all that its spool held was accounted for, and it had ended; NULL = not yet.';
COMMENT ON COLUMN capture_processes.created_at IS 'When the row was written (UTC).';

CREATE TABLE IF NOT EXISTS capture_hours (
    process TEXT NOT NULL,
    hour TIMESTAMP WITH TIME ZONE NOT NULL,
    num_accepted BIGINT NOT NULL,
    committed INT8MULTIRANGE DEFAULT '{}' NOT NULL,
    interrupted INT8MULTIRANGE DEFAULT '{}' NOT NULL,
    rejected INT8MULTIRANGE DEFAULT '{}' NOT NULL,
    uncaptured JSONB DEFAULT '{}' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_capture_hours PRIMARY KEY (process, hour),
    CONSTRAINT fk_capture_hours_process_capture_processes FOREIGN KEY (process) REFERENCES capture_processes (process)
) WITH (fillfactor = 50);

COMMENT ON TABLE capture_hours IS 'The calls of each process and hour, numbered 1, 2, 3 …: a number that is missing is a lost call. `slipstream audit` reads it.';
COMMENT ON COLUMN capture_hours.process IS 'The process that accepted the calls.';
COMMENT ON COLUMN capture_hours.hour IS 'The hour of the calls'' ids (UTC).';
COMMENT ON COLUMN capture_hours.num_accepted IS 'Calls accepted, as far as the process had reported: the highest number.';
COMMENT ON COLUMN capture_hours.committed IS 'Numbers of the calls whose exchanges were written.';
COMMENT ON COLUMN capture_hours.interrupted IS 'Of these, the ones whose answer is not recorded: the process died, or the disk was full.';
COMMENT ON COLUMN capture_hours.rejected IS 'Numbers of the calls that Postgres refused: files in rejected/ of the spool.';
COMMENT ON COLUMN capture_hours.uncaptured IS 'Calls without a record, by reason: asked, spool; and unwritten: the disk did not take the end.';
COMMENT ON COLUMN capture_hours.created_at IS 'When the row was written (UTC).';
