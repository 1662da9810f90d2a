"""How many threads work, and on what: BLAS threads and threads of our own must not multiply."""

from __future__ import annotations

import os
from functools import cache
from typing import Any


def one_blas_thread() -> Any:
    """A context in which BLAS uses one thread: for small matrices, or when tiles are shared out."""
    return _blas().limit(limits=1)


def workers() -> int:
    """How many threads of our own may work at once: the cores this process may use, or fewer
    where OMP_NUM_THREADS or OPENBLAS_NUM_THREADS says so."""
    limits = [os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min([cores or 1, *(int(limit) for limit in limits if limit.isdigit())]))


@cache
def _blas() -> Any:
    """The BLAS libraries of this process; looking for them takes longer than a small solve."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
