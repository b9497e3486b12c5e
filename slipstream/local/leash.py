"""Run one command so that it cannot outlive its supervisor: `leash.py PIPE_FD SIGNAL GRACE USER -- COMMAND…`.

Started by path with `python -I -S`: standard library only, nothing of Slipstream is imported. When the pipe says so, or
closes (the supervisor died), the command's group gets SIGNAL, and after GRACE seconds every descendant is killed.
USER is `-` (as we are), `namespace:UID:GID` (root's files belong to UID inside a user namespace), or `UID:GID`.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, CLONE_NEWUSER = 1, 36, 0x10000000
IS_LINUX = sys.platform == "linux"


def prctl(option: int, value: int) -> None:
    if IS_LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def enter_namespace(user_id: int, group_id: int) -> None:
    """Become `user_id` in a new user namespace; outside of it we stay who we were, so our files stay ours."""
    outer_user, outer_group = os.geteuid(), os.getegid()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "user namespaces are not permitted")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user_id} {outer_user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group_id} {outer_group} 1", encoding="ascii")


def become(user: str) -> None:
    """Runs in the child between fork and exec."""
    if user.startswith("namespace:"):
        enter_namespace(*(int(part) for part in user.split(":")[1:]))
    elif user != "-":
        user_id, group_id = (int(part) for part in user.split(":"))
        os.setgroups([])
        os.setgid(group_id)
        os.setuid(user_id)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # after setuid, which clears it


def descendants(root: int) -> set[int]:
    """Every living process below `root`, from /proc; empty where there is no /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = entry.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if fields[0] != "Z":
                parents[int(entry.parent.name)] = int(fields[1])
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in found | {root}} - found:
        found |= more
    return found


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the command's group and to everything below us, until nothing is left. Bounded: 5 s."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1)  # its exit code is ours: nobody else may collect it
        alive = descendants(os.getpid())
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not alive:
            return
        time.sleep(0.02)


def read_order(pipe: int, seconds: float) -> str:
    """What the supervisor says within `seconds`: "stop", "kill", "gone" (the pipe closed: stop), or nothing."""
    if not select.select([pipe], [], [], seconds)[0]:
        return ""
    return {b"S": "stop", b"K": "kill"}.get(os.read(pipe, 1), "gone")


def wait_end(process: subprocess.Popen[bytes], pipe: int, stop_signal: int, grace: float) -> None:
    """Return when the command ended, when it was told to stop and its grace is over, or on "kill"."""
    deadline, is_gone = float("inf"), False
    while process.poll() is None and time.monotonic() < deadline:
        if is_gone:
            time.sleep(0.05)
            continue
        order = read_order(pipe, 0.2)
        is_gone = order == "gone"
        if order == "kill":
            return
        if order and deadline == float("inf"):
            deadline = time.monotonic() + grace
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, stop_signal)


def main(arguments: list[str]) -> int:
    pipe, stop_signal, grace, user = int(arguments[0]), int(arguments[1]), float(arguments[2]), arguments[3]
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # only the pipe ends us
        signal.signal(ignored, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)

    def prepare() -> None:
        for given_back in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(given_back, signal.SIG_DFL)
        become(user)

    process = subprocess.Popen(arguments[5:], process_group=0, preexec_fn=prepare)  # noqa: PLW1509 - no threads here
    wait_end(process, pipe, stop_signal, grace)
    kill_all(process)
    code = process.poll()
    return 128 - code if code is not None and code < 0 else code or 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"{sys.argv[6]}: {error}\n")
        sys.exit(126)
