"""`make bench-gateway`: set up, measure, print, write bench/results/gateway.json. 1 if a target is missed."""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from bench.gateway import measures, report
from bench.gateway.bench import Bench
from bench.gateway.children import ChildFailedError
from bench.gateway.figures import OURS, figures_of
from bench.gateway.plan import Plan
from bench.gateway.slipstream import LostRowsError
from bench.gateway.stage import KNOWN, set_up
from bench.gateway.targets import verdicts
from bench.result_file import machine

_IDLE_LOAD = 0.5


def main() -> int:
    options, console = _options(), Console(width=None if sys.stdout.isatty() else 120)
    found = machine()
    if found["load_average_before"] > _IDLE_LOAD:
        busy = f"This machine is busy (load {found['load_average_before']:.1f}): latencies will be high."
        console.print(busy, style="yellow")
    _raise_limits()
    try:
        with tempfile.TemporaryDirectory(prefix="slipstream-bench-") as directory:
            bench = _measure(options, Path(directory), console)
    except (ChildFailedError, LostRowsError) as error:
        console.print(str(error), style="red", markup=False)
        return 1
    figures = figures_of(bench.rows)
    judged = verdicts(figures)
    is_whole = not options.only and not options.profile and set(options.contenders) == set(KNOWN)
    report.write(found, figures, bench.rows, report.RESULTS if is_whole else report.PARTIAL)
    report.show(console, figures, bench.rows, judged)
    return 1 if any(not verdict.is_met for verdict in judged) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-gateway", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--only", action="append", choices=list(measures.MEASURES), help="may be repeated")
    parser.add_argument("--contenders", default=",".join(KNOWN), help="of " + ",".join(KNOWN))
    parser.add_argument(
        "--profile", action="store_true", help="py-spy looks at the proxy: build/bench/profile-*"
    )
    options = parser.parse_args()
    options.contenders = options.contenders.split(",")
    if unknown := set(options.contenders) - set(KNOWN):
        parser.error(f"--contenders knows {', '.join(KNOWN)}, not {', '.join(unknown)}")
    return options


def _raise_limits() -> None:
    """Servers inherit it: a stream is two open files for a gateway."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _measure(options: argparse.Namespace, directory: Path, console: Console) -> Bench:
    started_at = time.monotonic()

    def tell(text: str) -> None:
        console.print(
            f"{time.monotonic() - started_at:5.0f} s  {text}", style="dim", markup=False, highlight=False
        )

    with set_up(directory, options.contenders, tell) as stage:
        bench = Bench(Plan.quick() if options.quick else Plan(), stage, tell, is_profiled=options.profile)
        bench.pace()
        bench.warm(stage.contenders, measures.load(8, 400))
        for name, measure in measures.MEASURES.items():
            if (not options.only or name in options.only) and (
                OURS in options.contenders or name not in measures.ALONE
            ):
                measure(bench)
    return bench


if __name__ == "__main__":
    sys.exit(main())
