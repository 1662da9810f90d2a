"""Passes over all comparisons on a Dask cluster.

A pass is a sum over anchors. Blocks of anchors are given to workers, which have been sent the
points once: with each pass they get the factor, and they return sums of size d × d. The pairs that
a worker found near stay there for its next pass over the same anchors. If a worker dies, the
scheduler gives its blocks of this pass to others, which search once more.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import numpy as np

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.numerics.threads import no_other_threads, one_thread_of_blas
from sdpkit.program.smoothed import Smoothed
from sdpkit.solvers.hinge_program import Factors, HingeProgram
from sdpkit.typing import Array

# Blocks of anchors for each worker: a block is what its death costs.
_BLOCKS_PER_WORKER = 4
# Seconds between two looks whether a pass is complete.
_PAUSE = 0.05
# Passes that are tried on the cluster before this machine makes them.
_TRIES = 2


def current_client() -> Any:
    """The client of `joblib.parallel_config("dask")`, or None outside of it."""
    if not {"joblib", "distributed"} <= set(sys.modules):
        return None
    from joblib.parallel import get_active_backend

    return getattr(get_active_backend()[0], "client", None)


@dataclass(frozen=True, eq=False)
class SentPoints:
    """What workers keep of a problem.

    Attributes
    ----------
    token: of this run;  family: all comparisons;  features: per block (n, d)
    starts: where the target pairs of each block of anchors begin
    memory: bytes that the kept pairs of a block may take;  margin: their radius over the reach
    """

    token: str
    family: Any
    features: list[Array]
    starts: Sequence[int]
    memory: float
    margin: float


@dataclass(eq=False)
class ClusterPasses:
    """Full passes on the workers of a client.

    Attributes
    ----------
    memory: bytes that kept pairs may take on each worker
    sent: where the points are, once they were sent;  has_failed: whether the cluster is given up
    """

    client: Any
    problem: HingeProgram
    memory: float
    margin: float
    has_failed: bool = False
    sent: Any = None
    _count: int = field(default=0)

    def smoothed(self, factors: Factors, width: float) -> Smoothed | None:
        """The sums of a pass; None if the cluster fails, now and from then on."""
        for _ in range(0 if self.has_failed else _TRIES):
            try:
                return self._summed(factors, width)
            except Exception as error:  # of the cluster, whatever it is called
                if type(error).__module__.partition(".")[0] not in ("distributed", "builtins"):
                    raise
                self.sent = None
        self.has_failed = True
        return None

    def _summed(self, factors: Factors, width: float) -> Smoothed:
        workers = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        if not workers:
            raise OSError("the cluster has no workers")
        if self.sent is None:
            self._send(len(workers))
        futures = [
            self.client.submit(
                sums_of_block,
                self.sent,
                block,
                factors,
                width,
                workers=[workers[block % len(workers)]],
                allow_other_workers=True,
                pure=False,
            )
            for block in range(self._count)
        ]
        try:
            while not all(future.done() for future in futures):
                continue_or_raise()
                time.sleep(_PAUSE)
            return _added(self.client.gather(futures))
        finally:
            self.client.cancel(futures)

    def _send(self, workers: int) -> None:
        family: Any = self.problem.family
        anchors = np.flatnonzero(np.diff(family.target_starts))
        self._count = min(_BLOCKS_PER_WORKER * workers, anchors.size)
        first = [int(part[0]) for part in np.array_split(anchors, self._count)]
        starts = [*family.target_starts[first].tolist(), len(family.target_pairs)]
        memory = self.memory / _BLOCKS_PER_WORKER
        points = SentPoints(
            uuid4().hex, replace(family), self.problem.features, starts, memory, self.margin
        )
        self.sent = self.client.scatter(points, broadcast=True, hash=False)


def _added(parts: Sequence[Smoothed]) -> Smoothed:
    return Smoothed(
        hinges=math.fsum(part.hinges for part in parts),
        worth=math.fsum(part.worth for part in parts),
        inner=math.fsum(part.inner for part in parts),
        count=sum(part.count for part in parts),
        images=[
            np.sum(images, axis=0) for images in zip(*(part.images for part in parts), strict=True)
        ],
        masses=[sum(masses) for masses in zip(*(part.masses for part in parts), strict=True)],
    )


# -- on a worker ----------------------------------------------------------------------------------

# The comparisons of blocks, with the pairs that they keep: of one run at a time.
_held: dict[tuple[str, int], Any] = {}


def sums_of_block(points: SentPoints, block: int, factors: Factors, width: float) -> Smoothed:
    """The sums over the comparisons of a block of anchors."""
    for key in [key for key in _held if key[0] != points.token]:
        _held.pop(key, None)
    family = _held.get((points.token, block))
    if family is None:
        some = slice(points.starts[block], points.starts[block + 1])
        family = replace(points.family, target_pairs=points.family.target_pairs[some])
        family.keeping.start(points.memory, points.margin)
        _held[points.token, block] = family
    outputs = [x @ factor.T for x, factor in zip(points.features, factors, strict=True)]
    with no_other_threads(), one_thread_of_blas():
        sums: Smoothed = family.smoothed(outputs, points.features, width)
    return sums
