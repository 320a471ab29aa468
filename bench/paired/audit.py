"""What `fulmar audit` costs whom it counts: nginx under wrk, alone, counted and under strace."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import dataclass
from functools import partial

from .bars import NO_LIMIT, Bar, Limit, at_most_times
from .context import Context, interleave
from .machine import CLIENT_CORE
from .processes import Failed, Process, cpu_s
from .programs import Nginx, Wrk

CONNECTIONS = 64
ATTACH_S = 1.0  # a release build takes a tenth of it
NAME = f"audit, nginx under wrk, {CONNECTIONS} connections"


@dataclass
class Way:
    """A way to count, with what it leaves of nginx's rate and what a request takes then."""

    name: str
    options: list[str]
    rate: Bar
    spent: Bar

    @classmethod
    def of(cls, name: str, options: list[str], rate: Limit = NO_LIMIT,
           spent: Limit = NO_LIMIT) -> Way:
        title = f"{NAME}, {name}" if name else NAME
        bars = [Bar(f"{title}: {what}", unit, limit, peer_name="not counted")
                for what, unit, limit in (("requests/s", "", rate), ("CPU per request", "us", spent))]
        return cls(name, options, *bars)


def overhead(context: Context) -> list[Bar]:
    """Requests per second and CPU per request, with nobody watching and with the counter in the
    kernel, as it counts and as it tells of each call too; then traced, as by strace, which stands
    beside for the comparison that it is held against."""
    nginx = Nginx(context.directory)
    ways = [
        Way.of("", ["--counter", "ebpf"], Limit("ratio", low=0.85), at_most_times(1.15)),
        Way.of("--phases", ["--counter", "ebpf", "--phases"]),
        Way.of("--timeline", ["--counter", "ebpf", "--timeline"]),
    ]
    traced = Way.of("--counter ptrace", ["--counter", "ptrace"])
    beside = Bar(f"{NAME}, strace -c: requests/s", "", NO_LIMIT, peer_name="strace")

    def sample() -> tuple[int, float, float, str]:
        """Requests, how many in a second, the CPU of each in microseconds; by which command."""
        before = cpu_s(nginx.pid)
        wrk = Wrk(context.directory, nginx.url("/tiny"), CONNECTIONS, context.seconds)
        requests = wrk.requests()
        us = (cpu_s(nginx.pid) - before) * 1e6 / requests
        return requests, requests / max(1, round(context.seconds)), us, wrk.process.line

    def alone() -> None:
        _, rate, us, line = sample()
        for way in [*ways, traced]:
            way.rate.with_commands(line).peer.append(rate)
            way.spent.with_commands(line).peer.append(us)

    def counted(way: Way) -> None:
        audit = attach([str(context.binaries / "fulmar"), "audit", "--json", *way.options,
                        "--pid", str(nginx.pid)])
        requests, rate, us, _ = sample()
        for bar, value in ((way.rate, rate), (way.spent, us)):
            bar.with_commands(audit.line).fulmar.append(value)
        check(way, json.loads(audit.stop(signal.SIGINT)), requests, audit.line)

    def straced() -> None:
        strace = attach(["strace", "-f", "-c", "-p", str(nginx.pid)])
        beside.with_commands(strace.line).peer.append(sample()[1])
        strace.stop(signal.SIGINT)

    def attach(command: list[str]) -> Process:
        process = Process(command, CLIENT_CORE, context.directory)
        time.sleep(ATTACH_S)
        if process.child.poll() is not None:
            raise Failed(f"ended early: {process.line}\n{process.errors()}")
        return process

    interleave(context.rounds, alone, *(partial(counted, way) for way in ways))
    counted(traced)
    straced()
    nginx.stop()
    return [bar for way in [*ways, traced] for bar in (way.rate, way.spent)] + [beside]


def check(way: Way, report: dict, requests: int, line: str) -> None:
    """All calls were counted. Whoever reads of each call shares a core with wrk, and may be too
    late for some: then these have no phase, which is noted."""
    lost = report["lost"]
    if report["calls"]["recvfrom"]["calls"] < requests or (lost and report["phases"] is None):
        raise Failed(f"not all was counted: {line}")
    if lost:
        way.rate.note = f"{lost:,} of {report['all']['calls']:,} calls have no phase"


SCENARIOS = {"audit-nginx-64": ("what the counter costs nginx under wrk", overhead)}
