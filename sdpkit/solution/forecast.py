"""What an engine expects to need: work, counted from a program's sizes, at measured prices.

An engine counts its work in a few terms (`work`): its iterations, what they multiply and factor.
The seconds that a unit of each term takes are fitted to measured runs. `sdpkit bench auto --fit`
prints this table anew from docs/auto.csv.
"""

from __future__ import annotations

from collections.abc import Sequence

# Engine → seconds per unit of each term of its work.
PRICES: dict[str, tuple[float, ...]] = {
    "interior": (8e-4, 2.2e-11, 2.2e-11),
    "barrier": (0.05, 1.7e-5, 5.8e-8, 5e-5),
    "lowrank": (0.5, 3.3e-6, 3.3e-9, 2.4e-4, 6e-5),
    "projection": (0.5, 3.3e-5, 3.3e-9),
    "factored": (0.2, 5e-6),
    "covering": (0.005, 1e-8),
    "ascent": (0.005, 1e-8),
}


def forecast(engine: str, work: Sequence[float]) -> float:
    """Seconds of one core for some work.

    >>> forecast("factored", (1.0, 0.0)) < forecast("factored", (1.0, 1e6))
    True
    """
    return sum(price * units for price, units in zip(PRICES[engine], work, strict=True))
