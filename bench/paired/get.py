"""`fulmar get` beside `curl --parallel`: thousands of files from three hosts into memory."""

from __future__ import annotations

import hashlib
import random
import re
import resource
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .bars import Bar, at_most, at_most_times
from .context import Context, interleave
from .machine import CLIENT_CORE
from .processes import Failed, Process
from .programs import Nginx, strace_total

FILES = 20_000
SIZES = (1_024, 100 * 1_024)  # the logarithm is spread evenly between them: 21 KB in the mean
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
CONNECTIONS = 48  # for both; 16 to each host
MEMORY = Path("/dev/shm")
SEED = 20_000
TIMEOUT_S = 120.0
ROUNDS_MAX = 3


@dataclass(frozen=True)
class Tree:
    """Files, and what a download of all of them must look like."""

    root: Path
    names: list[str]
    digest: str


def run(context: Context) -> list[Bar]:
    """CPU per file in turn, system calls, and every byte."""
    with tempfile.TemporaryDirectory(prefix="fulmar-bench-get-", dir=MEMORY) as scratch:
        memory = Path(scratch)
        memory.chmod(0o755)  # a worker of nginx may run as somebody else
        tree = make_tree(memory / "site")
        nginx = Nginx(context.directory, address="0.0.0.0", root=tree.root)
        bars = compare(context, memory, tree, nginx.port)
        nginx.stop()
        return bars


def compare(context: Context, memory: Path, tree: Tree, port: int) -> list[Bar]:
    """Both sides ask the same URLs in the same order, over as many connections."""
    name = f"get, {FILES:,} files of 1-100 KB from {len(HOSTS)} hosts"
    cpu = Bar(f"{name}: CPU per file", "us", at_most_times(0.75), peer_name="curl -Z")
    calls = Bar(f"{name}: system calls per file", "", at_most(6.5), peer_name="curl -Z (strace)")
    out = memory / "out"
    urls = [f"http://{HOSTS[i % len(HOSTS)]}:{port}/{file}" for i, file in enumerate(tree.names)]
    ours = fulmar_command(context, tree, urls, out)
    theirs = curl_command(context, tree, urls, out)

    def sample(command: list[str], us: list[float]) -> Process:
        process, spent = download(command, context, tree, out)
        us.append(spent * 1e6 / FILES)
        cpu.with_commands(process.line)
        return process

    def sample_ours() -> None:
        process = sample(ours, cpu.fulmar)
        calls.fulmar.append(ledger_total(process.text() + process.errors()) / FILES)
        calls.with_commands(process.line)

    interleave(min(context.rounds, ROUNDS_MAX), partial(sample, theirs, cpu.peer), sample_ours)
    traced, _ = download(["strace", "-c", "-f", *theirs], context, tree, out)
    calls.peer.append(strace_total(traced.errors()) / FILES)
    return [cpu, calls.with_commands(traced.line)]


def download(command: list[str], context: Context, tree: Tree,
             out: Path) -> tuple[Process, float]:
    """Runs it once; its processor time in seconds. What it fetched is checked and removed."""
    out.mkdir()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = Process(command, CLIENT_CORE, context.directory)
    process.wait(TIMEOUT_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.child.returncode:
        raise Failed(f"{process.line}: {process.errors()[-500:]}")
    if digest(out) != tree.digest:
        raise Failed(f"files are missing, or not as they were served: {process.line}")
    shutil.rmtree(out)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return process, spent


def fulmar_command(context: Context, tree: Tree, urls: list[str], out: Path) -> list[str]:
    """`fulmar get` with the list in a file."""
    listed = context.directory / "urls"
    listed.write_text("".join(f"{url} {name}\n" for url, name in zip(urls, tree.names)))
    return [str(context.binaries / "fulmar"), "get", "-i", str(listed), "-o", str(out), "-j", str(CONNECTIONS),
            "--per-host", str(CONNECTIONS // len(HOSTS)), "--ledger"]


def curl_command(context: Context, tree: Tree, urls: list[str], out: Path) -> list[str]:
    """curl, with what it is to fetch in a file; nothing of a user's settings."""
    config = context.directory / "curl.config"
    lines = (f'url = "{url}"\noutput = "{out / name}"\n' for url, name in zip(urls, tree.names))
    config.write_text("".join(lines))
    return ["curl", "-q", "--noproxy", "*", "-s", "-S", "--fail-early", "-f", "-Z",
            "--parallel-max", str(CONNECTIONS), "-K", str(config)]


def make_tree(root: Path) -> Tree:
    """The same files each time."""
    if shutil.disk_usage(MEMORY).free < 2 * FILES * SIZES[1] // 4:
        raise Failed(f"{MEMORY} has no room for {FILES:,} files twice")
    root.mkdir()
    source = random.Random(SEED)
    names = [f"{number:05}" for number in range(FILES)]
    for name in names:
        size = round(SIZES[0] * (SIZES[1] / SIZES[0]) ** source.random())
        (root / name).write_bytes(source.randbytes(size))
    return Tree(root, names, digest(root))


def digest(root: Path) -> str:
    """Of every name and every byte below `root`."""
    whole = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        whole.update(f"{path.relative_to(root)} ".encode())
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def ledger_total(text: str) -> int:
    """The last row of the table that `--ledger` prints."""
    found = re.search(r"^\s*all\s+(\d+)", text, re.MULTILINE)
    if found is None:
        raise Failed(f"no ledger: {text[-300:]}")
    return int(found.group(1))


SCENARIOS = {"get-20000": ("20,000 files from three hosts beside curl -Z", run)}
