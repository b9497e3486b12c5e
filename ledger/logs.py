"""Structured log events on stderr, one JSON object a line. Events are past tense and hold no prompt and no key."""

import logging
import sys

import structlog


def configure_logs(process: str, level: str = "INFO") -> None:
    """Call once at the entry point. `process` (proxy, worker, beat) stands on each line."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)
