"""schemathesis against docs/openapi.json, in an environment of its own: its pins are not ours."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.fuzz.finding import Finding
from bench.gateway.children import ROOT, environment
from bench.gateway.environments import installed

DESCRIPTION = ROOT / "docs" / "openapi.json"
_VERSION = "4.32.5"
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
)
_OPERATION = re.compile(r"^_{3,} (.+?) _{3,}$", re.MULTILINE)
_CASE = re.compile(r"^\d+\. Test Case ID: .*$", re.MULTILINE)
_FAULT = re.compile(r"^- (.+)$", re.MULTILINE)
_CURL = re.compile(r"^    (curl .*)$", re.MULTILINE)


def findings_of_schema(
    port: int, seed: int, seconds: int, directory: Path, report: Callable[[str], None]
) -> tuple[int, list[Finding]]:
    """How many requests were made, and what they found."""
    program = installed("schemathesis", [f"schemathesis=={_VERSION}"], report) / "schemathesis"
    file = directory / "schemathesis.json"
    command = [
        str(program), "run", str(DESCRIPTION), "--url", f"http://127.0.0.1:{port}", "--max-time", str(seconds), "--seed", str(seed),
        "--checks", ",".join(_CHECKS), "--phases", "coverage,fuzzing", "--request-timeout", "15", "--continue-on-failure", "--no-shrink",
        "--workers", "4", "--suppress-health-check", "all", "--report", "json", "--report-json-path", str(file),
        "--header", "Authorization:Bearer sk-fuzz",
    ]  # fmt: skip
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment(COLUMNS="120"),
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + 240,
    )
    findings = list(failures_in(done.stdout))
    if not file.exists():
        return 0, [
            *findings,
            Finding("schema", "run", f"no report: {done.stdout[-1500:]} {done.stderr[-500:]}"),
        ]
    found = json.loads(file.read_text(encoding="utf-8"))
    if found["test_cases"]["with_failures"] and not findings:
        findings.append(Finding("schema", "run", json.dumps(found["failures"])[:3000]))
    return int(found["test_cases"]["generated"]), findings


def failures_in(output: str) -> Iterator[Finding]:
    """Of schemathesis' report in words, which alone says how to send each request again."""
    _, *sections = _OPERATION.split(output.partition("= FAILURES =")[2])
    for operation, section in zip(sections[::2], sections[1::2], strict=True):
        for case in _CASE.split(section)[1:]:
            curl = _CURL.search(case)
            for fault in _FAULT.findall(case):
                body = " ".join(case.split())[:600]
                yield Finding("schema", operation, fault, curl[1] if curl else "", body)
