"""`slipstream doctor`: what is missing or wrong, and how to mend it."""

import json
from typing import Annotated

import typer
from rich.console import Console

from slipstream.doctor.checks import run_checks
from slipstream.doctor.finding import Finding, Level

MARKS = {Level.GOOD: ("ok", "green"), Level.NOTE: ("note", "yellow"), Level.WRONG: ("wrong", "red")}


def doctor(
    check_logprobs: Annotated[
        bool,
        typer.Option(
            "--check-logprobs", help="Compare vLLM's sampling logprobs with the trainer's (a minute)."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what is missing or wrong, and how to mend it. Exit code 1 if anything is wrong."""
    findings = []
    for finding in run_checks(is_logprobs_wanted=check_logprobs):
        findings.append(finding)
        if not as_json:
            show(finding)
    if as_json:
        typer.echo(json.dumps([finding.as_dict() for finding in findings]))
    if any(finding.level is Level.WRONG for finding in findings):
        raise typer.Exit(1)


def show(finding: Finding) -> None:
    word, colour = MARKS[finding.level]
    console = Console()
    console.print(f"[{colour}]{word:>5}[/]  {finding.name:<10} ", end="")
    console.print(finding.detail, markup=False, highlight=False, soft_wrap=True)
    if finding.remedy:
        console.print(f"                  → {finding.remedy}", markup=False, highlight=False, soft_wrap=True)
