"""Processes that are measured: started on a core, read through /proc, and gone at the end."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
_alive: list["Process"] = []


class Failed(Exception):
    """A run that brought no figure; the message says why."""


class Missing(Failed):
    """It needs a program that is not installed."""


PEERS = ("nginx", "haproxy", "h2o", "wrk", "h2load", "curl", "strace", "valgrind", "cc", "openssl")
# Where servers lie, also if the PATH of whoever is not root leaves it out.
SYSTEM_DIRS = ("/usr/sbin", "/usr/local/sbin", "/sbin")


def find_system_programs() -> None:
    """They are found from now on."""
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_DIRS])


def check_installed(command: list[str]) -> None:
    """Every peer in it is there, or a message says how to get it."""
    missing = [word for word in command if word in PEERS and shutil.which(word) is None]
    if missing:
        raise Missing(f"{missing[0]} is not installed; scripts/setup-peers installs what is needed")


# Everyone else first: what is ready gathers meanwhile.
LAST = ("chrt", "--idle", "0")


class Process:
    """A child with its output in files, pinned to `cores`."""

    def __init__(self, command: list[str], cores: str, directory: Path,
                 shown: list[str] | None = None) -> None:
        check_installed(command)
        self.command = ["taskset", "-c", cores, *command]
        self.line = show(["taskset", "-c", cores, *(shown or command)])
        self.directory = directory
        number = len(list(directory.glob("out-*")))
        self._out = directory / f"out-{number}"
        self._err = directory / f"err-{number}"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.child = subprocess.Popen(
                self.command, stdout=out, stderr=err, stdin=subprocess.DEVNULL
            )
        _alive.append(self)

    @property
    def pid(self) -> int:
        """taskset replaces itself, so its number is the program's."""
        return self.child.pid

    def text(self) -> str:
        """Standard output so far."""
        return self._out.read_text(errors="replace")

    def errors(self) -> str:
        """Standard error so far."""
        return self._err.read_text(errors="replace")

    def first_line(self, timeout_s: float = 5.0) -> str:
        """Waits for a line of output."""
        return until(lambda: self.text().partition("\n")[0], self, timeout_s)

    def wait(self, timeout_s: float) -> str:
        """Waits for the end; the whole output."""
        try:
            self.child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.stop(signal.SIGKILL)
            raise Failed(f"did not end within {timeout_s:.0f} s: {self.line}") from None
        _alive.remove(self)
        return self.text()

    def stop(self, how: signal.Signals = signal.SIGTERM, timeout_s: float = 15.0) -> str:
        """Ends it with a signal; the whole output."""
        if self not in _alive:
            return self.text()
        self.child.send_signal(how)
        try:
            self.child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        _alive.remove(self)
        return self.text()


def stop_all() -> None:
    """Nothing that was started here survives."""
    for process in list(_alive):
        try:
            for pid in children(process.pid):
                os.kill(pid, signal.SIGCONT)  # one that is stopped would hear nothing else
            process.stop(timeout_s=3.0)
        except OSError:
            pass


def until(found, process: Process, timeout_s: float):
    """Asks `found` until it says something; the process must live meanwhile."""
    end = time.monotonic() + timeout_s
    while True:
        value = found()
        if value:
            return value
        if process.child.poll() is not None:
            raise Failed(f"ended early: {process.line}\n{process.errors()}")
        if time.monotonic() > end:
            raise Failed(f"waited {timeout_s:.0f} s in vain: {process.line}\n{process.errors()}")
        time.sleep(0.01)


def cpu_s(pid: int) -> float:
    """Processor time of a process so far, user and system (proc(5): utime, stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_bytes(pid: int) -> int:
    """Resident memory of a process."""
    return _memory(pid, "VmRSS")


def peak_bytes(pid: int) -> int:
    """The most that a process had resident, since its start or `reset_peak`."""
    return _memory(pid, "VmHWM")


def reset_peak(pid: int) -> None:
    """The peak is what is resident now (proc(5): clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _memory(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise Failed(f"process {pid} has no memory any more")


def children(pid: int) -> list[int]:
    """Children of a process."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def show(command: list[str]) -> str:
    """A command line as it would be typed, without directories that only live for a run."""
    return shlex.join(re.sub(r"(?<![:/\w])/[\w./-]*/", "", word) for word in command)
