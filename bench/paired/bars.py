"""A bar: two medians, what they are held against, and whether it is met."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median


@dataclass(frozen=True)
class Limit:
    """What must hold: of fulmar's median, or of its ratio to the peer's."""

    of: str  # "ratio", "value" or "none"
    high: float = math.inf
    low: float = -math.inf

    def holds(self, value: float | None, ratio: float | None) -> bool | None:
        """None if there is nothing to hold."""
        seen = {"ratio": ratio, "value": value, "none": None}[self.of]
        return None if seen is None else self.low <= seen <= self.high

    def __str__(self) -> str:
        if self.of == "none":
            return "-"
        sign = "x" if self.of == "ratio" else ""
        if self.low > -math.inf and self.high < math.inf:
            return f"{number(self.low)}{sign} to {number(self.high)}{sign}"
        if self.low > -math.inf:
            return f">= {number(self.low)}{sign}"
        return f"<= {number(self.high)}{sign}"


NO_LIMIT = Limit("none")


def at_most(high: float) -> Limit:
    """A limit of the value."""
    return Limit("value", high=high)


def at_least(low: float) -> Limit:
    """A limit of the value, from below."""
    return Limit("value", low=low)


def at_most_times(high: float) -> Limit:
    """A limit of the ratio."""
    return Limit("ratio", high=high)


@dataclass
class Bar:
    """One line of the table, with the samples that it came from."""

    name: str
    unit: str
    limit: Limit
    fulmar: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)
    peer_name: str = ""
    note: str = ""
    commands: list[str] = field(default_factory=list)
    others: dict[str, list[float]] = field(default_factory=dict)  # peers that it is not held against

    @property
    def value(self) -> float | None:
        """Fulmar's median."""
        return median(self.fulmar) if self.fulmar else None

    @property
    def peer_value(self) -> float | None:
        """The peer's median."""
        return median(self.peer) if self.peer else None

    @property
    def ratio(self) -> float | None:
        """Fulmar's median by the peer's."""
        if self.value is None or not self.peer_value:
            return None
        return self.value / self.peer_value

    @property
    def met(self) -> bool | None:
        """None if there is no limit."""
        return self.limit.holds(self.value, self.ratio)

    def with_commands(self, *commands: str) -> Bar:
        """Remembers command lines, each once."""
        self.commands += [line for line in commands if line not in self.commands]
        return self

    def against(self, samples: dict[str, list[float]], name: str | None = None) -> Bar:
        """Holds it against one of several peers: the named one, or else the best, which has least."""
        chosen = name or min(samples, key=lambda peer: median(samples[peer]))
        self.peer_name, self.peer = chosen, samples[chosen]
        self.others = {peer: found for peer, found in samples.items() if peer != chosen}
        told = [f"{peer} {number(median(found))}" for peer, found in self.others.items()]
        self.note = "; ".join(part for part in (self.note, ", ".join(told)) if part)
        return self

    def as_json(self) -> dict:
        """For machines."""
        limit = {key: value for key, value in asdict(self.limit).items()
                 if not isinstance(value, float) or math.isfinite(value)}
        return {
            "bar": self.name, "unit": self.unit, "peer": self.peer_name,
            "peer_median": self.peer_value, "fulmar_median": self.value, "ratio": self.ratio,
            "limit": limit, "met": self.met, "note": self.note,
            "peer_samples": self.peer, "other_samples": self.others,
            "fulmar_samples": self.fulmar, "commands": self.commands,
        }


def table(machine: dict[str, str], options: str, bars: list[Bar], failures: list[str]) -> str:
    """All of it, for people."""
    lines = [f"Machine: {', '.join(f'{key} {value}' for key, value in machine.items() if value)}.",
             "", f"Run: `{options}`", "",
             "| bar | peer | peer's median | fulmar's median | ratio | limit | |",
             "|---|---|---|---|---|---|---|"]
    for bar in bars:
        unit = f" {bar.unit}" if bar.unit else ""
        met = {True: "met", False: "**not met**", None: ""}[bar.met]
        cells = [bar.name + (f" ({bar.note})" if bar.note else ""), bar.peer_name or "-",
                 number(bar.peer_value) + (unit if bar.peer else ""),
                 number(bar.value) + unit, number(bar.ratio), str(bar.limit), met]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"Not measured: {text}\n" for text in failures), "Commands:", ""]
    for bar in bars:
        lines += [f"- {bar.name}", *(f"  - `{line}`" for line in bar.commands)]
    return "\n".join(lines) + "\n"


def write(path: Path, machine: dict[str, str], options: str, bars: list[Bar],
          failures: list[str]) -> str:
    """The JSON, and the table beside it; the table is returned."""
    text = table(machine, options, bars, failures)
    record = {"machine": machine, "run": options, "failures": failures,
              "bars": [bar.as_json() for bar in bars]}
    path.write_text(json.dumps(record, indent=1) + "\n")
    path.with_suffix(".md").write_text(text)
    return text


def number(value: float | None) -> str:
    """Enough digits to compare, and no more."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 10 else f"{value:.3f}".rstrip("0").rstrip(".")
