"""docs/client.md runs as printed: all its programs, one after the other, against a real proxy."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.fakes.middleman import Middleman
from tests.proxy.running import RunningProxy, eventually

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PASSING = ["(yet)"]  # the row of a call that was answered just now
CHECKS = """
assert {result.status for result in results} == {"early"}, results
assert t.base_url.endswith("/sessions/run-43/v1")
assert t.headers == {"X-Trajectory-Id": "run-43", "X-Group-Id": "task-8"}
for client in (mine, copied): assert client.default_headers["X-Group-Id"] == "task-8"
"""


def test_the_page_s_programs_run(middleman: Middleman, proxy: RunningProxy) -> None:
    assert len(PROGRAMS) == 3
    given = {"OPENAI_BASE_URL": f"{middleman.url}/v1", "OPENAI_API_KEY": "any", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([*PROGRAMS, CHECKS])], cwd=ROOT, text=True, capture_output=True,
        timeout=120, check=False, env={**os.environ, **given},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if not any(reason in line for reason in PASSING)]
    assert told == []
    sql = "SELECT num_members, num_scored FROM v1.groups WHERE key = 'task-7'"
    assert eventually(lambda: proxy.rows(sql) == [(4, 4)])
