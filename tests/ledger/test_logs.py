import json

import pytest
import structlog

from ledger.logs import configure_logs


def test_each_event_is_one_json_line_with_its_process(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("proxy", "warning")
    log = structlog.get_logger()
    log.info("exchange_recorded")
    log.warning("spool_frame_skipped", offset=7)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    (line,) = capsys.readouterr().err.splitlines()
    held = json.loads(line)
    assert (held["event"], held["offset"], held["process"], held["level"]) == (
        "spool_frame_skipped",
        7,
        "proxy",
        "warning",
    )
