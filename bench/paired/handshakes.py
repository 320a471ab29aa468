"""Handshakes, every one of them a full one.

wrk and h2load resume their sessions (nginx's `$ssl_session_reused` tells), so this is `openssl
s_time -new`: a connection for each request, one after the other in each of a few processes."""

from __future__ import annotations

import re
from pathlib import Path

from .machine import BOTH_CORES, CLIENT_CORE
from .processes import Failed, Process
from .programs import Server

PROCESSES = 4


class Handshakes:
    """Connections with a handshake and a request for a time, and their number."""

    def __init__(self, directory: Path, server: Server, target: str, seconds: float,
                 threads: int = 1) -> None:
        self._seconds = max(1, round(seconds))
        command = ["openssl", "s_time", "-new", "-connect", f"127.0.0.1:{server.port}", "-www",
                   target, "-time", str(self._seconds)]
        cores = CLIENT_CORE if threads == 1 else BOTH_CORES
        self._clients = [Process(command, cores, directory) for _ in range(threads * PROCESSES)]
        self.process = self._clients[0]

    def requests(self) -> int:
        """Waits for their end; connections that had their answer."""
        return sum(self._count(client) for client in self._clients)

    def _count(self, client: Process) -> int:
        text = client.wait(self._seconds + 60)
        found = re.search(r"^(\d+) connections in \d+ real seconds, (\d+) bytes", text,
                          re.MULTILINE)
        if found is None or int(found.group(1)) == 0 or int(found.group(2)) == 0:
            raise Failed(f"no answers: {client.line}\n{text[-300:]}\n{client.errors()[-300:]}")
        return int(found.group(1))
