"""`fulmar proxy` beside HAProxy and nginx: the same clients, the same origin, the same core."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from .bars import NO_LIMIT, Bar, Limit, at_least, at_most, at_most_times
from .context import Context, interleave
from .machine import CLIENT_CORE
from .processes import LAST, Process, cpu_s, peak_bytes, reset_peak, rss_bytes
from .programs import FILE_1M, Wrk, strace_calls, strace_total
from .proxies import FULMAR, HAPROXY, NGINX, PEERS, Proxies, Proxy
from .serve import ask_once

TRACED_S = 2.0
ROUNDS_MAX = 3
CLOSING = ("Connection: close",)
IDLE = 8_000
SETTLE_S = 0.5
BACK_WITHIN_S = 10.0


@dataclass(frozen=True)
class Case:
    """The same requests through every proxy, and what is held against them."""

    name: str
    frontend: str
    connections: int = 64
    target: str = "/tiny"
    length: int = 128
    headers: tuple[str, ...] = ()
    peers: tuple[str, ...] = PEERS
    against: str | None = None  # the peer whose CPU counts; the best, if none is named
    cpu: Limit = NO_LIMIT
    calls: Limit = NO_LIMIT
    counted: bool = True  # system calls are of interest
    per: str = "request"


class Bench:
    """One case: an origin, proxies, a load, bars."""

    def __init__(self, case: Case, context: Context) -> None:
        self._case, self._context = case, context
        self._proxies = Proxies(context)

    def run(self) -> list[Bar]:
        """CPU per request, and calls per request."""
        case = self._case
        self._proxies.verify((FULMAR, *case.peers), case.frontend, case.target, case.length)
        bars = self._timed()
        if case.counted:
            bars += self._saturated()
        self._proxies.origin.stop()
        return bars

    def _bar(self, what: str, unit: str = "", limit: Limit = NO_LIMIT) -> Bar:
        return Bar(f"proxy, {self._case.name}{what} per {self._case.per}", unit, limit)

    def _load(self, proxy: Proxy, seconds: float, threads: int = 1) -> Wrk:
        case = self._case
        return Wrk(self._context.directory, proxy.at(case.frontend).url(case.target),
                   case.connections, seconds, headers=case.headers, threads=threads)

    def _timed(self) -> list[Bar]:
        """Under a load on another core, in turn."""
        case = self._case
        cpu = self._bar(": CPU", "us", case.cpu)
        running = {name: self._proxies.start(name) for name in (*case.peers, FULMAR)}
        samples: dict[str, list[float]] = {name: [] for name in (*case.peers, FULMAR)}

        def sample(name: str) -> None:
            proxy = running[name]
            spent = cpu_s(proxy.pid)
            load = self._load(proxy, self._context.seconds)
            requests = load.requests()
            samples[name].append((cpu_s(proxy.pid) - spent) * 1e6 / requests)
            cpu.with_commands(proxy.process.line, load.process.line)

        interleave(self._context.rounds, *(partial(sample, name) for name in samples))
        for proxy in running.values():
            proxy.stop()
        cpu.fulmar = samples.pop(FULMAR)
        return [cpu.against(samples, case.against)]

    def _saturated(self) -> list[Bar]:
        """Under more load than a proxy can take: ours counts for itself, peers are traced, which
        slows them, in runs of their own."""
        calls = self._bar(", saturated: system calls", limit=self._case.calls)
        eagain = self._bar(", saturated: EAGAIN")
        proxy = self._proxies.start(FULMAR, LAST)
        for _ in range(min(self._context.rounds, ROUNDS_MAX)):
            before = proxy.calls()
            load = self._load(proxy, self._context.seconds, threads=2)
            requests = load.requests()
            counts = {name: count - before.get(name, 0) for name, count in proxy.calls().items()}
            if self._counts_connections():
                requests = counts["accept4"] - counts.get("EAGAIN accept4", 0)
            made = {name: count / requests for name, count in counts.items()}
            waste = {name: share for name, share in made.items() if name.startswith("EAGAIN")}
            calls.fulmar.append(sum(made.values()) - sum(waste.values()))
            eagain.fulmar.append(sum(waste.values()))
            shares = sorted(made.items(), key=lambda part: -part[1])
            calls.note = ", ".join(f"{name} {share:.3f}" for name, share in shares
                                   if share >= 0.0005 and name not in waste)
            calls.with_commands(proxy.process.line, load.process.line)
        proxy.stop()
        calls.against({f"{name} (strace)": [self._traced(name, calls)]
                       for name in self._case.peers})
        return [calls, eagain.with_commands(*calls.commands)]

    def _traced(self, name: str, calls: Bar) -> float:
        proxy = self._proxies.start(name, LAST)
        tracer = proxy.trace()
        requests = self._load(proxy, min(TRACED_S, self._context.seconds), threads=2).requests()
        tracer.stop(signal.SIGINT)
        calls.with_commands(tracer.line)
        proxy.stop()
        table = tracer.errors()
        if self._counts_connections():
            requests = strace_calls(table, "accept4")
        return strace_total(table) / requests

    def _counts_connections(self) -> bool:
        """True if calls are shared among the connections that a proxy has accepted: wrk does not
        count those that it leaves open, which have cost calls too."""
        return self._case.per == "connection"


def latency(context: Context) -> list[Bar]:
    """One client, closed loop: the median of a request through the proxy."""
    bar = Bar("proxy, 128 B, one client: median latency", "us", at_most_times(1.0))
    proxies = Proxies(context)
    running = {name: proxies.start(name).at("http") for name in (*PEERS, FULMAR)}
    samples: dict[str, list[float]] = {name: [] for name in running}

    def sample(name: str) -> None:
        url = running[name].url("/tiny")
        command = ["wrk", "-t1", "-c1", f"-d{max(1, round(context.seconds))}s", "--latency", url]
        wrk = Process(command, CLIENT_CORE, context.directory)
        text = wrk.wait(context.seconds + 60)
        value, unit = re.search(r"50%\s+([\d.]+)(us|ms)", text).groups()
        samples[name].append(float(value) * (1000 if unit == "ms" else 1))
        bar.with_commands(running[name].process.line, wrk.line)

    interleave(context.rounds, *(partial(sample, name) for name in samples))
    bar.fulmar = samples.pop(FULMAR)
    return [bar.against(samples, HAPROXY)]


def idle(frontend: str, limit: float, context: Context) -> list[Bar]:
    """Clients that have had one request each, one after the other, and wait."""
    what = "idle HTTP clients" if frontend == "http" else "idle TCP tunnels"
    each = Bar(f"proxy, {IDLE:,} {what}: RSS each", "B", at_most(limit))
    all_in_all = Bar(f"proxy, {IDLE:,} {what}: RSS in all", "MB",
                     at_most(12) if frontend == "http" else NO_LIMIT)
    each.with_commands("one request on each, one after the other; all are kept open")
    proxies = Proxies(context)
    sizes: dict[str, list[float]] = {name: [] for name in (*PEERS, FULMAR)}
    totals: dict[str, list[float]] = {name: [] for name in (*PEERS, FULMAR)}

    def sample(name: str) -> None:
        proxy = proxies.start(name).at(frontend)
        ask_once(proxy, "/tiny").close()
        time.sleep(SETTLE_S)
        before = rss_bytes(proxy.pid)
        held: list[socket.socket] = [ask_once(proxy, "/tiny") for _ in range(IDLE)]
        time.sleep(SETTLE_S)
        after = rss_bytes(proxy.pid)
        sizes[name].append((after - before) / IDLE)
        totals[name].append(after / 1e6)
        for connection in held:
            connection.close()
        each.with_commands(proxy.process.line)
        proxy.stop()

    interleave(min(context.rounds, ROUNDS_MAX), *(partial(sample, name) for name in sizes))
    each.fulmar, all_in_all.fulmar = sizes.pop(FULMAR), totals.pop(FULMAR)
    return [each.against(sizes), all_in_all.against(totals).with_commands(*each.commands)]


def burst(context: Context) -> list[Bar]:
    """Clients that all ask at once, then leave: how much of what they took is given back."""
    bar = Bar(f"proxy, after a burst of {IDLE:,} clients: given back", "%", at_least(80))
    proxies = Proxies(context)
    samples: dict[str, list[float]] = {name: [] for name in (*PEERS, FULMAR)}

    def sample(name: str) -> None:
        proxy = proxies.start(name).at("http")
        ask_once(proxy, "/tiny").close()
        before = rss_bytes(proxy.pid)
        reset_peak(proxy.pid)
        command = ["h2load", "--h1", "-n", str(10 * IDLE), "-c", str(IDLE), proxy.url("/tiny")]
        load = Process(command, CLIENT_CORE, context.directory)
        load.wait(120.0)
        bar.with_commands(proxy.process.line, load.line)
        time.sleep(BACK_WITHIN_S)
        peak = peak_bytes(proxy.pid)
        samples[name].append(100 * (peak - rss_bytes(proxy.pid)) / max(peak - before, 1))
        proxy.stop()

    interleave(min(context.rounds, ROUNDS_MAX), *(partial(sample, name) for name in samples))
    bar.fulmar = samples.pop(FULMAR)
    best = max(samples, key=lambda name: sorted(samples[name])[len(samples[name]) // 2])
    return [bar.against(samples, best)]


def scenario(what: str, *cases: Case) -> tuple[str, Callable[[Context], list[Bar]]]:
    """Cases that belong together."""
    return what, lambda context: [bar for case in cases for bar in Bench(case, context).run()]


SCENARIOS = {
    "proxy-http-64": scenario("keep-alive on both sides", Case(
        "128 B, 64 clients", "http", cpu=at_most_times(0.92), calls=at_most(4.1))),
    "proxy-http-1000": scenario("keep-alive on both sides", Case(
        "128 B, 1,000 clients", "http", 1000, cpu=at_most_times(0.8))),
    "proxy-http-short": scenario("a connection of each client, servers' are kept", Case(
        "short clients", "http", headers=CLOSING, cpu=at_most_times(0.9), calls=at_most(7.0),
        per="connection")),
    "proxy-http-close": scenario("a connection on each side", Case(
        "close on both sides", "close", headers=CLOSING, calls=at_most(11.0), per="connection")),
    "proxy-tcp-short": scenario("bytes, a connection on each side", Case(
        "TCP, server closes first", "tcp", headers=CLOSING, cpu=at_most_times(0.95),
        calls=at_most(13.3), per="connection")),
    "proxy-1m": scenario("long bodies", Case(
        "1 MB bodies, copied by all", "copy", 16, "/1m", FILE_1M, cpu=at_most_times(0.8)), Case(
        "1 MB bodies, as each does by itself", "http", 16, "/1m", FILE_1M), Case(
        "1 MB bodies, HAProxy splices", "splice", 16, "/1m", FILE_1M, peers=(HAPROXY,),
        cpu=at_most_times(1.0))),
    "proxy-latency": ("one client", latency),
    "proxy-idle-http": ("memory of idle clients", partial(idle, "http", 400.0)),
    "proxy-idle-tcp": ("memory of idle tunnels", partial(idle, "tcp", 800.0)),
    "proxy-burst": ("memory given back after a burst", burst),
}
