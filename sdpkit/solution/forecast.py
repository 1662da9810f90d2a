"""What an engine expects to need: work, counted from a program's sizes, at measured prices.

An engine counts its work in a few terms (`work`): its iterations, what they multiply and factor.
The seconds that a unit of each term takes are fitted to measured runs. `sdpkit bench auto --fit`
prints this table anew from docs/auto.csv.
"""

from __future__ import annotations

from collections.abc import Sequence

# Engine → seconds per unit of each term of its work.
PRICES: dict[str, tuple[float, ...]] = {
    "interior": (0.002, 3.1e-11, 2.1e-11),
    "barrier": (0.001, 2.4e-5, 4.7e-8, 5.2e-7, 1.7e-5),
    "lowrank": (1.2, 2e-9, 1.8e-12, 5.1e-7, 6e-5),
    "projection": (0.11, 1.9e-8, 4.5e-11),
    "factored": (0.17, 1.3e-6),
    "covering": (0.014, 1.5e-9),
    "ascent": (0.02, 9e-5),
}
# Seconds to load an engine's kernels. Runs of the table are second runs, which do not show it.
LOADING_SECONDS = {"barrier": 0.05}


def forecast(engine: str, work: Sequence[float]) -> float:
    """Seconds of one core for some work.

    >>> forecast("factored", (1.0, 0.0)) < forecast("factored", (1.0, 1e6))
    True
    """
    priced = zip(PRICES[engine], work, strict=True)
    return LOADING_SECONDS.get(engine, 0.0) + sum(price * units for price, units in priced)
