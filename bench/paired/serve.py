"""`fulmar serve` beside nginx, both under wrk."""

from __future__ import annotations

import re
import signal
import socket
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from .bars import NO_LIMIT, Bar, Limit, at_most, at_most_times
from .context import Context, interleave
from .processes import Failed, cpu_s, rss_bytes
from .programs import Calls, Nginx, Serve, Server, Wrk, ledger, strace_total

DEPTH = 16
IDLE = 8000


@dataclass(frozen=True)
class Case:
    """The same request to both servers."""

    name: str
    ours: str   # the target at serve
    theirs: str  # and at nginx
    connections: int
    cpu: Limit
    calls: Limit
    headers: tuple[str, ...] = ()
    script: Path | None = None
    per: str = "request"
    saturating: int = 0  # connections that saturate, if not as many


def measure(case: Case, context: Context) -> list[Bar]:
    """CPU per request under wrk on another core; calls per request under wrk on both cores, which
    is more than the server can take."""
    serve = Serve(context.binaries, context.directory)
    nginx = Nginx(context.directory)
    bar = Bar(f"serve, {case.name}: CPU per {case.per}", "us", case.cpu, peer_name="nginx")
    timed = Bar(f"serve, {case.name}, as timed: system calls per {case.per}", "", NO_LIMIT)

    def sample(server: Server, target: str, us: list[float]) -> None:
        spent = cpu_s(server.pid)
        wrk = start_wrk(case, context, server.url(target), context.seconds)
        requests = wrk.requests()
        us.append((cpu_s(server.pid) - spent) * 1e6 / requests)
        bar.with_commands(wrk.process.line)

    def sample_ours() -> None:
        before = ledger(serve)
        sample(serve, case.ours, bar.fulmar)
        calls = Calls.between(before, ledger(serve))
        timed.fulmar.append(calls.total)
        timed.note = str(calls)

    interleave(context.rounds, partial(sample, nginx, case.theirs, bar.peer), sample_ours)
    timed.with_commands(bar.commands[-1])
    bars = [bar, timed, count_calls(case, context, serve, nginx)]
    bar.commands[:0] = [serve.process.line, nginx.process.line]
    serve.stop()
    nginx.stop()
    return bars


def start_wrk(case: Case, context: Context, url: str, seconds: float, threads: int = 1) -> Wrk:
    """wrk as the case wants it; with two threads it saturates."""
    connections = case.saturating if threads > 1 and case.saturating else case.connections
    return Wrk(context.directory, url, connections, seconds, headers=case.headers,
               script=case.script, threads=threads)


def count_calls(case: Case, context: Context, serve: Serve, nginx: Nginx) -> Bar:
    """serve counts for itself; nginx is traced, in a run of its own."""
    bar = Bar(f"serve, {case.name}, saturated: system calls per {case.per}", "", case.calls,
              peer_name="nginx (strace)")
    for _ in range(min(context.rounds, 3)):
        before = ledger(serve)
        wrk = start_wrk(case, context, serve.url(case.ours), context.seconds, threads=2)
        wrk.requests()
        calls = Calls.between(before, ledger(serve))
        bar.fulmar.append(calls.total)
        bar.note = str(calls)
        bar.with_commands(wrk.process.line)
    tracer = nginx.trace()
    wrk = start_wrk(case, context, nginx.url(case.theirs), min(2.0, context.seconds), threads=2)
    requests = wrk.requests()
    tracer.stop(signal.SIGINT)
    bar.peer.append(strace_total(tracer.errors()) / requests)
    return bar.with_commands(wrk.process.line, tracer.line)


def tiny(connections: int, context: Context) -> list[Bar]:
    """An answer from memory, and a small file."""
    calls = at_most(2.1) if connections == 64 else NO_LIMIT
    memory = Case(f"128 B, {connections:,} connections", "/bytes/128", "/tiny", connections,
                  at_most_times(0.95), calls)
    file = replace(memory, name=f"128 B file, {connections:,} connections", ours="/128",
                   theirs="/128")
    return measure(memory, context) + measure(file, context)


def pipelined(context: Context) -> list[Bar]:
    """Sixteen requests at a time on every connection."""
    script = pipelining(context.directory)
    return measure(Case(f"{DEPTH} requests pipelined, 64 connections", "/bytes/128", "/tiny", 64,
                        at_most_times(0.25), at_most(0.2), script=script), context)


def pipelining(directory: Path) -> Path:
    """Has wrk ask for so many at a time."""
    script = directory / "pipeline.lua"
    script.write_text(f"""\
function init(args)
  local requests = {{}}
  for i = 1, {DEPTH} do requests[i] = wrk.format() end
  all = table.concat(requests)
end
function request() return all end
""")
    return script


def file_104k(context: Context) -> list[Bar]:
    """A file that is sent by sendfile."""
    return measure(Case("104 KB file, 64 connections", "/104k", "/104k", 64, NO_LIMIT,
                        at_most(3.1)), context)


def short(context: Context) -> list[Bar]:
    """A connection for every request."""
    return measure(Case("short connections", "/bytes/128", "/tiny", 64, NO_LIMIT, at_most(6.0),
                        headers=("Connection: close",), per="connection", saturating=256), context)


def idle(context: Context) -> list[Bar]:
    """Memory of a connection that has had one request and waits for the next."""
    bar = Bar(f"serve, {IDLE:,} idle connections: RSS each", "B", at_most(600), peer_name="nginx")

    def sample(server: Server, target: str, sizes: list[float]) -> None:
        before = rss_bytes(server.pid)
        held = [ask_once(server, target) for _ in range(IDLE)]
        time.sleep(0.2)
        sizes.append((rss_bytes(server.pid) - before) / IDLE)
        for connection in held:
            connection.close()
        bar.with_commands(server.process.line)
        server.stop()

    interleave(min(context.rounds, 3),
               lambda: sample(Nginx(context.directory), "/tiny", bar.peer),
               lambda: sample(Serve(context.binaries, context.directory), "/bytes/128",
                              bar.fulmar))
    return [bar.with_commands("one request on each, one after the other; all are kept open")]


def ask_once(server: Server, target: str) -> socket.socket:
    """A connection that has had its answer."""
    asking = server.connection()
    asking.connect()
    connection = asking.sock
    connection.sendall(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    text = b""
    while True:
        head, found, body = text.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        if found and length and len(body) >= int(length.group(1)):
            return connection
        more = connection.recv(4096)
        if not more:
            raise Failed("the server closed a connection that should be kept")
        text += more


SCENARIOS = {
    "serve-tiny-64": ("128 B from memory and from a file", partial(tiny, 64)),
    "serve-tiny-1000": ("128 B from memory and from a file", partial(tiny, 1000)),
    "serve-pipelined": ("16 requests pipelined", pipelined),
    "serve-file-104k": ("a cached file, by sendfile", file_104k),
    "serve-short": ("a connection for every request", short),
    "serve-idle-8000": ("memory of idle connections", idle),
}
