"""A program with fulmar inside beside one with libmicrohttpd, nginx and h2o: the same answers, from
the same files, with the same certificate, to the same clients."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from .bars import NO_LIMIT, Bar, Limit, at_most, at_most_times
from .context import Context, interleave
from .handshakes import Handshakes
from .idle import collected
from .machine import CLIENT_CORE
from .processes import Process, cpu_s
from .programs import Calls, Server, Wrk, ledger, strace_total
from .serve import DEPTH, pipelining
from .servers import FULMAR, H2O, LIBMICROHTTPD, NGINX, PEERS, Servers

EAGAIN_MAX = 0.01
OFTEN = (2_000, 8_000)
SELDOM = (100, 400)
RARELY = (20, 80)
TRACED_S = 2.0
LAST = ("nice", "-n", "19")
ROUNDS_MAX = 3
LOAD_TIMEOUT_S = 120.0  # under callgrind


@dataclass(frozen=True)
class Case:
    """The same request to every server, and what is held against it."""

    name: str
    target: str
    connections: int = 64
    peers: tuple[str, ...] = PEERS
    against: str | None = None  # the peer whose CPU counts; the best of them, if none is named
    cpu: Limit = NO_LIMIT
    calls: Limit = NO_LIMIT
    tls: str = ""  # the kind of its key
    per: str = "request"
    headers: tuple[str, ...] = ()
    depth: int = 1  # requests at a time on each connection
    handshakes: bool = False
    deferred: bool = False  # connections are told when their first bytes are there
    saturating: int = 0  # connections that saturate, if not as many
    instructed: tuple[int, int] = OFTEN  # requests under callgrind


class Bench:
    """One case: its servers, its load, its bars."""

    def __init__(self, case: Case, context: Context) -> None:
        self._case, self._context = case, context
        self._servers = Servers(context, case.tls, deferred=case.deferred)
        self._script = pipelining(context.directory) if case.depth > 1 else None

    def run(self) -> list[Bar]:
        """CPU per request; calls per request, timed and saturated; EAGAIN; instructions."""
        self._servers.verify((FULMAR, *self._case.peers), self._case.target)
        return [*self._timed(), *self._saturated(), *self._instructions()]

    def _bar(self, what: str, unit: str = "", limit: Limit = NO_LIMIT) -> Bar:
        return Bar(f"server, {self._case.name}{what} per {self._case.per}", unit, limit)

    def _load(self, server: Server, seconds: float, threads: int = 1) -> Wrk | Handshakes:
        """With two threads it saturates."""
        case, directory = self._case, self._context.directory
        if case.handshakes:
            return Handshakes(directory, server, case.target, seconds, threads)
        connections = case.saturating if threads > 1 and case.saturating else case.connections
        return Wrk(directory, server.url(case.target), connections, seconds,
                   headers=case.headers, script=self._script, threads=threads)

    def _timed(self) -> list[Bar]:
        """Under a load on another core, in turn."""
        cpu, calls = self._bar(": CPU", "us", self._case.cpu), self._bar(", as timed: system calls")
        running = {name: self._servers.start(name) for name in (*self._case.peers, FULMAR)}
        samples: dict[str, list[float]] = {name: [] for name in self._case.peers}

        def sample(name: str, us: list[float]) -> None:
            server = running[name]
            spent = cpu_s(server.pid)
            load = self._load(server, self._context.seconds)
            requests = load.requests()
            us.append((cpu_s(server.pid) - spent) * 1e6 / requests)
            cpu.with_commands(server.process.line, load.process.line)

        def sample_ours() -> None:
            before = ledger(running[FULMAR])
            sample(FULMAR, cpu.fulmar)
            made = Calls.between(before, ledger(running[FULMAR]))
            calls.fulmar.append(made.total)
            calls.note = str(made)

        interleave(self._context.rounds, sample_ours,
                   *(partial(sample, name, samples[name]) for name in self._case.peers))
        for server in running.values():
            server.stop()
        return [cpu.against(samples, self._case.against), calls.with_commands(cpu.commands[-1])]

    def _saturated(self) -> list[Bar]:
        """Under more load than a server can take, as clients go first on the core that they share:
        ours counts for itself, peers are traced, which slows them, in runs of their own."""
        calls = self._bar(", saturated: system calls", limit=self._case.calls)
        eagain = self._bar(", saturated: EAGAIN", limit=at_most(EAGAIN_MAX))
        server = self._servers.start(FULMAR, LAST)
        for _ in range(min(self._context.rounds, ROUNDS_MAX)):
            before = ledger(server)
            load = self._load(server, self._context.seconds, threads=2)
            load.requests()
            made = Calls.between(before, ledger(server))
            calls.fulmar.append(made.total)
            eagain.fulmar.append(made.eagain)
            calls.note = str(made)
            calls.with_commands(server.process.line, load.process.line)
        server.stop()
        calls.against({f"{name} (strace)": [self._traced(name, calls)]
                       for name in self._case.peers})
        return [calls, eagain.with_commands(*calls.commands)]

    def _traced(self, name: str, calls: Bar) -> float:
        server = self._servers.start(name)
        tracer = server.trace()
        requests = self._load(server, min(TRACED_S, self._context.seconds), threads=2).requests()
        tracer.stop(signal.SIGINT)
        calls.with_commands(tracer.line)
        server.stop()
        return strace_total(tracer.errors()) / requests

    def _instructions(self) -> list[Bar]:
        """Ours, of the user's side, as the difference of two run lengths."""
        if self._case.handshakes:
            return []  # they are the cryptographic library's
        bar, counts = self._bar(": instructions"), []
        for requests in self._case.instructed:
            out = self._context.directory / f"callgrind-{requests}"
            server = self._servers.start(FULMAR, ("valgrind", "--tool=callgrind",
                                                  f"--callgrind-out-file={out}"))
            load = self._counted(server, requests)
            load.wait(LOAD_TIMEOUT_S)
            server.stop()
            counts.append(collected(out))
            bar.with_commands(server.process.line, load.line)
        less, more = self._case.instructed
        bar.fulmar.append((counts[1] - counts[0]) / (more - less))
        return [bar]

    def _counted(self, server: Server, requests: int) -> Process:
        """Exactly so many requests."""
        case = self._case
        command = ["h2load", "--h1", "-n", str(requests), "-c", str(case.connections)]
        command += ["-m", str(case.depth)]
        command += [word for header in case.headers for word in ("-H", header)]
        return Process([*command, server.url(case.target)], CLIENT_CORE, self._context.directory)


def scenario(what: str, *cases: Case) -> tuple[str, Callable[[Context], list[Bar]]]:
    """Cases that belong together."""
    return what, lambda context: [bar for case in cases for bar in Bench(case, context).run()]


SHORT = Case(
    "short connections", "/tiny", peers=(LIBMICROHTTPD, NGINX), cpu=at_most_times(0.85),
    calls=at_most(6.0), per="connection", headers=("Connection: close",), saturating=256)

SCENARIOS = {
    "server-tiny-64": scenario("128 B from memory", Case(
        "128 B, 64 connections", "/tiny", cpu=at_most_times(0.93), calls=at_most(2.1))),
    "server-tiny-1000": scenario("128 B from memory", Case(
        "128 B, 1,000 connections", "/tiny", 1000, cpu=at_most_times(0.93), calls=at_most(2.1))),
    "server-pipelined": scenario("16 requests at a time", Case(
        f"{DEPTH} requests pipelined", "/tiny", cpu=at_most_times(0.125), calls=at_most(0.2),
        depth=DEPTH)),
    "server-continuous": scenario("10 pieces of one byte", Case(
        "10 pieces of one byte", "/continuous", peers=(LIBMICROHTTPD,), calls=at_most(3.0))),
    "server-modest": scenario("64 KB from memory", Case(
        "64 KB", "/modest", calls=at_most(2.1))),
    "server-file-104k": scenario("a file", Case("104 KB file", "/104k", calls=at_most(3.1))),
    "server-short": scenario("a connection for every request", SHORT, replace(
        SHORT, name="short connections, TCP_DEFER_ACCEPT", peers=PEERS, deferred=True,
        calls=NO_LIMIT)),
    "server-tls-tiny": scenario("128 B over TLS", Case(
        "TLS, 128 B", "/tiny", against=NGINX, cpu=at_most_times(0.85), calls=at_most(2.1),
        tls="P-256")),
    "server-tls-104k": scenario("a file over TLS", Case(
        "TLS, 104 KB file", "/104k", against=H2O, cpu=at_most_times(1.0), calls=at_most(8.0),
        tls="P-256", instructed=SELDOM)),
    "server-tls-1m": scenario("a long file over TLS", Case(
        "TLS, 1 MB file", "/1m", 16, against=NGINX, cpu=at_most_times(0.5), tls="P-256",
        instructed=RARELY)),
    "server-handshake-p256": scenario("a handshake for every request", Case(
        "TLS handshake with P-256", "/tiny", against=NGINX, cpu=at_most_times(0.65),
        tls="P-256", per="connection", handshakes=True)),
    "server-handshake-rsa": scenario("a handshake for every request", Case(
        "TLS handshake with RSA-2048", "/tiny", against=NGINX, cpu=at_most_times(0.85),
        tls="RSA-2048", per="connection", handshakes=True)),
}
