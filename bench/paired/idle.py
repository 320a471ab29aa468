"""One active stream among N idle ones: the cost of an event, and of opening the idle ones."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import median

from .bars import NO_LIMIT, Bar, Limit, at_most
from .context import Context
from .machine import CLIENT_CORE, SERVER_CORE
from .processes import Failed, Process
from .programs import Serve

SIZES = (1, 1000, 9000, 18000)
PER_ADDRESS = 9000  # beyond it the kernel's search for a port grows steeply
EVENTS = (1_000, 6_000)
PAUSE_S = 0.0005
UNEVEN_MAX = 0.02
ATTEMPTS = 3
FRAMINGS = ("chunked", "length")


def run(context: Context) -> list[Bar]:
    """CPU and memory of opening, timed; instructions per event, under callgrind."""
    bars = []
    per_size: dict[int, float] = {}
    for size in SIZES[1:]:  # one connection costs less than the kernel's accounting can tell
        cpu = Bar(f"{size:,} idle streams: CPU to open each", "us", at_most(45))
        rss = Bar(f"{size:,} idle streams: client RSS each", "B", NO_LIMIT)
        for _ in range(context.rounds):
            found, line = one_run(context, size, EVENTS[0], FRAMINGS[0], [])
            cpu.fulmar.append(found["open_cpu_us"] / size)
            rss.fulmar.append(found["open_rss_bytes"] / size)
            cpu.with_commands(line)
        per_size[size] = median(cpu.fulmar)
        bars += [cpu, rss.with_commands(line)]
    linear = Bar("opening idle streams: us each at 18,000 by us each at 9,000", "x", at_most(1.25))
    linear.fulmar.append(per_size[SIZES[-1]] / per_size[SIZES[-2]])
    bars.append(linear)
    for framing in FRAMINGS:
        bars += instructions(context, framing)
    return bars


def instructions(context: Context, framing: str) -> list[Bar]:
    """User instructions of an event, as the difference of two run lengths."""
    bars = []
    for size in SIZES:
        plural = "stream" if size == 1 else "streams"
        bar = Bar(f"{size:,} idle {plural}, {framing} body: instructions per event", "",
                  at_most(400))
        counts = []
        for events in EVENTS:
            out = context.directory / f"callgrind-{framing}-{size}-{events}"
            grind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                     "--collect-atstart=no", "--toggle-collect=*idle::steady*"]
            _, line = one_run(context, size, events, framing, grind)
            counts.append(collected(out))
            bar.with_commands(line)
        bar.fulmar.append((counts[1] - counts[0]) / (EVENTS[1] - EVENTS[0]))
        bars.append(bar)
    medians = [bar.fulmar[0] for bar in bars]
    flat = Bar(f"idle streams, {framing} body: most instructions per event by fewest, over N", "x",
               Limit("value", high=1.05))
    flat.fulmar.append(max(medians) / min(medians))
    return [*bars, flat]


def one_run(context: Context, size: int, events: int, framing: str,
            prefix: list[str]) -> tuple[dict, str]:
    """The client's report, and its command line. The servers are new each time: a connection that
    waits for an answer stays with the server when its client is gone. Where instructions are
    counted, a run whose events were not alike is made again."""
    for _ in range(ATTEMPTS):
        serve = Serve(context.binaries, context.directory, address="0.0.0.0")
        script = str(context.scripts / "pulse.py")
        pulse = Process([sys.executable, script, str(PAUSE_S), framing], SERVER_CORE,
                        context.directory)
        peers = [f"127.0.0.{host + 1}:{serve.port}" for host in range(-(-size // PER_ADDRESS))]
        command = [*prefix, str(context.binaries / "fulmar-bench"), "worker", "idle", "--idle", str(size), "--events",
                   str(events), "--idle-peers", ",".join(peers), "--active",
                   f"127.0.0.1:{pulse.first_line()}"]
        client = Process(command, CLIENT_CORE, context.directory)
        text = client.wait(300)
        pulse.stop()
        serve.stop()
        if client.child.returncode:
            raise Failed(f"{client.line}: {client.errors()}")
        found = json.loads(text)
        if not prefix or found["uneven"] <= UNEVEN_MAX * events:
            return found, client.line
    raise Failed(f"events of {client.line} are not alike: {found['uneven']} of {events}")


def collected(out: Path) -> int:
    """All instructions in a callgrind file."""
    found = re.search(r"^(?:summary|totals): (\d+)", out.read_text(errors="replace"), re.MULTILINE)
    if found is None or int(found.group(1)) == 0:
        raise Failed("callgrind counted nothing")
    return int(found.group(1))


SCENARIOS = {"idle-streams": ("one active stream among N idle ones", run)}
