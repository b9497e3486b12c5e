"""`make bench-scale`: the same steps of SmolLM2 (fp32, rank 8) by one process of one thread and by two of one thread each.

They take turns, so that neither has the machine's better minutes; step 1 warms up, the others count. What one process
hands the other is inside the time. Two cores have to be free. Exits 1 if a target is missed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import torch
from rich.console import Console
from transformers.utils import logging as transformers_logging

from bench import result_file
from bench.scale import report
from bench.scale.side import Side, settings_for
from bench.scale.traffic import samples_of
from slipstream.local.home import Home
from slipstream.local.model import find_model, model_spec
from trainer.distributed.ranks import Ranks
from trainer.model_cache import ModelCache
from trainer.peers import Alone

NUM_GROUPS = 12


class NoStems(Alone):
    """Rows are cut as they are for a split base."""

    needs_equal_passes = True


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two steps instead of four")
    parser.add_argument("--model", help="a model directory; the default is SmolLM2")
    options, console = parser.parse_args(), Console(width=None if sys.stdout.isatty() else 120)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    machine, model = result_file.machine(), model_directory(options.model)
    with tempfile.TemporaryDirectory(prefix="slipstream-bench-") as directory:
        sides = measure(model, Path(directory), 2 if options.quick else 4)
    figures, rows = figures_of(*sides), [row for side in sides for row in side.rows]
    result_file.write(machine, figures, rows, report.PARTIAL if options.quick else report.RESULTS)
    report.show(console, figures, rows)
    return 1 if any(not verdict.is_met for verdict in report.verdicts(figures)) else 0


def measure(model: str, directory: Path, num_steps: int) -> tuple[Side, Side, Side, Side]:
    """One process, two, two with the base split, and one whose rows hang on no stems, as they do where the base is split."""
    torch.set_num_threads(1)
    alone = settings_for(model, directory)
    shared = settings_for(model, directory, processes=2, threads=2)
    sharded = settings_for(model, directory, processes=2, threads=2, shard="fsdp")
    with ExitStack() as stack:
        two, split = Ranks(shared), Ranks(sharded)
        stack.callback(two.end)
        stack.callback(split.end)
        model_here = ModelCache().get(alone)
        one, flat = Side("one process", model_here, alone), Side("one, no stems", model_here, alone)
        both, parts = Side("two processes", two, shared), Side("two, base split", split, sharded)
        for number in range(num_steps):
            for side in (one, both):
                side.step(samples_of(NUM_GROUPS, number))
        two.end()  # its memory is needed
        for number in range(num_steps):
            parts.step(samples_of(NUM_GROUPS, number))
        model_here.peers = NoStems()
        for number in range(num_steps):
            flat.step(samples_of(NUM_GROUPS, number))
    return one, both, parts, flat


def figures_of(one: Side, both: Side, parts: Side, flat: Side) -> dict[str, float]:
    return {
        "seconds_one": one.seconds,
        "seconds_two": both.seconds,
        "seconds_sharded": parts.seconds,
        "seconds_start": both.rows[0]["seconds"] - both.seconds,
        "speedup": one.seconds / both.seconds,
        "difference_millionths": 1e6 * both.difference(one),
        "difference_sharded_millionths": 1e6 * parts.difference(flat),
        "difference_stems_millionths": 1e6 * flat.difference(one),
        "balance": both.rows[-1]["balance"],
        "num_rows": both.rows[-1]["num_rows"],
    }


def model_directory(wanted: str | None) -> str:
    """The embedded stack's default model, made where it is missing, or the one that is wanted."""
    home = Home.at(Path(".slipstream"))
    home.create()
    model = find_model(home, wanted)
    if model_spec(model, os.environ):
        command = [sys.executable, "-m", "slipstream.local.prepare_model", model.name]
        subprocess.run(command, check=True, capture_output=True)
    return model.name


if __name__ == "__main__":
    sys.exit(main())
