"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import re
import resource
import subprocess
from datetime import datetime, timezone
from pathlib import Path

SERVER_CORE = "1"
CLIENT_CORE = "0"
BOTH_CORES = "0,1"


def raise_descriptors() -> int:
    """Raises the soft limit on descriptors to the hard one; children inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def facts(root: Path) -> dict[str, str]:
    """Kernel, processor, date, commit, versions of the peers."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "kernel": platform.release(),
        "cpu": model.group(1) if model else platform.machine(),
        "cores": str(os.cpu_count()),
        "descriptors": str(resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        "load_average": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "commit": commit(root),
        "nginx": output(["nginx", "-v"]),
        "h2o": output(["h2o", "-v"]),
        "libmicrohttpd": output(["dpkg-query", "-W", "-f", "${Version}", "libmicrohttpd-dev"]),
        "wrk": output(["wrk", "-v"]).split(" Copyright")[0],
        "libcurl": output(["curl-config", "--version"]),
        "valgrind": output(["valgrind", "--version"]),
    }


def commit(root: Path) -> str:
    """Of the work tree; empty if that is none, or there is no git."""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return ""
    return done.stdout.strip()


def output(command: list[str]) -> str:
    """The first line that `command` prints on either stream; empty if it cannot be run."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError:
        return ""
    return done.stdout.strip().split("\n")[0]
