"""Each image starts with the packages of its own lock and no others: what the others bring is hidden, then it is imported."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HIDE = """
import re, sys
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions

def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()

lock, modules = sys.argv[1], sys.argv[2:]
held = {line.split("==")[0] for line in open(lock)} | {"slipstream"}
hidden = {
    module
    for module, distributions in packages_distributions().items()
    if held.isdisjoint(map(plain, distributions))
}

class Held(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Held
for module in modules:
    __import__(module)
"""


@pytest.mark.parametrize(
    ("lock", "modules"),
    [
        ("proxy.lock", ["slipstream.cli", "migrations", "proxy.server"]),
        ("trainer.lock", ["slipstream.cli", "trainer.worker"]),
    ],
)
def test_an_image_starts_with_the_packages_of_its_lock_alone(lock: str, modules: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDE, ROOT / "requirements" / lock, *modules],
        cwd=ROOT, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
