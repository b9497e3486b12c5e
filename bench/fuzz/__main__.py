"""`make bench-fuzz`: a proxy, a mock and a ledger; bad bytes and odd values for some minutes. 1 if anything is found."""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import result_file
from bench.fuzz import rows
from bench.fuzz.attempt import attempt
from bench.fuzz.bombardment import Bombardment
from bench.fuzz.finding import Finding, alike
from bench.fuzz.mutations import case_of
from bench.fuzz.oracle import faults_of
from bench.fuzz.schema import findings_of_schema
from bench.fuzz.target import Target, running_target
from bench.gateway.children import ChildFailedError

_RESULTS = Path("bench/results/fuzz.json")
_SETTLE_SECONDS = 6.0  # longer than the target keeps an idle connection
_MORE_FILES = 40  # a pool of connections to vLLM may have grown; hundreds of clients may not have stayed


def main() -> int:
    options, console = _options(), Console(width=None if sys.stdout.isatty() else 150)
    started_at = time.monotonic()

    def tell(text: str) -> None:
        console.print(
            f"{time.monotonic() - started_at:5.0f} s  {text}", style="dim", markup=False, highlight=False
        )

    found = result_file.machine()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="slipstream-fuzz-") as directory,
            running_target(Path(directory)) as target,
        ):
            if options.case is not None:
                return _show_case(target, options, console)
            figures, findings = _fuzz(target, options, Path(directory), tell)
    except ChildFailedError as error:
        console.print(str(error), style="red", markup=False)
        return 1
    result_file.write(found, figures, [finding.as_row() for finding in findings], _RESULTS)
    _show(console, figures, findings)
    return 1 if findings else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=75, help="of bad bytes, and as many of odd values")
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="the same seed sends the same cases"
    )
    parser.add_argument("--case", type=int, help="only this case of the seed, shown byte by byte")
    parser.add_argument("--only", choices=["bytes", "schema"])
    return parser.parse_args()


def _fuzz(
    target: Target, options: argparse.Namespace, directory: Path, tell: Callable[[str], None]
) -> tuple[dict[str, float], list[Finding]]:
    figures: dict[str, float] = {"seed": options.seed}
    findings: list[Finding] = []
    num_files, memory_kib = target.num_open_files(), target.tree.memory_kib()
    bombardment = Bombardment(target.port, options.seed, tell)
    if options.only != "schema":
        tell(f"bad bytes for {options.seconds} s, seed {options.seed}")
        asyncio.run(bombardment.run(options.seconds))
        findings += [*bombardment.findings, *_without_row(target, bombardment.captured)]
        figures |= {"num_cases": bombardment.num_cases, "num_answers_captured": len(bombardment.captured)}
    if options.only != "bytes":
        tell(f"odd values for {options.seconds} s: schemathesis")
        num_requests, more = findings_of_schema(target.port, options.seed, options.seconds, directory, tell)
        findings += more
        figures["num_schema_requests"] = num_requests
    tell("looking for lost rows")
    time.sleep(_SETTLE_SECONDS)
    seen = target.seen_calls()
    figures |= {
        "num_calls_seen": len(seen),
        "memory_grown_mib": (target.tree.memory_kib() - memory_kib) / 1024,
    }
    findings += [
        *(
            Finding("rows", "ran", f"no row of call {name}")
            for name in rows.missing_calls(target.database_url, seen)
        ),
        *(Finding("process", "log", f"{line[:120]} … {line[-700:]}") for line in target.faults_in_log()),
        *_left_open(target, num_files),
    ]
    figures |= {f"num_rows_{status}": number for status, number in rows.statuses(target.database_url).items()}
    return {**figures, "num_findings": len(findings)}, findings


def _without_row(target: Target, captured: Iterable[str]) -> list[Finding]:
    """Asked before schemathesis erases users: their rows are known by their calls' ids alone from then on."""
    lost = rows.missing_answers(target.database_url, captured)
    return [Finding("rows", "answered", f"no row of {name}") for name in lost]


def _left_open(target: Target, before: int) -> list[Finding]:
    now = target.num_open_files()
    return (
        [Finding("process", "files", f"{now} open files, {before} before")]
        if now > before + _MORE_FILES
        else []
    )


def _show_case(target: Target, options: argparse.Namespace, console: Console) -> int:
    case = case_of(options.seed, options.case)
    result = asyncio.run(attempt(target.port, case))
    faults = faults_of(case, result.received, is_hanging=result.is_hanging)
    for name, value in (
        ("kind", case.kind),
        ("ending", case.ending),
        ("sent", case.pieces),
        ("received", result.received),
    ):
        console.print(f"{name}: {value!r}"[:6000], markup=False, highlight=False)
    console.print(f"faults: {faults}", *target.faults_in_log(), markup=False, highlight=False)
    return 1 if faults else 0


def _show(console: Console, figures: dict[str, float], findings: list[Finding]) -> None:
    table = Table(title="Bad input", title_justify="left", show_header=False)
    for name, value in figures.items():
        table.add_row(name, f"{value:,.5g}" if name != "seed" else str(value))
    console.print(table)
    for gist, number in alike(findings).most_common():
        console.print(f"{number:5} times: {gist}", style="red", markup=False, highlight=False)
    console.print(f"Written to {_RESULTS}." if findings else "Nothing was found.")


if __name__ == "__main__":
    sys.exit(main())
