"""What an engine expects to need: work, counted from a program's sizes, at measured prices.

An engine counts its work in a few terms (`work`): its iterations, what they multiply and factor.
The seconds that a unit of each term takes are fitted to measured runs:
`make bench NAME=auto ARGS="--fit"` prints this table anew from docs/auto.csv.
"""

from __future__ import annotations

from collections.abc import Sequence

# Engine → seconds per unit of each term of its work.
PRICES: dict[str, tuple[float, ...]] = {
    "interior": (0.00064, 1.4e-08, 1.9e-12, 8.9e-12),
    "barrier": (9.9e-05, 1.4e-05, 3e-08, 3.5e-07, 1e-05),
    "lowrank": (1.2, 1.8e-09, 3.6e-13, 2.1e-07, 1e-06),
    "projection": (0.14, 1.2e-08, 6.5e-13),
    "factored": (0.045, 2.7e-06),
    "covering": (0.01, 1.5e-09),
    "ascent": (0.011, 6.1e-05),
}
# Seconds to load an engine's kernels. Runs of the table are second runs, which do not show it.
LOADING_SECONDS = {"barrier": 0.05, "factored": 0.05}


def forecast(engine: str, work: Sequence[float]) -> float:
    """Seconds of one core for some work.

    >>> forecast("factored", (1.0, 0.0)) < forecast("factored", (1.0, 1e6))
    True
    """
    priced = zip(PRICES[engine], work, strict=True)
    return LOADING_SECONDS.get(engine, 0.0) + sum(price * units for price, units in priced)
