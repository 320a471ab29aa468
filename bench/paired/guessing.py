"""`fulmar serve --auth` while others guess passwords: the latency of other clients."""

from __future__ import annotations

import base64
import http.client
import itertools
import statistics
import threading
import time

from .bars import NO_LIMIT, Bar, at_most
from .context import Context
from .loops import Serve
from .processes import Failed

GUESSERS = 30
GUESSES_EACH = 10  # a minute, for each address: then it would be answered 429
# htpasswd -nbB -C 10 ann secret
HASH = "$2y$10$kEo9gKC6R/s82zKcxXT/b.BJuWDCYO4AntBruvURM.PuTh/0nsGJW"
PAUSE_S = 0.005


class Guessers:
    """So many connections that try one password after the other, each from an address of its own,
    and from another one when its guesses are used up."""

    def __init__(self, server: Serve) -> None:
        self._server = server
        self._addresses = (f"127.{a}.{b}.{c}" for a, b, c in
                           itertools.product(range(1, 255), range(255), range(1, 255)))
        self._lock = threading.Lock()
        self._is_over = False
        self.statuses: list[int] = []
        self._threads = [threading.Thread(target=self._guess, daemon=True)
                         for _ in range(GUESSERS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """They end with the guess that they are about."""
        self._is_over = True
        for thread in self._threads:
            thread.join(30)

    def _guess(self) -> None:
        while not self._is_over:
            with self._lock:
                address = next(self._addresses)
            connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60,
                                                    source_address=(address, 0))
            for number in range(GUESSES_EACH):
                if not self._is_over:
                    self.statuses.append(status_of(connection, f"{address}-{number}"))
            connection.close()


def status_of(connection: http.client.HTTPConnection, password: str) -> int:
    """The status of a request with this password."""
    credentials = base64.b64encode(f"ann:{password}".encode()).decode()
    connection.request("GET", "/tiny", headers={"Authorization": f"Basic {credentials}"})
    response = connection.getresponse()
    response.read()
    return response.status


def guessing(context: Context) -> list[Bar]:
    """The latency of a known client beside the guessers, on one core with loop and hashes."""
    users = context.directory / "users"
    users.write_text(f"ann:{HASH}\n")
    name = f"serve --auth, {GUESSERS} connections guess"
    median = Bar(f"{name}: median latency of other requests", "ms", at_most(10))
    slow = Bar(f"{name}: p99 latency of other requests", "ms", NO_LIMIT)
    for _ in range(context.rounds):
        server = Serve(context, "--auth", str(users))
        known = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        if status_of(known, "secret") != 200:
            raise Failed("the right password is not admitted")
        guessers = Guessers(server)
        while not guessers.statuses:
            time.sleep(PAUSE_S)
        before = len(guessers.statuses)
        latencies = []
        end = time.monotonic() + context.seconds
        while time.monotonic() < end:
            start = time.monotonic()
            if status_of(known, "secret") != 200:
                raise Failed("a password that was right is not admitted any more")
            latencies.append((time.monotonic() - start) * 1e3)
            time.sleep(PAUSE_S)
        hashes = len(guessers.statuses) - before
        guessers.stop()
        if set(guessers.statuses) != {401}:
            raise Failed(f"the status of guesses was {sorted(set(guessers.statuses))}, not 401")
        median.fulmar.append(statistics.median(latencies))
        slow.fulmar.append(statistics.quantiles(latencies, n=100)[98])
        median.note = f"{hashes / context.seconds:.0f} guesses hashed each second"
        median.with_commands(server.process.line)
        known.close()
        server.stop()
    return [median, slow]


SCENARIOS = {
    "serve-guessing": ("latency while others guess passwords", guessing),
}
