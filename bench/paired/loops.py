"""Executors and polling before sleeping: fulmar beside itself, and the pair of load and serve beside
wrk and nginx."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from functools import partial

from .bars import NO_LIMIT, Bar, Limit, at_most, at_most_times
from .context import Context, interleave
from .machine import BOTH_CORES, CLIENT_CORE, SERVER_CORE
from .processes import LAST, Failed, Process, cpu_s
from .programs import Calls, Nginx, Server, Wrk, ledger

DIRECT, RING = "epoll", "ring"
IDLE_S = 3.0
SETTLE_S = 1.0
PLACES = {
    "own cores": (SERVER_CORE, CLIENT_CORE),
    "one core": (SERVER_CORE, SERVER_CORE),
    "unpinned": (BOTH_CORES, BOTH_CORES),
}


class Serve(Server):
    """`fulmar serve` with flags about its loop; `last`: after everyone else."""

    def __init__(self, context: Context, *flags: str, cores: str = SERVER_CORE,
                 last: bool = False) -> None:
        command = [*(LAST if last else ()), str(context.binaries / "fulmar"), "serve", "--test-endpoints",
                   "--drain-timeout", "1s", "--listen", "127.0.0.1:0", *flags,
                   str(context.directory / "site")]
        self.process = Process(command, cores, context.directory)
        greeting = self.process.first_line()
        port = re.search(r":(\d+)/", greeting)
        if port is None:
            raise Failed(f"no port in {greeting!r}")
        self.port, self.pid = int(port.group(1)), self.process.pid


def load(context: Context, url: str, cores: str, *flags: str,
         last: bool = False) -> tuple[dict, str]:
    """The report of `fulmar load` over one interval, and its command line."""
    command = [*(LAST if last else ()), str(context.binaries / "fulmar"), "load", "--json", "-d", f"{context.seconds:g}",
               *flags, url]
    process = Process(command, cores, context.directory)
    text = process.wait(context.seconds + 60)
    try:
        report = json.loads(text)
    except json.JSONDecodeError:
        raise Failed(f"no report: {process.line}\n{process.errors()}") from None
    if report["errors"]:
        raise Failed(f"errors: {report['errors']}: {process.line}")
    return report, process.line


class Kept:
    """Requests on connections that stay, from wrk. For the calls a generator with two threads asks,
    which is more than the server can take."""

    unit = "request"
    last = False

    def __init__(self, connections: int) -> None:
        self.name = f"{connections:,} connections"
        self._connections = connections

    def ask(self, context: Context, server: Serve) -> str:
        """As much as one core of clients asks for; the command line."""
        wrk = Wrk(context.directory, server.url("/bytes/128"), self._connections, context.seconds)
        wrk.requests()
        return wrk.process.line

    def saturate(self, context: Context, server: Serve) -> tuple[Calls, str]:
        """What the server calls while all connections stand."""
        command = [str(context.binaries / "fulmar"), "load", "-t", "2", "-c",
                   str(self._connections), "-d", f"{context.seconds + 2 * SETTLE_S:g}",
                   server.url("/bytes/128")]
        generator = Process(command, BOTH_CORES, context.directory)
        time.sleep(SETTLE_S)
        before = ledger(server)
        time.sleep(context.seconds)
        made = Calls.between(before, ledger(server))
        generator.wait(60)
        return made, generator.line


class Closed:
    """A connection for each request: accepts are in the ring, too. For the calls the server comes
    after the generator, which opens no more than it can take."""

    unit = "connection"
    last = True

    def __init__(self, clients: int) -> None:
        self.name = f"{clients:,} clients that connect for each request"
        self._flags = ("--reconnect", "-c", str(clients))

    def ask(self, context: Context, server: Serve) -> str:
        """As `Kept.ask`."""
        return load(context, server.url("/bytes/128"), CLIENT_CORE, *self._flags)[1]

    def saturate(self, context: Context, server: Serve) -> tuple[Calls, str]:
        """What the server calls, opening included."""
        before = ledger(server)
        _, line = load(context, server.url("/bytes/128"), BOTH_CORES, "-t", "2", *self._flags)
        return Calls.between(before, ledger(server)), line


def serve_ring(asked: Kept | Closed, calls_max: float, context: Context) -> list[Bar]:
    """CPU of the two executors with the clients on another core, and calls where there is more to do
    than the server can take."""
    name = f"serve over a ring, 128 B, {asked.name}"
    bar = Bar(f"{name}: CPU per {asked.unit}", "us", at_most_times(1.02), peer_name="direct calls")
    calls = Bar(f"{name}, saturated: system calls per {asked.unit}", "", at_most(calls_max),
                peer_name="direct calls")

    def timed(server: Serve, us: list[float]) -> None:
        before, spent = ledger(server), cpu_s(server.pid)
        line = asked.ask(context, server)
        spent = cpu_s(server.pid) - spent
        # Asking for the ledger is a request, too.
        us.append(spent * 1e6 / (ledger(server)["requests"] - before["requests"] - 1))
        bar.with_commands(server.process.line, line)

    def counted(server: Serve, found: list[float]) -> None:
        made, line = asked.saturate(context, server)
        found.append(made.total)
        calls.note = str(made)
        calls.with_commands(server.process.line, line)

    def both(rounds: int, of: Callable[[Serve, list[float]], None], told: Bar, *,
             last: bool) -> None:
        direct = Serve(context, "--driver", DIRECT, last=last)
        ring = Serve(context, "--driver", RING, last=last)
        interleave(rounds, partial(of, direct, told.peer), partial(of, ring, told.fulmar))
        direct.process.stop()
        ring.process.stop()

    both(context.rounds, timed, bar, last=False)
    both(min(context.rounds, 3), counted, calls, last=asked.last)
    return [bar, calls]


def load_ring(connections: int, calls_max: float, context: Context) -> list[Bar]:
    """The same of the generator: two workers of nginx have both cores, the generator one. For the
    calls it shares its core with one worker and comes after it: whenever it runs, everybody has been
    answered, so that it is what limits."""
    name = f"load over a ring, {connections:,} connections, saturated"
    bar = Bar(f"{name}: CPU per request", "us", at_most_times(1.02), peer_name="direct calls")
    calls = Bar(f"{name}: system calls per request", "", at_most(calls_max),
                peer_name="direct calls")
    nginx = Nginx(context.directory, workers=2, cores=BOTH_CORES)

    def report(driver: str, server: Nginx, told: Bar, last: bool) -> dict:
        report, line = load(context, server.url("/tiny"), CLIENT_CORE, "-c", str(connections),
                            "--driver", driver, "--spin", "off", last=last)
        told.with_commands(line)
        return report

    def timed(driver: str, us: list[float]) -> None:
        us.append(report(driver, nginx, bar, last=False)["cpu_us_per_request"])

    def counted(driver: str, found: list[float]) -> None:
        found.append(report(driver, first, calls, last=True)["steady"]["syscalls_per_request"])

    interleave(context.rounds, partial(timed, DIRECT, bar.peer), partial(timed, RING, bar.fulmar))
    nginx.stop()
    first = Nginx(context.directory, cores=CLIENT_CORE)
    interleave(min(context.rounds, 3), partial(counted, DIRECT, calls.peer),
               partial(counted, RING, calls.fulmar))
    first.stop()
    return [bar, calls]


def spin_one(context: Context) -> list[Bar]:
    """One connection that asks and waits, both ends polling or both sleeping."""
    bars = []
    for place, (server, client) in PLACES.items():
        own = place == "own cores"
        rate_limit = {"own cores": Limit("ratio", low=4.0), "one core": Limit("ratio", low=0.97)}
        rate = Bar(f"one connection, {place}, --spin auto: requests per second", "",
                   rate_limit.get(place, NO_LIMIT), peer_name="--spin off")
        p50 = Bar(f"one connection, {place}, --spin auto: p50", "us",
                  at_most_times(0.25) if own else NO_LIMIT, peer_name="--spin off")

        def sample(spin: str, rates: list[float], times: list[float], server: str = server,
                   client: str = client, rate: Bar = rate, p50: Bar = p50) -> None:
            serve = Serve(context, "--spin", spin, cores=server)
            report, line = load(context, serve.url("/bytes/128"), client, "-c", "1", "--spin",
                                spin)
            rates.append(report["rps"])
            times.append(report["latency_us"]["p50"])
            lines = [re.sub(r":\d+/", ":PORT/", text) for text in (serve.process.line, line)]
            rate.with_commands(*lines)
            p50.with_commands(*lines)
            serve.process.stop()

        interleave(context.rounds, partial(sample, "off", rate.peer, p50.peer),
                   partial(sample, "auto", rate.fulmar, p50.fulmar))
        bars += [rate, p50]
    return bars


def spin_idle(context: Context) -> list[Bar]:
    """What polling takes of a core where there is little to do, or nothing. Requests that come at
    short intervals are the worst case: each is a reason to poll, and most polls are in vain."""
    bars = []
    for rate in (0, 100, 2_000, 5_000):
        name = f"{rate:,} requests/s" if rate else "nothing to do"
        limit = at_most(5.0) if rate == 0 else NO_LIMIT
        bar = Bar(f"serve --spin auto, {name}: share of a core", "%", limit,
                  peer_name="--spin off")

        def sample(spin: str, shares: list[float], rate: int = rate, bar: Bar = bar) -> None:
            serve = Serve(context, "--spin", spin)
            load(context, serve.url("/bytes/128"), CLIENT_CORE, "-c", "1")
            spent, began = cpu_s(serve.pid), time.monotonic()
            if rate:
                load(context, serve.url("/bytes/128"), CLIENT_CORE, "-c", "1", "-R", str(rate))
            else:
                time.sleep(IDLE_S)
            shares.append((cpu_s(serve.pid) - spent) / (time.monotonic() - began) * 100)
            bar.with_commands(serve.process.line)
            serve.process.stop()

        interleave(min(context.rounds, 3), partial(sample, "off", bar.peer),
                   partial(sample, "auto", bar.fulmar))
        bars.append(bar)
    return bars


def pair(connections: int, context: Context) -> list[Bar]:
    """Both ends are fulmar, or neither: each end has a core. nginx's master does nothing."""
    name = f"load and serve, 128 B, {connections} connections"
    rate = Bar(f"{name}: requests per second", "", Limit("ratio", low=1.25),
               peer_name="wrk and nginx")
    total = Bar(f"{name}: CPU of both ends per request", "us", at_most_times(0.85),
                peer_name="wrk and nginx")

    def sample(server: Server, run: Callable[[], tuple[int, float, str]], rates: list[float],
               us: list[float]) -> None:
        spent = cpu_s(server.pid)
        requests, client_s, line = run()
        spent = cpu_s(server.pid) - spent + client_s
        rates.append(requests / context.seconds)
        us.append(spent * 1e6 / requests)
        for bar in (rate, total):
            bar.with_commands(server.process.line, line)

    def ours(serve: Serve) -> tuple[int, float, str]:
        report, line = load(context, serve.url("/bytes/128"), CLIENT_CORE, "-c", str(connections))
        requests = report["requests"]
        return requests, report["cpu_us_per_request"] * requests / 1e6, line

    def theirs(nginx: Nginx) -> tuple[int, float, str]:
        wrk = Wrk(context.directory, nginx.url("/tiny"), connections, context.seconds)
        spent = 0.0
        while wrk.process.child.poll() is None:  # what it has spent is gone with it
            try:
                spent = cpu_s(wrk.process.pid)
            except (OSError, IndexError):
                break
            time.sleep(0.005)
        return wrk.requests(), spent, wrk.process.line

    serve, nginx = Serve(context), Nginx(context.directory)
    interleave(context.rounds,
               lambda: sample(nginx, partial(theirs, nginx), rate.peer, total.peer),
               lambda: sample(serve, partial(ours, serve), rate.fulmar, total.fulmar))
    serve.process.stop(signal.SIGTERM)
    nginx.stop()
    return [rate, total]


SCENARIOS = {
    "ring-serve-64": ("serve over a ring beside direct calls", partial(serve_ring, Kept(64), 0.3)),
    "ring-serve-1000": ("serve over a ring beside direct calls", partial(serve_ring, Kept(1000), 0.1)),
    "ring-serve-close-64": ("a connection for every request, over a ring beside direct calls",
                            partial(serve_ring, Closed(64), 0.5)),
    "ring-serve-close-1000": ("a connection for every request, over a ring beside direct calls",
                              partial(serve_ring, Closed(1000), 0.5)),
    "ring-load-64": ("load over a ring beside direct calls", partial(load_ring, 64, 0.3)),
    "ring-load-1000": ("load over a ring beside direct calls", partial(load_ring, 1000, 0.1)),
    "spin-one": ("one connection, polling beside sleeping, in three placements", spin_one),
    "spin-idle": ("what polling takes where there is little to do", spin_idle),
    "pair-64": ("load and serve beside wrk and nginx", partial(pair, 64)),
}
