"""What an engine expects to need: work, counted from a program's sizes, times measured costs.

An engine counts its work in a few terms (`work`): its iterations, what they multiply and factor.
Beside that stand the seconds that a unit of each term takes (`costs`), fitted to measured runs:
`make bench NAME=auto ARGS="--fit"` prints them for docs/auto.csv.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class UnitCosts:
    """The seconds of one core that an engine's work takes.

    Attributes
    ----------
    units: per unit of each term of its work
    loading: to load its kernels; the measured runs are second runs, which do not show it

    >>> UnitCosts((0.5, 2.0), loading=0.1).seconds((1.0, 3.0))
    6.6
    """

    units: tuple[float, ...]
    loading: float = 0.0

    def seconds(self, work: Sequence[float]) -> float:
        """For some work, in the same terms."""
        terms = zip(self.units, work, strict=True)
        return self.loading + sum(cost * units for cost, units in terms)


__all__ = ["UnitCosts"]
