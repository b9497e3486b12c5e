"""The store: published adapters by URL (s3://, gs://, file://, what fsspec knows), for machines that share no file system.

Invariant: manifest.json is written last and names every file with its digest: who finds it finds all, others find nothing.
What has a name never changes, here as on the disk (I7).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import fsspec

from trainer.adapter_files import sha256_of, write_directory
from trainer.errors import AdapterRefusedError, StoreUnreachableError, TrainerError

MANIFEST = "manifest.json"


class Store:
    """`url` may hold a password: it is in no message. Keys come as each cloud's own library reads them."""

    def __init__(self, url: str) -> None:
        try:
            self._files, self._root = fsspec.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise StoreUnreachableError(
                f"SLIPSTREAM_ADAPTERS_URL cannot be used ({type(error).__name__}): "
                "is the library for this kind of URL installed (s3fs, gcsfs, adlfs)?"
            ) from error

    def push(self, name: str, directory: Path) -> None:
        """Idempotent. Raises AdapterRefusedError where another adapter has this name, StoreUnreachableError to try again."""
        contents = {path.name: path.read_bytes() for path in sorted(directory.iterdir())}
        digests = {name: sha256_of(content) for name, content in contents.items()}
        with _reached():
            known = self._digests(name)
            if known is None:
                for file, content in contents.items():
                    self._write(f"{name}/{file}", content)
                self._write(f"{name}/{MANIFEST}", json.dumps(digests, sort_keys=True).encode())
        if known not in (None, digests):
            raise AdapterRefusedError(f"the adapters' store holds another {name}: a name is never used again")

    def missing(self, root: Path) -> list[str]:
        """The names that are published and not below `root`. Raises StoreUnreachableError to try again."""
        with _reached():
            return [name for name in self._names() if not (root / name).exists()]

    def fetch(self, name: str, root: Path) -> None:
        """It is there afterwards, whole. Raises StoreUnreachableError to try again, AdapterRefusedError where a file is not
        what the manifest says.
        """
        with _reached():
            digests = self._digests(name)
            if not digests:  # an empty directory would have the name for ever
                raise AdapterRefusedError(
                    f"the manifest of {name} in the adapters' store is gone, or not whole"
                )
            if any("/" in file or file.startswith(".") for file in digests):
                raise AdapterRefusedError(f"the manifest of {name} in the adapters' store names other places")
            contents = {file: self._files.cat_file(f"{self._root}/{name}/{file}") for file in digests}
        for file, content in contents.items():
            if sha256_of(content) != digests[file]:
                raise AdapterRefusedError(
                    f"{file} of {name} in the adapters' store is not what its manifest says"
                )
        write_directory(root / name, contents, "pulled")

    def _names(self) -> Iterator[str]:
        """Of complete adapters. What would lie outside of the root, or hidden in it, is none."""
        self._files.invalidate_cache()
        for found in sorted(self._files.find(self._root) if self._files.exists(self._root) else ()):
            place = PurePosixPath(found)
            if place.name == MANIFEST:
                name = place.parent.relative_to(self._root)
                if not any(part.startswith(".") for part in name.parts):
                    yield str(name)

    def _digests(self, name: str) -> dict[str, str] | None:
        """None where it is not there, or not whole: whoever wrote it died, and nobody has pulled by it."""
        try:
            digests = json.loads(self._files.cat_file(f"{self._root}/{name}/{MANIFEST}"))
        except (FileNotFoundError, ValueError):
            return None
        return digests if isinstance(digests, dict) else None

    def _write(self, place: str, content: bytes) -> None:
        path = f"{self._root}/{place}"
        self._files.makedirs(
            path.rpartition("/")[0], exist_ok=True
        )  # nothing to do where there are no directories
        self._files.pipe_file(path, content)


@contextmanager
def _reached() -> Iterator[None]:
    """Whatever a cloud's library raises means "try again": botocore's and gcsfs' errors are no OSErrors."""
    try:
        yield
    except TrainerError:
        raise
    except Exception as error:
        raise StoreUnreachableError(
            f"the adapters' store does not answer ({type(error).__name__})"
        ) from error
