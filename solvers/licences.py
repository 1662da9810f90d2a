"""Whether a commercial solver that is installed has a licence here, found out without a crash."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

# Knitro writes to the terminal when it looks for a licence, so another process asks.
_KNITRO = "import knitro; knitro.KN_free(knitro.KN_new())"


@cache
def without_licence(cvxpy_name: str) -> bool:
    """Whether this solver of cvxpy needs a licence that is not there.

    >>> without_licence("CLARABEL")
    False
    """
    check = _CHECKS.get(cvxpy_name)
    return check is not None and not check()


def _mosek() -> bool:
    import mosek

    try:
        with mosek.Env() as environment:
            environment.checkoutlicense(mosek.feature.pton)
    except mosek.Error:
        return False
    return True


def _knitro() -> bool:
    run = subprocess.run([sys.executable, "-c", _KNITRO], capture_output=True, check=False)
    return run.returncode == 0


_CHECKS = {"MOSEK": _mosek, "KNITRO": _knitro}
