"""Structured log events on stderr, one JSON object a line. Events are past tense and hold no prompt and no key.

What looks like a key is hidden all the same: it may have come in a path, or in the words of another program.
"""

import logging
import re
import sys
from typing import Any

import structlog

_KEY = re.compile(r"\bsk-[A-Za-z0-9_-]{16,}")


def configure_logs(process: str, level: str = "INFO") -> None:
    """Call once at the entry point. `process` (proxy, worker, beat) stands on each line."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
            _without_keys,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)


def _without_keys(_logger: object, _method: str, line: Any) -> str:
    return _KEY.sub("sk-…", line)
