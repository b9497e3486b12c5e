"""Makes the locks again: `python -m requirements.lock`, which is what `make lock` runs.

all.lock is resolved first; each image's lock is a part of it, so every image runs what the tests ran.
"""

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
PYTHON_VERSION = "3.11"
# All but wandb: who wants it installs it, and what it brings (a beta among it) is in nobody else's way.
EXTRAS = ("proxy", "trainer", "client", "local", "files", "tensorboard", "demo", "dev")
PARTS = {
    "proxy.lock": ("pyproject.toml", "--extra", "proxy"),
    "trainer.lock": ("pyproject.toml", "--extra", "trainer", "--extra", "files"),
    "vllm.lock": ("requirements/vllm.in",),
}
_CUDA = re.compile(r"^(nvidia-|triton\b|cuda-)")
"""What a CUDA build of torch brings; torch is installed before the lock, with its own dependencies."""


def without_cuda(lines: Iterable[str]) -> list[str]:
    """The lines that stay.

    >>> without_cuda(["torch==2.13.0", "triton==3.7.0", "nvidia-nccl-cu13==2.29.0", "trl==1.16.0"])
    ['torch==2.13.0', 'trl==1.16.0']
    """
    return [line for line in lines if line.strip() and not _CUDA.match(line)]


def resolve(*sources: str) -> list[str]:
    """The exact versions, one `name==version` a line, that satisfy `sources` (files and options of uv)."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-q", "--python-version", PYTHON_VERSION]
    command += ["--overrides", "requirements/overrides.txt", "--no-annotate", "--no-header", *sources]
    done = subprocess.run(command, cwd=HERE.parent, text=True, stdout=subprocess.PIPE, check=True)
    return without_cuda(done.stdout.splitlines())


def write(name: str, lines: list[str]) -> None:
    (HERE / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"requirements/{name}: {len(lines)} packages\n")


def main() -> None:
    extras = [option for name in EXTRAS for option in ("--extra", name)]
    write("all.lock", resolve("pyproject.toml", *extras, "requirements/vllm.in"))
    for name, sources in PARTS.items():
        write(name, resolve(*sources, "--constraints", "requirements/all.lock"))


if __name__ == "__main__":
    main()
