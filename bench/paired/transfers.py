"""The clients that are compared, and the servers that they ask."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from .machine import CLIENT_CORE, SERVER_CORE
from .processes import Failed, Process, check_installed, children, show, until
from .programs import Server, answers, free_port

KEYS = {"P-256": ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), "RSA-2048": ("rsa:2048",)}


class Clients:
    """Starts the client of either side. The peer is compiled first."""

    def __init__(self, binaries: Path, directory: Path, sources: Path) -> None:
        self._directory = directory
        self._ours = binaries / "fulmar-bench"
        self._libcurl = compiled("libcurl", sources, directory, "-lcurl")
        compiled("server", sources, directory)

    def fulmar(self, *words: object, prefix: tuple[str, ...] = ()) -> Transfers:
        """Ours."""
        return Transfers([*prefix, str(self._ours), "worker", "transfers"], self._directory, *words)

    def libcurl(self, *words: object, prefix: tuple[str, ...] = ()) -> Transfers:
        """libcurl as its documents say."""
        return Transfers([*prefix, str(self._libcurl), "--use", "plain"], self._directory, *words)

    def libcurl_best(self, *words: object, prefix: tuple[str, ...] = ()) -> Transfers:
        """libcurl in a program that leaves descriptors in epoll."""
        return Transfers([*prefix, str(self._libcurl), "--use", "best"], self._directory, *words)


class Transfers:
    """A client at work. README.md says what every client takes and reports."""

    def __init__(self, program: list[str], directory: Path, mode: str, clients: int,
                 urls: list[str], *flags: str) -> None:
        command = [*program, "--mode", mode, "--clients", str(clients), *flags]
        command += [word for url in urls for word in ("--url", url)]
        self.process = Process(command, CLIENT_CORE, directory)

    def report(self, timeout_s: float) -> dict:
        """Waits for its end; what it printed, and its command line as `line`."""
        text, line = self.process.wait(timeout_s), self.process.line
        if self.process.child.returncode:
            raise Failed(f"{line}: {self.process.errors()[-500:]}")
        try:
            found = json.loads(text)
        except json.JSONDecodeError:
            raise Failed(f"no report: {line}\n{self.process.errors()[-500:]}") from None
        if found["errors"]:
            raise Failed(f"{found['errors']} errors: {line}\n{self.process.errors()[-500:]}")
        return {**found, "line": line}


class Answers(Server):
    """`bench/peers/server.c`: each answer in one call."""

    def __init__(self, directory: Path, *, hold: int = 0, workers: int = 1,
                 cores: str = SERVER_CORE) -> None:
        command = [str(directory / "server"), "--hold", str(hold), "--workers", str(workers)]
        self.process = Process(command, cores, directory)
        self.port, self.pid = int(self.process.first_line()), self.process.pid

    def url(self, path: str, address: str = "127.0.0.1") -> str:
        """Where `path` is; it listens on every address."""
        return f"http://{address}:{self.port}{path}"

    def stop_whole(self) -> None:
        """Ends it; every answer must have left in one call."""
        sent = json.loads(self.stop().splitlines()[1])
        if sent["partial"]:
            raise Failed(f"the server could not send {sent['partial']} of {sent['requests']} "
                         "answers in one call")


class NginxTls(Server):
    """nginx in front of a server that speaks no TLS."""

    def __init__(self, directory: Path, upstream: int, certificate: Path) -> None:
        self.port = free_port()
        prefix = directory / f"tls-{self.port}"
        prefix.mkdir()
        config = prefix / "nginx.conf"
        config.write_text(tls_config(self.port, upstream, certificate, prefix))
        command = ["nginx", "-e", str(prefix / "error.log"), "-p", str(prefix), "-c", str(config)]
        self.process = Process(command, SERVER_CORE, directory)
        until(lambda: answers(self.port), self.process, 5.0)
        self.pid = until(lambda: children(self.process.pid), self.process, 5.0)[0]

    def url(self, path: str) -> str:
        """Where `path` is."""
        return f"https://127.0.0.1:{self.port}{path}"


def tls_config(port: int, upstream: int, certificate: Path, prefix: Path) -> str:
    """Every client's connection leads to one of its own, and nothing ends for want of time."""
    paths = "".join(f"{name}_temp_path {prefix}/{name};\n    "
                    for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    return f"""\
daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
error_log {prefix}/error.log crit;
pid {prefix}/pid;
events {{ worker_connections 20000; multi_accept on; }}
http {{
    access_log off;
    keepalive_timeout 600s;
    {paths}
    server {{
        listen 127.0.0.1:{port} ssl backlog=16384;
        ssl_certificate {certificate.with_suffix(".crt")};
        ssl_certificate_key {certificate};
        location / {{
            proxy_pass http://127.0.0.1:{upstream};
            proxy_read_timeout 600s;
        }}
    }}
}}
"""


def make_certificate(directory: Path, kind: str = "P-256") -> Path:
    """A key of that kind for 127.0.0.1; its certificate, signed by itself, is beside it (`.crt`)."""
    key = directory / f"{kind}.key"
    command = ["openssl", "req", "-x509", "-newkey", *KEYS[kind],
               "-nodes", "-days", "30", "-subj", "/CN=bench", "-addext",
               "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE",
               "-keyout", str(key), "-out", str(key.with_suffix(".crt"))]
    succeed(command)
    key.chmod(0o644)  # a worker of nginx may run as somebody else
    return key


def compiled(name: str, sources: Path, directory: Path, *libraries: str) -> Path:
    """One of `bench/peers/`, as a program in the directory of the run."""
    program = directory / name
    succeed(["cc", "-O2", "-Wall", "-Wextra", "-std=c11", "-o", str(program),
             str(sources / "peers" / f"{name}.c"), *libraries])
    return program


def succeed(command: list[str]) -> None:
    """Runs it; a message says what it said if it failed."""
    check_installed(command)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Failed(f"{show(command)}: {done.stdout[-1000:]}\nscripts/setup-peers installs what "
                     "is needed")
