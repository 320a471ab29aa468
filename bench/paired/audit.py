"""What `fulmar audit` costs whom it counts: nginx under wrk, alone, counted and under strace."""

from __future__ import annotations

import json
import signal
import time
from functools import partial

from .bars import NO_LIMIT, Bar, Limit, at_most_times
from .context import Context, interleave
from .machine import CLIENT_CORE
from .processes import Failed, Process, cpu_s
from .programs import Nginx, Wrk

CONNECTIONS = 64
ATTACH_S = 1.0  # a release build takes a tenth of it


def overhead(context: Context) -> list[Bar]:
    """Requests per second and CPU per request, with nobody watching and with the counter in the
    kernel. strace stands beside, for the comparison that it is held against."""
    nginx = Nginx(context.directory)
    name = f"audit, nginx under wrk, {CONNECTIONS} connections"
    rate = Bar(f"{name}: requests/s", "", Limit("ratio", low=0.85), peer_name="not counted")
    spent = Bar(f"{name}: CPU per request", "us", at_most_times(1.15), peer_name="not counted")
    traced: list[float] = []

    def sample(rates: list[float], us: list[float]) -> int:
        before = cpu_s(nginx.pid)
        wrk = Wrk(context.directory, nginx.url("/tiny"), CONNECTIONS, context.seconds)
        requests = wrk.requests()
        rates.append(requests / max(1, round(context.seconds)))
        us.append((cpu_s(nginx.pid) - before) * 1e6 / requests)
        rate.with_commands(wrk.process.line)
        return requests

    def counted() -> None:
        audit = attach([str(context.binaries / "fulmar"), "audit", "--json", "--counter", "ebpf",
                        "--pid", str(nginx.pid)])
        requests = sample(rate.fulmar, spent.fulmar)
        report = json.loads(audit.stop(signal.SIGINT))
        if report["lost"] or report["calls"]["recvfrom"]["calls"] < requests:
            raise Failed(f"not all was counted: {audit.line}")

    def straced() -> None:
        strace = attach(["strace", "-f", "-c", "-p", str(nginx.pid)])
        sample(traced, [])
        strace.stop(signal.SIGINT)

    def attach(command: list[str]) -> Process:
        process = Process(command, CLIENT_CORE, context.directory)
        rate.with_commands(process.line)
        time.sleep(ATTACH_S)
        return process

    interleave(context.rounds, partial(sample, rate.peer, spent.peer), counted)
    straced()
    nginx.stop()
    beside = Bar(f"{name}, strace -c: requests/s", "", NO_LIMIT, peer=traced, peer_name="strace")
    return [rate, spent.with_commands(*rate.commands), beside]


SCENARIOS = {"audit-nginx-64": ("what the counter costs nginx under wrk", overhead)}
