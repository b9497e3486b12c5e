"""`make bench-train`: a step of ours beside one of TRL's GRPOTrainer, on the same logged groups in three shapes.

Prints tables, writes bench/results/train.json; 1 if a target is missed. Each side is a process of its own, they take turns,
with the same number of threads. TRL is installed on first use, below build/bench.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.gateway.children import ROOT, ChildFailedError
from bench.gateway.environments import installed
from bench.result_file import machine
from bench.train import report
from bench.train.shapes import SHAPES

TRL = ("trl==1.16.0", "torch==2.13.0", "transformers==5.19.0", "peft==0.21.2", "accelerate==1.15.0")
FOLDER = Path("build/bench/train")
MODEL = FOLDER / "SmolLM2-135M-Instruct"
ROUNDS = 2
SIDES = ("slipstream", "trl", "trl_keeping")  # the last one: TRL with gradient checkpointing turned off


def main() -> int:
    options, console, found = _options(), Console(width=None if sys.stdout.isatty() else 150), machine()
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        theirs = installed("trl", TRL, lambda line: console.print(line, style="dim")) / "python"
        model = _model(options.model)
        _run([sys.executable, "-m", "bench.train.prepare", "--model", model, "--folder", str(FOLDER)])
        rows = []
        for shape, side, number in _turns(options):
            console.print(f"{shape}: {side}, round {number}", style="dim")
            told = _told(_command(side, theirs), model, options.threads, shape)
            rows.append({"shape": shape, "side": side, "round": number} | told)
            (FOLDER / "rows.json").write_text(
                json.dumps(rows), encoding="utf-8"
            )  # whatever happens to the rest
        exact = FOLDER / "exact.json"
        _run([sys.executable, "-m", "bench.train.exact", "--model", model, "--out", str(exact)])
    except ChildFailedError as error:
        console.print(str(error), style="red", markup=False)
        return 1
    figures = report.figures_of(rows, json.loads(exact.read_text(encoding="utf-8")))
    found |= {"threads": options.threads, "trl": TRL, "load_average_after": os.getloadavg()[0]}
    is_whole = not (options.quick or options.only)
    report.write(found, figures, rows, report.RESULTS if is_whole else report.PARTIAL)
    report.show(console, figures, rows)
    return 1 if any(not verdict.is_met for verdict in report.verdicts(figures)) else 0


def _turns(options: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    """Shape, side, round: the sides take turns."""
    for number in range(1, 2 if options.quick else ROUNDS + 1):
        for shape in options.only or [shape.name for shape in SHAPES]:
            for side in SIDES[:2] if options.quick else SIDES:
                yield shape, side, number


def _command(side: str, theirs: Path) -> list[str]:
    if side == "slipstream":
        return [sys.executable, "-m", "bench.train.our_side"]
    command = [str(theirs), "-m", "bench.train.trl_side", "--adapter", str(FOLDER / "adapter")]
    return [*command, "--no-checkpointing"] if side == "trl_keeping" else command


def _told(command: list[str], model: str, threads: int, shape: str) -> dict[str, Any]:
    """What the side says about the shape's groups."""
    out, groups = FOLDER / f"{shape}-told.json", FOLDER / f"{shape}.json"
    _run([*command, "--model", model, "--groups", str(groups), "--threads", str(threads), "--out", str(out)])
    told: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return told


def _model(wanted: str | None) -> str:
    if wanted is None:
        _run([sys.executable, "-m", "slipstream.local.prepare_model", str(MODEL)])
    return str(Path(wanted or MODEL).absolute())


def _run(command: list[str]) -> None:
    """Waiting threads sleep, as a worker's do: time that is spun away would count as work, for either side."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    if done.returncode:
        raise ChildFailedError(f"{' '.join(command[1:3])} failed:\n{done.stderr[-2000:]}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-train", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, and TRL as it comes alone")
    parser.add_argument(
        "--only", action="append", choices=[shape.name for shape in SHAPES], help="may be repeated"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each side (%(default)s)")
    parser.add_argument("--model", help="a prepared SmolLM2-135M-Instruct (default: prepared once)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
