"""What every scenario is given, and the loop that interleaves the two sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Context:
    """One run of the benchmarks."""

    binaries: Path
    directory: Path  # of this run; it is removed at the end
    scripts: Path    # what stands beside this package
    seconds: float   # of each measured interval
    rounds: int


def interleave(rounds: int, *sides: Callable[[], None]) -> None:
    """Every side once a round, each round in the other order than the one before."""
    for number in range(rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            side()
