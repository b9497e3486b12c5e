"""A spool's files without an owner: dead processes' directories, damaged segments set aside, rejected records.

A living process empties its own files (ledger.erasure.sweeper); what it has not emptied yet is counted here.
"""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ledger.audit.rejected import REJECTED, rejected_paths
from ledger.codec import UNDECODABLE, call_of, call_pieces, decode_held
from ledger.durable import sync_path
from ledger.erasure.frames import IsErased, Segment, calls_in, erase_frames, frames_of, wipe_behind
from ledger.erasure.skeleton import skeleton_of
from ledger.request_body import derived
from ledger.spool.directory import CORRUPT, SpoolDirectory, orphan_paths

_BESIDE = ("number", "process", "refused_by")
_WAIT_SECONDS = 6.0  # for the living ones, which look every two seconds
_POLL_SECONDS = 0.2
_ABANDONED_SECONDS = 60.0


def erase_files(root: Path, is_erased: IsErased, needles: Sequence[bytes]) -> dict[str, int]:
    """`num_frames` were emptied here; `num_waiting` calls still lie in files of living processes, after some seconds."""
    num_frames = _erase_rejected(root, is_erased) + erase_frames(_set_aside(root), is_erased, needles)
    num_frames += sum(_erase_orphan(path, is_erased, needles) for path in orphan_paths(root))
    deadline = time.monotonic() + _WAIT_SECONDS
    while (num_waiting := _num_waiting(root, is_erased)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return {"num_frames": num_frames, "num_waiting": num_waiting}


def _erase_orphan(path: Path, is_erased: IsErased, needles: Sequence[bytes]) -> int:
    directory = SpoolDirectory.adopt(path)
    if directory is None:  # alive, or gone
        return 0
    try:
        segments = segments_in(path)
        num_erased = erase_frames(segments, is_erased, needles)
        for segment in segments:
            wipe_behind(
                replace(segment, end=max((found.end for _, found in frames_of([segment])), default=0))
            )
        for spare in path.glob("*.spare"):
            spare.unlink()
        return num_erased
    finally:
        directory.release()


def segments_in(path: Path, numbers: Iterable[int] | None = None) -> list[Segment]:
    found = [Segment(file, int(file.stem)) for file in sorted(path.glob("*.segment"))]
    return found if numbers is None else [segment for segment in found if segment.number in set(numbers)]


def _set_aside(root: Path) -> list[Segment]:
    return [Segment(path, int(path.stem.rpartition("-")[2])) for path in (root / CORRUPT).glob("*.corrupt")]


def _erase_rejected(root: Path, is_erased: IsErased) -> int:
    """Each is written aside and renamed; what is no record is left, and told by the audit.

    What a process wrote aside and died over is nobody's: its call lies in its spool.
    """
    num_erased = 0
    for aside in (root / REJECTED).glob("*.new"):
        with suppress(FileNotFoundError):  # its process was only slow
            if time.time() - aside.stat().st_mtime > _ABANDONED_SECONDS:
                aside.unlink()
    for path in rejected_paths(root):
        try:
            held = decode_held(path.read_bytes())
            beside = {name: held[name] for name in _BESIDE if name in held}
            call = derived(call_of(held))
        except (*UNDECODABLE, FileNotFoundError):
            continue
        if not call.is_erased and is_erased(call):
            aside = path.with_suffix(".new")
            aside.write_bytes(b"".join(call_pieces(skeleton_of(call), **beside)))
            sync_path(aside)
            aside.replace(path)
            num_erased += 1
    return num_erased


def _num_waiting(root: Path, is_erased: IsErased) -> int:
    """A file that goes away meanwhile held nothing that was not recorded."""
    waiting = set()
    for path in orphan_paths(root):
        try:
            waiting |= calls_in(segments_in(path), is_erased)
        except FileNotFoundError:
            continue
    return len(waiting)
