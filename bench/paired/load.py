"""`fulmar load` beside wrk, both against nginx."""

from __future__ import annotations

import signal
import time
from functools import partial

from .bars import NO_LIMIT, Bar, Limit, at_most, at_most_times
from .context import Context, interleave
from .machine import BOTH_CORES, CLIENT_CORE
from .processes import Failed, Process, cpu_s, rss_bytes, until
from .programs import Load, Nginx, Wrk, strace_total, wrk_requests

FOREVER = 600  # seconds; both are interrupted when the interval is over
SETTLE_S = 0.5
ENOUGH = 200_000  # requests
OPEN_TIMEOUT_S = 60.0
MB = 1e6


def cpu(connections: int, limit: float, context: Context) -> list[Bar]:
    """CPU per request in an interval in which every connection stands, RSS at its end."""
    name = f"load, {connections:,} connections"
    time_bar = Bar(f"{name}: CPU per request", "us", at_most_times(limit), peer_name="wrk")
    rss_limit = at_most(40.0) if connections == 8000 else NO_LIMIT
    rss_bar = Bar(f"{name}: RSS", "MB", rss_limit, peer_name="wrk")
    nginx: list[Nginx] = []

    def sample(start, us: list[float], rss: list[float]) -> None:
        nginx.append(Nginx(context.directory))
        process: Process = start(nginx[-1].url("/tiny")).process
        per_request, resident = interval(nginx[-1], process, connections, context.seconds)
        us.append(per_request)
        rss.append(resident / MB)
        process.stop(signal.SIGINT)
        time_bar.with_commands(process.line)
        nginx.pop().stop()

    def wrk(url: str) -> Wrk:
        return Wrk(context.directory, url, connections, FOREVER)

    def load(url: str) -> Load:
        return Load(context.binaries, context.directory, url, "-c", str(connections),
                    "-d", str(FOREVER))

    interleave(context.rounds, partial(sample, wrk, time_bar.peer, rss_bar.peer),
               partial(sample, load, time_bar.fulmar, rss_bar.fulmar))
    rss_bar.with_commands(*time_bar.commands)
    bars = [time_bar, rss_bar]
    return bars + [rss_growth(context)] if connections == 8000 else bars


def interval(nginx: Nginx, process: Process, connections: int,
             seconds: float) -> tuple[float, int]:
    """CPU us per request, requests as nginx counts them, and RSS at the end."""
    until(lambda: nginx.status()[0] >= connections, process, OPEN_TIMEOUT_S)
    time.sleep(SETTLE_S)
    requests, spent = nginx.status()[1], cpu_s(process.pid)
    time.sleep(seconds)
    requests, spent = nginx.status()[1] - requests, cpu_s(process.pid) - spent
    return spent * 1e6 / max(requests, 1), rss_bytes(process.pid)


def rss_growth(context: Context) -> Bar:
    """RSS after four times the requests, by RSS after them: nothing may be kept of a request. The
    first run is long enough that every connection has been used often, and the histogram too."""
    bar = Bar("load, 8,000 connections: RSS after 4 times the requests, by RSS after them", "x",
              at_most(1.05))
    for _ in range(min(context.rounds, 3)):
        rss = []
        for count in (ENOUGH, 4 * ENOUGH):
            nginx = Nginx(context.directory)
            load = Load(context.binaries, context.directory, nginx.url("/tiny"), "-c", "8000",
                        "-n", str(count))
            rss.append(load.report(OPEN_TIMEOUT_S + count / 5_000)["rss_bytes"])
            nginx.stop()
            bar.with_commands(load.process.line)
        bar.fulmar.append(rss[1] / rss[0])
    return bar


def calls(context: Context) -> list[Bar]:
    """All system calls per request while the generator is what limits: two nginx workers have
    both cores, the generator has one."""
    bar = Bar("load, 64 connections, saturated: system calls per request", "", at_most(2.1),
              peer_name="wrk (strace)")
    share = Bar("load, 64 connections, saturated: CPU share of the load thread", "", NO_LIMIT)
    nginx = Nginx(context.directory, workers=2, cores=BOTH_CORES)
    url = nginx.url("/tiny")
    limits = set()

    def load() -> None:
        side = Load(context.binaries, context.directory, url, "-c", "64", "-d",
                    f"{context.seconds:g}")
        report = side.report(context.seconds + 30)
        bar.fulmar.append(report["steady"]["syscalls_per_request"])
        share.fulmar.append(report["cpu_share"])
        limits.add(report["limited_by"])
        bar.with_commands(side.process.line)

    interleave(context.rounds, load)
    bar.note = f"limited by {', '.join(sorted(limits))}"
    traced = Process(["strace", "-c", "-f", "wrk", "-t1", "-c64", "-d2s", url], CLIENT_CORE,
                     context.directory)
    text = traced.wait(60)
    bar.peer.append(strace_total(traced.errors()) / wrk_requests(text))
    bar.with_commands(traced.line)
    nginx.stop()
    return [bar, share.with_commands(*bar.commands)]


def stall(context: Context) -> list[Bar]:
    """nginx stands still for one second of ten: an open loop must say so."""
    name = "load -R 2000, the server stopped for 1 s of 10"
    bar = Bar(f"{name}: p99", "ms", Limit("value", low=850, high=950))
    raw = Bar(f"{name}: p99 from the send", "ms", NO_LIMIT)
    for _ in range(min(context.rounds, 3)):
        nginx = Nginx(context.directory)
        load = Load(context.binaries, context.directory, nginx.url("/tiny"), "-c", "64", "-R",
                    "2000", "-d", "10")
        time.sleep(4.5)
        nginx.pause(1.0)
        report = load.report(60)
        nginx.stop()
        if report["errors"]:
            raise Failed(f"errors in the stall: {report['errors']}")
        bar.fulmar.append(report["latency_us"]["p99"] / 1000)
        raw.fulmar.append(report["raw_latency_us"]["p99"] / 1000)
        bar.with_commands(load.process.line, "kill -STOP WORKER; sleep 1; kill -CONT WORKER")
    return [bar, raw.with_commands(*bar.commands)]


SCENARIOS = {
    "load-nginx-64": ("CPU per request beside wrk", partial(cpu, 64, 1.05)),
    "load-nginx-1000": ("CPU per request beside wrk", partial(cpu, 1000, 1.0)),
    "load-nginx-8000": ("CPU per request beside wrk, RSS", partial(cpu, 8000, 0.9)),
    "load-calls-64": ("system calls per request, load saturated", calls),
    "load-stall": ("p99 of an open loop over a stall", stall),
}
