"""The proxies that are compared: fulmar and HAProxy with one and the same configuration file, and
nginx with one that says the same."""

from __future__ import annotations

import http.client
import re
from dataclasses import dataclass
from pathlib import Path

from .context import Context
from .machine import CLIENT_CORE, SERVER_CORE
from .processes import Failed, Process, children, until
from .programs import Server, answers, free_port
from .servers import Program, ours

FULMAR, HAPROXY, NGINX = "fulmar", "haproxy", "nginx"
PEERS = (HAPROXY, NGINX)
FRONTENDS = ("http", "copy", "close", "splice", "tcp")


@dataclass(frozen=True)
class Ports:
    """Where each frontend of a proxy listens."""

    http: int  # connections of servers are kept and shared
    copy: int  # as `http`, and bodies are never spliced
    close: int  # one connection on each side for every request
    splice: int  # as `http`, and bodies may be spliced
    tcp: int  # bytes
    metrics: int

    @staticmethod
    def free() -> Ports:
        """Ports that nobody listens on now."""
        return Ports(*(free_port() for _ in range(6)))


class Proxy(Server):
    """A proxy on the servers' core; `port` is that of the frontend asked for."""

    ports: Ports

    def at(self, frontend: str) -> Proxy:
        """The same, asked at this frontend."""
        self.port = getattr(self.ports, frontend)
        return self


class Proxies:
    """An origin on the clients' core, and proxies before it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._ours = context.binaries / "fulmar"
        self.origin = Program([*ours(context), "--defer-accept", "off"], context.directory,
                              context.directory / "site", None, CLIENT_CORE)

    def start(self, name: str, prefix: tuple[str, ...] = ()) -> Proxy:
        """It listens. `prefix` stands in front of its command."""
        directory = self._context.directory
        match name:
            case "nginx":
                return Nginx(directory, self.origin.port, prefix)
            case "haproxy":
                return Configured([*prefix, "haproxy", "-db", "-f"], directory, self.origin.port)
            case _:
                command = [*prefix, str(self._ours), "proxy", "-db", "-f"]
                return Configured(command, directory, self.origin.port)

    def verify(self, names: tuple[str, ...], frontend: str, target: str, length: int) -> None:
        """Every one of them brings the same answer."""
        for name in names:
            proxy = self.start(name).at(frontend)
            connection = proxy.connection()
            connection.request("GET", target)
            answer = connection.getresponse()
            found = answer.status, len(answer.read())
            connection.close()
            proxy.stop()
            if found != (200, length):
                raise Failed(f"{name}: {target} should be 200 with {length} bytes, not {found}")


class Configured(Proxy):
    """A program that reads haproxy.cfg."""

    def __init__(self, command: list[str], directory: Path, origin: int) -> None:
        self.ports = Ports.free()
        config = directory / f"haproxy-{self.ports.http}.cfg"
        config.write_text(haproxy_cfg(self.ports, origin))
        self.process = Process([*command, str(config)], SERVER_CORE, directory)
        until(lambda: answers(self.ports.metrics), self.process, START_TIMEOUT_S)
        self.pid = self.process.pid

    def calls(self) -> dict[str, int]:
        """System calls so far, by name, as fulmar's own metrics tell them."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports.metrics, timeout=30)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        found: dict[str, int] = {}
        pattern = r'^(fulmar_syscalls(?:_eagain)?_total)\{([^}]*)\} (\d+)'
        for metric, labels, count in re.findall(pattern, text, re.MULTILINE):
            call = re.search(r'(?:call|name|syscall)="(\w+)"', labels)
            name = call.group(1) if call else labels
            name = f"EAGAIN {name}" if "eagain" in metric else name
            found[name] = found.get(name, 0) + int(count)
        if not found:
            raise Failed(f"no system calls in the metrics: {text[:300]}")
        return found


def haproxy_cfg(ports: Ports, origin: int) -> str:
    """An everyday configuration, with one thread."""
    return f"""\
global
    nbthread 1
    maxconn 9000
    maxpipes 64

defaults
    mode http
    timeout connect 5s
    timeout client 600s
    timeout server 600s
    http-reuse always

frontend http
    bind 127.0.0.1:{ports.http} backlog 16384
    default_backend web

frontend copy
    bind 127.0.0.1:{ports.copy} backlog 16384
    no option splice-auto
    no option splice-request
    no option splice-response
    default_backend copied

frontend close
    bind 127.0.0.1:{ports.close} backlog 16384
    option httpclose
    default_backend closing

frontend splice
    bind 127.0.0.1:{ports.splice} backlog 16384
    option splice-auto
    option splice-response
    default_backend spliced

frontend metrics
    bind 127.0.0.1:{ports.metrics}
    http-request use-service prometheus-exporter if {{ path /metrics }}
    http-request return status 404

backend web
    server one 127.0.0.1:{origin}

backend copied
    no option splice-auto
    no option splice-request
    no option splice-response
    server one 127.0.0.1:{origin}

backend closing
    option httpclose
    server one 127.0.0.1:{origin}

backend spliced
    option splice-auto
    option splice-response
    server one 127.0.0.1:{origin}

listen tcp
    mode tcp
    bind 127.0.0.1:{ports.tcp} backlog 16384
    server one 127.0.0.1:{origin}
"""


class Nginx(Proxy):
    """nginx as a proxy: one worker."""

    def __init__(self, directory: Path, origin: int, prefix: tuple[str, ...]) -> None:
        self.ports = Ports.free()
        home = directory / f"nginx-proxy-{self.ports.http}"
        home.mkdir()
        config = home / "nginx.conf"
        config.write_text(nginx_conf(self.ports, origin, home))
        command = ["nginx", "-e", str(home / "error.log"), "-p", str(home), "-c", str(config)]
        self.process = Process([*prefix, *command], SERVER_CORE, directory)
        until(lambda: answers(self.ports.http), self.process, START_TIMEOUT_S)
        self.pid = until(lambda: children(self.process.pid), self.process, START_TIMEOUT_S)[0]


def nginx_conf(ports: Ports, origin: int, home: Path) -> str:
    """The same as `haproxy_cfg`, in nginx's words; it has nothing to splice with."""
    paths = "".join(f"{name}_temp_path {home}/{name};\n    "
                    for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    module = Path("/usr/lib/nginx/modules/ngx_stream_module.so")
    stream = f"""
stream {{
    server {{ listen 127.0.0.1:{ports.tcp} backlog=16384; proxy_pass 127.0.0.1:{origin}; }}
}}""" if module.exists() else ""
    load = f"load_module {module};" if stream else ""
    return f"""\
{load}
daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
error_log {home}/error.log crit;
pid {home}/pid;
events {{ worker_connections 20000; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
    {paths}
    upstream web {{
        server 127.0.0.1:{origin};
        keepalive 2000;
        keepalive_requests 1000000000;
        keepalive_timeout 600s;
    }}
    server {{
        listen 127.0.0.1:{ports.http} backlog=16384;
        listen 127.0.0.1:{ports.copy} backlog=16384;
        listen 127.0.0.1:{ports.splice} backlog=16384;
        location / {{
            proxy_pass http://web;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
    }}
    server {{
        listen 127.0.0.1:{ports.close} backlog=16384;
        keepalive_timeout 0;
        location / {{ proxy_pass http://127.0.0.1:{origin}; }}
    }}
}}
{stream}
"""


START_TIMEOUT_S = 20.0
