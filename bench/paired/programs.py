"""The programs under test and the peers, each started as its bar demands."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from .machine import BOTH_CORES, CLIENT_CORE, SERVER_CORE
from .processes import Failed, Process, children, until

BODY = b"x" * 128
FILE_64K = 64 * 1024
FILE_104K = 104 * 1024
FILE_1M = 1024 * 1024


def build(root: Path) -> Path:
    """Builds the binaries with all optimization; the directory that they are in."""
    cargo = ["cargo", "build", "--profile", "dist", "--quiet", "-p", "fulmar-cli",
             "-p", "fulmar-bench"]
    if subprocess.run(cargo, cwd=root).returncode:
        raise Failed("the build failed")
    metadata = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1"],
                              cwd=root, stdout=subprocess.PIPE, check=True)
    return Path(json.loads(metadata.stdout)["target_directory"]) / "dist"


def make_site(directory: Path) -> Path:
    """The files that all servers serve; those who can answer `/tiny` and `/modest` from memory do."""
    site = directory / "site"
    site.mkdir()
    for name in ("128", "tiny"):
        (site / name).write_bytes(BODY)
    for name, size in (("modest", FILE_64K), ("104k", FILE_104K), ("1m", FILE_1M)):
        (site / name).write_bytes(b"y" * size)
    return site


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Server:
    """A server on loopback; `pid` is the process that serves."""

    process: Process
    port: int
    pid: int
    scheme = "http"

    def url(self, path: str) -> str:
        """Where `path` is."""
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"

    def connection(self) -> http.client.HTTPConnection:
        """To ask it something."""
        if self.scheme == "http":
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        anybody = ssl._create_unverified_context()  # the certificate is our own
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=anybody)

    def trace(self, cores: str = CLIENT_CORE) -> Process:
        """Counts its system calls from now on, until the tracer is interrupted."""
        command = ["strace", "-c", "-f", "-p"]
        tracer = Process([*command, str(self.pid)], cores, self.process.directory,
                         shown=[*command, "SERVER"])
        until(lambda: "attached" in tracer.errors(), tracer, 5.0)
        return tracer

    def stop(self) -> str:
        """Ends it; what it printed."""
        return self.process.stop()


class Nginx(Server):
    """nginx with its own configuration: one worker, the site of the run, an address for this
    machine only, no TLS and no TCP_DEFER_ACCEPT, unless the bar wants other ones. Its status is
    never behind TLS."""

    def __init__(self, directory: Path, workers: int = 1, cores: str = SERVER_CORE, *,
                 address: str = "127.0.0.1", root: Path | None = None,
                 tls: Path | None = None, deferred: bool = False) -> None:
        self.port = free_port()
        prefix = directory / f"nginx-{self.port}"
        prefix.mkdir()
        config = prefix / "nginx.conf"
        defer = " deferred" if deferred else ""
        listen = f"listen {address}:{self.port} backlog=16384{defer};"
        status = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        if tls is not None:
            self.scheme, self.port = "https", free_port()
            listen += nginx_tls(f"{address}:{self.port}", tls)
        config.write_text(nginx_config(listen, workers, root or directory / "site", prefix))
        command = ["nginx", "-e", str(prefix / "error.log"), "-p", str(prefix), "-c", str(config)]
        self.process = Process(command, cores, directory)
        until(lambda: answers(self.port), self.process, 5.0)
        self.workers = until(lambda: children(self.process.pid), self.process, 5.0)
        self.pid = self.workers[0]
        self._status = status
        self.status()

    def status(self) -> tuple[int, int]:
        """Connections that stand, and requests so far (of this worker, over one connection)."""
        self._status.request("GET", "/status")
        text = self._status.getresponse().read().decode()
        numbers = [int(word) for word in re.findall(r"\d+", text)]
        return numbers[0] - 1, numbers[3]

    def pause(self, seconds: float) -> None:
        """The worker stands still for so long."""
        os.kill(self.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.pid, signal.SIGCONT)


def nginx_config(listen: str, workers: int, site: Path, prefix: Path) -> str:
    """What the bars say: nothing logged, connections kept, files cached. With `multi_accept`, since a
    worker that a generator saturates takes one connection at a time too seldom to reach 8,000."""
    paths = "".join(f"{name}_temp_path {prefix}/{name};\n    "
                    for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    return f"""\
daemon off;
master_process on;
worker_processes {workers};
worker_rlimit_nofile 20000;
error_log {prefix}/error.log crit;
pid {prefix}/pid;
events {{ worker_connections 20000; multi_accept on; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    sendfile on;
    tcp_nopush on;
    open_file_cache max=1000 inactive=1h;
    open_file_cache_valid 1h;
    {paths}
    server {{
        {listen}
        root {site};
        location = /tiny {{ return 200 "{BODY.decode()}"; }}
        location = /status {{ stub_status; }}
    }}
}}
"""


def nginx_tls(address: str, key: Path) -> str:
    """What makes it listen for TLS 1.3."""
    return f"""
        listen {address} ssl backlog=16384;
        ssl_certificate {key.with_suffix(".crt")};
        ssl_certificate_key {key};
        ssl_protocols TLSv1.3;"""


def answers(port: int) -> bool:
    """True if somebody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


class Serve(Server):
    """`fulmar serve` with its test endpoints."""

    def __init__(self, binaries: Path, directory: Path, address: str = "127.0.0.1") -> None:
        command = [str(binaries / "fulmar"), "serve", "--test-endpoints", "--ledger",
                   "--drain-timeout", "1s", "--listen", f"{address}:0", str(directory / "site")]
        self.process = Process(command, SERVER_CORE, directory)
        greeting = self.process.first_line()
        port = re.search(r":(\d+)/", greeting)
        if port is None:
            raise Failed(f"no port in {greeting!r}")
        self.port, self.pid = int(port.group(1)), self.process.pid


def ledger(server: Server) -> dict:
    """Requests and system calls of one of ours so far."""
    connection = server.connection()
    connection.request("GET", "/.ledger")
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


@dataclass(frozen=True)
class Calls:
    """System calls per request, of an interval."""

    total: float
    by_name: dict[str, float]
    eagain: float

    @staticmethod
    def between(before: dict, after: dict) -> Calls:
        """From two answers of the ledger; asking itself (a connection) is not a benchmark's."""
        requests = max(after["requests"] - before["requests"] - 1, 1)
        ours = {"accept4": 2, "epoll_ctl": 1, "recv": 2, "send": 1, "close": 1}
        by_name, eagain = {}, 0
        for name, count in after["syscalls"].items():
            earlier = before["syscalls"].get(name, {"calls": 0, "eagain": 0})
            calls = count["calls"] - earlier["calls"]
            eagain += count["eagain"] - earlier["eagain"]
            if calls > ours.get(name, 0):
                by_name[name] = calls / requests
        return Calls(sum(by_name.values()), by_name, eagain / requests)

    def __str__(self) -> str:
        parts = sorted(self.by_name.items(), key=lambda part: -part[1])
        return ", ".join(f"{name} {share:.3f}" for name, share in parts if share >= 0.0005)


class Wrk:
    """wrk for a time, and what it counted."""

    def __init__(self, directory: Path, url: str, connections: int, seconds: float, *,
                 headers: tuple[str, ...] = (), script: Path | None = None,
                 threads: int = 1) -> None:
        command = ["wrk", f"-t{threads}", f"-c{connections}", f"-d{max(1, round(seconds))}s"]
        command += [word for header in headers for word in ("-H", header)]
        command += ["-s", str(script)] if script else []
        cores = CLIENT_CORE if threads == 1 else BOTH_CORES
        self.process = Process([*command, url], cores, directory)
        self._seconds = seconds

    def requests(self) -> int:
        """Waits for its end; requests answered."""
        return wrk_requests(self.process.wait(self._seconds + 60))


def wrk_requests(text: str) -> int:
    """The count in wrk's report."""
    found = re.search(r"(\d+) requests in", text)
    if found is None or int(found.group(1)) == 0:
        raise Failed(f"wrk counted nothing: {text}")
    if errors := re.search(r"(Socket errors.*(connect|read|write) [1-9].*|Non-2xx.*)", text):
        print(f"  wrk: {errors.group(1)}")
    return int(found.group(1))


class Load:
    """`fulmar load --json`, and its report."""

    def __init__(self, binaries: Path, directory: Path, url: str, *flags: str) -> None:
        command = [str(binaries / "fulmar"), "load", "--json", *flags, url]
        self.process = Process(command, CLIENT_CORE, directory)

    def report(self, timeout_s: float) -> dict:
        """Waits for its end."""
        return self._parse(self.process.wait(timeout_s))

    def interrupt(self) -> dict:
        """Ends it now."""
        return self._parse(self.process.stop(signal.SIGINT))

    def _parse(self, text: str) -> dict:
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            raise Failed(f"no report: {self.process.line}\n{self.process.errors()}") from None


def strace_calls(text: str, name: str) -> int:
    """Calls of one kind that succeeded, in the table of `strace -c`."""
    found = re.search(rf"^\s*[\d.]+\s+\S+\s+\S+\s+(\d+)\s+(\d+)?\s*{name}$", text, re.MULTILINE)
    if found is None:
        raise Failed(f"strace has seen no {name}: {text[-300:]}")
    return int(found.group(1)) - int(found.group(2) or 0)


def strace_total(text: str) -> int:
    """All calls in the table of `strace -c`."""
    found = re.search(r"^\s*100\.00\s+\S+\s+\S*\s+(\d+)\s.*total$", text, re.MULTILINE)
    if found is None:
        raise Failed(f"strace printed no table: {text[-300:]}")
    return int(found.group(1))
