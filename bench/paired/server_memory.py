"""What a connection costs a server's memory while it waits, and what comes back after a burst."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median

from .bars import Bar, at_least, at_most
from .context import Context, interleave
from .machine import CLIENT_CORE
from .processes import Process, peak_bytes, reset_peak, rss_bytes
from .programs import Server
from .serve import ask_once
from .servers import FULMAR, PEERS, Servers, fetch

PLAIN = 8_000
TLS = 1_000
BACK_WITHIN_S = 10.0
ASKED = 10  # requests of each connection
LOAD_TIMEOUT_S = 120.0
SETTLE_S = 0.2
ROUNDS_MAX = 3
TARGET = "/tiny"


def idle(connections: int, limit: float, kind: str, context: Context) -> list[Bar]:
    """Connections that have had one request each, one after the other, and wait for the next."""
    over = "TLS, " if kind else ""
    bar = Bar(f"server, {over}{connections:,} idle connections: RSS each", "B", at_most(limit))
    bar.with_commands("one request on each, one after the other; all are kept open")

    def grown(server: Server) -> float:
        before = rss_bytes(server.pid)
        held = [ask_once(server, TARGET) for _ in range(connections)]
        time.sleep(SETTLE_S)
        growth = rss_bytes(server.pid) - before
        for connection in held:
            connection.close()
        return growth / connections

    return [compare(bar, kind, min, grown, context)]


def burst(connections: int, kind: str, context: Context) -> list[Bar]:
    """Connections that all ask at once, then close: how much of what they took is given back."""
    over = "TLS, " if kind else ""
    bar = Bar(f"server, {over}after a burst of {connections:,} connections: given back", "%",
              at_least(80))

    def returned(server: Server) -> float:
        before = rss_bytes(server.pid)
        reset_peak(server.pid)
        command = ["h2load", "--h1", "-n", str(ASKED * connections), "-c", str(connections)]
        load = Process([*command, server.url(TARGET)], CLIENT_CORE, context.directory)
        load.wait(LOAD_TIMEOUT_S)
        bar.with_commands(load.line)
        time.sleep(BACK_WITHIN_S)
        peak = peak_bytes(server.pid)
        return 100 * (peak - rss_bytes(server.pid)) / max(peak - before, 1)

    return [compare(bar, kind, max, returned, context)]


def compare(bar: Bar, kind: str, best: Callable, measure: Callable[[Server], float],
            context: Context) -> Bar:
    """Each side in turn, with a new server each time; the peer with the best median counts."""
    servers = Servers(context, kind)
    servers.verify((FULMAR, *PEERS), TARGET)
    samples: dict[str, list[float]] = {name: [] for name in (FULMAR, *PEERS)}

    def sample(name: str) -> None:
        server = servers.start(name)
        fetch(server, TARGET)  # what the first connection takes for all that follow
        samples[name].append(measure(server))
        bar.with_commands(server.process.line)
        server.stop()

    interleave(min(context.rounds, ROUNDS_MAX), *(partial(sample, name) for name in samples))
    bar.fulmar = samples.pop(FULMAR)
    return bar.against(samples, best(samples, key=lambda name: median(samples[name])))


SCENARIOS = {
    "server-idle-8000": ("memory of idle connections", partial(idle, PLAIN, 600.0, "")),
    "server-idle-tls-1000": ("memory of idle TLS connections",
                             partial(idle, TLS, 5_120.0, "P-256")),
    "server-burst-8000": ("memory given back after a burst", partial(burst, PLAIN, "")),
    "server-burst-tls-1000": ("memory given back after a burst of TLS connections",
                              partial(burst, TLS, "P-256")),
}
