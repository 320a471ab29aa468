"""The servers that are compared: a program with fulmar inside, one with libmicrohttpd, nginx, h2o."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from .context import Context
from .machine import SERVER_CORE
from .processes import Failed, Process, check_installed, until
from .programs import FILE_104K, FILE_1M, FILE_64K, Nginx, Server, answers, free_port
from .transfers import compiled, make_certificate

FULMAR, LIBMICROHTTPD, NGINX, H2O = "fulmar", "libmicrohttpd", "nginx", "h2o"
PEERS = (LIBMICROHTTPD, NGINX, H2O)
LENGTHS = {"/tiny": 128, "/modest": FILE_64K, "/continuous": 10, "/104k": FILE_104K,
           "/1m": FILE_1M}


class Servers:
    """Starts the server of any side, with a certificate of that kind or without TLS.

    `deferred` listeners tell of a connection when its first bytes are there (TCP_DEFER_ACCEPT).
    h2o's always do; libmicrohttpd's never do."""

    def __init__(self, context: Context, kind: str = "", *, deferred: bool = False) -> None:
        self._deferred = deferred
        self._directory = context.directory
        self._ours = ours(context)
        self._libmicrohttpd = compiled("libmicrohttpd", context.scripts, context.directory,
                                       "-lmicrohttpd")
        self._key = make_certificate(context.directory, kind) if kind else None

    def start(self, name: str, prefix: tuple[str, ...] = ()) -> Server:
        """It listens. `prefix` stands in front of our program's command."""
        site = self._directory / "site"
        match name:
            case "nginx":
                return Nginx(self._directory, tls=self._key, deferred=self._deferred)
            case "h2o":
                return H2o(self._directory, site, self._key)
            case "libmicrohttpd":
                return Program([str(self._libmicrohttpd)], self._directory, site, self._key)
            case _:
                defer = ["--defer-accept", "on" if self._deferred else "off"]
                return Program([*prefix, *self._ours, *defer], self._directory, site,
                               self._key)

    def verify(self, names: tuple[str, ...], target: str) -> None:
        """Every one of them answers with the same status and length, and speaks the same TLS."""
        spoken = {}
        for name in names:
            server = self.start(name)
            spoken[name] = fetch(server, target), tls_facts(server)
            server.stop()
        expected = 200, LENGTHS[target]
        if any(answer != expected for answer, _ in spoken.values()):
            raise Failed(f"{target} should be {expected} everywhere: {spoken}")
        if len({facts for _, facts in spoken.values()}) > 1:
            raise Failed(f"TLS is not the same everywhere: {spoken}")


def ours(context: Context) -> list[str]:
    """A program with fulmar's server inside."""
    return [str(context.binaries / "fulmar-bench"), "worker", "answers"]


class Program(Server):
    """A program with a library inside: README.md says what it takes."""

    def __init__(self, program: list[str], directory: Path, site: Path, key: Path | None,
                 cores: str = SERVER_CORE) -> None:
        command = [*program, "--site", str(site)]
        if key is not None:
            self.scheme = "https"
            command += ["--cert", str(key.with_suffix(".crt")), "--key", str(key)]
        self.process = Process(command, cores, directory)
        self.port, self.pid = int(self.process.first_line(START_TIMEOUT_S)), self.process.pid


class H2o(Server):
    """h2o with its own configuration: one thread, files."""

    def __init__(self, directory: Path, site: Path, key: Path | None) -> None:
        self.port = free_port()
        self.scheme = "https" if key is not None else "http"
        config = directory / f"h2o-{self.port}.conf"
        config.write_text(h2o_config(self.port, site, key))
        self.process = Process(["h2o", "-m", "worker", "-c", str(config)], SERVER_CORE, directory)
        self.pid = self.process.pid
        until(lambda: answers(self.port), self.process, START_TIMEOUT_S)


def h2o_config(port: int, site: Path, key: Path | None) -> str:
    """Nothing logged, nothing asked of other processes. A small file is answered in less time than by
    a handler in mruby, so that is what `/tiny` is."""
    user = "user: nobody\n" if os.geteuid() == 0 else ""
    tls = f"""
  ssl:
    certificate-file: {key.with_suffix(".crt")}
    key-file: {key}
    minimum-version: TLSv1.3
    neverbleed: OFF
    ocsp-update-interval: 0""" if key is not None else ""
    return f"""\
{user}num-threads: 1
num-name-resolution-threads: 1
max-connections: 20000
http1-request-timeout: 600
listen:
  host: 127.0.0.1
  port: {port}{tls}
hosts:
  default:
    paths:
      /:
        file.dir: {site}
"""


def fetch(server: Server, target: str) -> tuple[int, int]:
    """Status and length of an answer."""
    connection = server.connection()
    connection.request("GET", target)
    answer = connection.getresponse()
    length = len(answer.read())
    connection.close()
    return answer.status, length


def tls_facts(server: Server) -> tuple[str, ...]:
    """Version, cipher and key exchange, as OpenSSL agrees upon them with the server."""
    if server.scheme == "http":
        return ()
    command = ["openssl", "s_client", "-brief", "-connect", f"127.0.0.1:{server.port}"]
    check_installed(command)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    facts = re.findall(r"^(?:Protocol version|Ciphersuite|\w+ Temp Key): (.*)$", done.stdout,
                       re.MULTILINE)
    if len(facts) != 3:
        raise Failed(f"no TLS at {server.process.line}: {done.stdout[-500:]}")
    return tuple(facts)


START_TIMEOUT_S = 20.0  # under callgrind
