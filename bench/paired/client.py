"""A client with many transfers beside libcurl, both against a server that sends each answer in one
call (`bench/peers/server.c`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

from .bars import NO_LIMIT, Bar, Limit, at_most, at_most_times
from .context import Context, interleave
from .idle import collected
from .machine import BOTH_CORES
from .processes import Failed
from .transfers import Answers, Clients, NginxTls, Transfers, make_certificate

WAITING = (4_500, 9_000, 18_000)
POOLED = 8_000
POOLED_TLS = 4_000  # nginx, which does the TLS, has as many connections once more behind it
ADDRESSES = ("127.0.0.1", "127.0.0.2")
INSTRUCTED = (2_000, 8_000)  # requests
OPEN_TIMEOUT_S = 180.0  # libcurl takes half a minute to open 18,000
ROUNDS_MAX = 3


@dataclass(frozen=True)
class Case:
    """The same requests by both sides, and what is held against them."""

    name: str
    target: str
    clients: int
    cpu: Limit
    best_cpu: Limit
    calls: Limit
    eagain: Limit = NO_LIMIT
    instructions: Limit | None = None


def measure(case: Case, context: Context) -> list[Bar]:
    """What a request costs while all clients have one; calls also under saturation."""
    clients = Clients(context.binaries, context.directory, context.scripts)
    name = f"client, {case.name}, {case.clients:,} transfers"
    cpu = Bar(f"{name}: CPU per request", "us", case.cpu, peer_name="libcurl")
    best = Bar(f"{name}: CPU per request, libcurl at its best", "us", case.best_cpu,
               peer_name="libcurl, descriptors kept in epoll")
    calls = Bar(f"{name}, as timed: system calls per request", "", NO_LIMIT, peer_name="libcurl")
    eagain = Bar(f"{name}: EAGAIN", "", case.eagain, peer_name="libcurl")
    allocations = Bar(f"{name}: allocations per request", "", at_most(0), peer_name="libcurl")
    clock = Bar(f"{name}: clock reads per turn", "", at_most(1), peer_name="libcurl")

    def sample(start: Callable[..., Transfers], side: str) -> None:
        found = requests(case, start, context)
        count = found["requests"]
        us = (found["cpu_user_us"] + found["cpu_system_us"]) / count
        if side == "best":
            best.peer.append(us)
            best.with_commands(found["line"])
            return
        add(cpu, side, us, found["line"])
        add(calls, side, sum(found["syscalls"].values()) / count, found["line"])
        add(eagain, side, found["eagain"], found["line"])
        add(allocations, side, found["allocations"] / count, found["line"])
        add(clock, side, found["clock_reads"] / found["turns"], found["line"])
        if side == "fulmar":
            best.fulmar.append(us)
            calls.note = shares(found)

    interleave(context.rounds, partial(sample, clients.libcurl, "peer"),
               partial(sample, clients.libcurl_best, "best"),
               partial(sample, clients.fulmar, "fulmar"))
    bars = [cpu, best, calls, saturated(case, name, clients, context), eagain, allocations, clock]
    if case.instructions is not None:
        bars.append(instructions(case, name, clients, context))
    return bars


def requests(case: Case, start: Callable[..., Transfers], context: Context) -> dict:
    """The report of one timed run: every client has a connection before it begins."""
    server = Answers(context.directory, hold=case.clients)
    transfers = start("requests", case.clients, [server.url(case.target)],
                      "--seconds", f"{context.seconds:g}")
    found = transfers.report(context.seconds + OPEN_TIMEOUT_S)
    server.stop_whole()
    return found


def saturated(case: Case, name: str, clients: Clients, context: Context) -> Bar:
    """Calls per request while the client is what limits: the server has both cores. A wait is shared
    by all that is ready after it, so a client that waits for its server makes more of them."""
    bar = Bar(f"{name}, saturated: system calls per request", "", case.calls, peer_name="libcurl")

    def sample(start: Callable[..., Transfers], side: str) -> None:
        server = Answers(context.directory, workers=2, cores=BOTH_CORES)
        found = start("requests", case.clients, [server.url(case.target)], "--seconds",
                      f"{context.seconds:g}").report(context.seconds + OPEN_TIMEOUT_S)
        server.stop()
        add(bar, side, sum(found["syscalls"].values()) / found["requests"], found["line"])
        bar.note = shares(found)

    sample(clients.libcurl, "peer")
    interleave(min(context.rounds, ROUNDS_MAX), partial(sample, clients.fulmar, "fulmar"))
    return bar


def instructions(case: Case, name: str, clients: Clients, context: Context) -> Bar:
    """User instructions of a request, as the difference of two run lengths."""
    bar = Bar(f"{name}: instructions per request", "", case.instructions or NO_LIMIT,
              peer_name="libcurl")

    def sample(start: Callable[..., Transfers], side: str) -> None:
        counts = []
        for length in INSTRUCTED:
            out = context.directory / f"callgrind-{side}-{length}"
            server = Answers(context.directory, hold=case.clients)
            grind = ("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}")
            found = start("requests", case.clients, [server.url(case.target)], "--requests",
                          str(length), prefix=grind).report(OPEN_TIMEOUT_S)
            server.stop()
            counts.append((collected(out), found["requests"]))
            bar.with_commands(found["line"])
        (few, less), (many, more) = counts
        add(bar, side, (many - few) / (more - less), found["line"])

    sample(clients.libcurl, "peer")
    sample(clients.fulmar, "fulmar")
    return bar


def waiting(context: Context) -> list[Bar]:
    """Transfers whose server never answers: what it takes to open one, and to keep it."""
    clients = Clients(context.binaries, context.directory, context.scripts)
    bars, per_size = [], {}
    for size in WAITING:
        cpu = Bar(f"client, {size:,} waiting transfers: CPU to open each", "us", at_most(45),
                  peer_name="libcurl")
        rss = Bar(f"client, {size:,} waiting transfers: RSS each", "B", at_most(768),
                  peer_name="libcurl")

        def sample(start: Callable[..., Transfers], side: str) -> None:
            server = Answers(context.directory)
            urls = [server.url("/idle", address) for address in ADDRESSES]
            found = start("waiting", size, urls).report(OPEN_TIMEOUT_S)
            server.stop()
            add(cpu, side, (found["cpu_user_us"] + found["cpu_system_us"]) / size, found["line"])
            add(rss, side, growth(found) / size, found["line"])

        interleave(min(context.rounds, ROUNDS_MAX), *both(clients, sample))
        per_size[size] = cpu
        bars += [cpu, rss]
    few, many = per_size[WAITING[0]], per_size[WAITING[-1]]
    linear = Bar("client, opening waiting transfers: us each at 18,000 by us each at 4,500", "x",
                 at_most(1.25), peer_name="libcurl")
    linear.peer.append(median(many.peer) / median(few.peer))
    linear.fulmar.append(median(many.fulmar) / median(few.fulmar))
    return [*bars, linear.with_commands(*few.commands, *many.commands)]


def pooled(context: Context) -> list[Bar]:
    """What a connection takes that has had its answer and waits for another transfer."""
    clients = Clients(context.binaries, context.directory, context.scripts)
    plain = Bar(f"client, {POOLED:,} idle pooled connections: RSS each", "B", at_most(384),
                peer_name="libcurl")
    tls = Bar(f"client, {POOLED_TLS:,} idle pooled TLS connections: RSS each", "B", at_most(4096),
              peer_name="libcurl")
    certificate = make_certificate(context.directory)

    def sample(start: Callable[..., Transfers], side: str) -> None:
        server = Answers(context.directory, hold=POOLED)
        found = start("pooled", POOLED, [server.url("/bytes/128")]).report(OPEN_TIMEOUT_S)
        server.stop_whole()
        add(plain, side, growth(found) / POOLED, found["line"])

    def sample_tls(start: Callable[..., Transfers], side: str) -> None:
        server = Answers(context.directory, hold=POOLED_TLS)
        nginx = NginxTls(context.directory, server.port, certificate)
        found = start("pooled", POOLED_TLS, [nginx.url("/bytes/128")], "--cacert",
                      str(certificate.with_suffix(".crt"))).report(OPEN_TIMEOUT_S)
        nginx.stop()
        server.stop()
        add(tls, side, growth(found) / POOLED_TLS, found["line"])

    rounds = min(context.rounds, ROUNDS_MAX)
    interleave(rounds, *both(clients, sample))
    interleave(rounds, *both(clients, sample_tls))
    return [plain, tls]


def both(clients: Clients, sample: Callable[..., None]) -> list[Callable[[], None]]:
    """libcurl in its plain use, and fulmar."""
    return [partial(sample, clients.libcurl, "peer"), partial(sample, clients.fulmar, "fulmar")]


def add(bar: Bar, side: str, value: float, line: str) -> None:
    """A sample of one side, with the command that it came from."""
    (bar.fulmar if side == "fulmar" else bar.peer).append(value)
    bar.with_commands(line)


def growth(found: dict) -> int:
    """RSS that was added while the connections were opened."""
    bytes_ = found["rss_bytes"] - found["rss_before_bytes"]
    if bytes_ <= 0:
        raise Failed(f"no memory was taken: {found['line']}")
    return bytes_


def shares(found: dict) -> str:
    """Calls per request by name, the most frequent first."""
    parts = sorted(found["syscalls"].items(), key=lambda part: -part[1])
    each = ((name, calls / found["requests"]) for name, calls in parts)
    return ", ".join(f"{name} {share:.3f}" for name, share in each if share >= 0.0005)


def tiny(clients: int, ratio: float, instructions: Limit | None = None) -> Case:
    """128 bytes; half of what libcurl takes at its best."""
    return Case("128 B", "/bytes/128", clients, at_most_times(ratio), at_most_times(1 / 2),
                at_most(2.05), instructions=instructions)


LARGE = Case("104 KB", f"/bytes/{104 * 1024}", 200, at_most_times(0.6), NO_LIMIT, at_most(2.1),
             eagain=at_most(0))

SCENARIOS = {
    "client-128-200": ("128 B beside libcurl", partial(measure, tiny(200, 1 / 3, at_most(3000)))),
    "client-128-1000": ("128 B beside libcurl", partial(measure, tiny(1000, 1 / 6))),
    "client-128-8000": ("128 B beside libcurl", partial(measure, tiny(8000, 1 / 20))),
    "client-104k-200": ("104 KB beside libcurl", partial(measure, LARGE)),
    "client-waiting-18000": ("opening and memory of waiting transfers", waiting),
    "client-idle-pooled": ("memory of idle pooled connections, with TLS too", pooled),
}
