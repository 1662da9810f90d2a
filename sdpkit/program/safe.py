"""What a problem adds to its rows: knowledge that makes bounds safe, and norm penalties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sdpkit.typing import Array

if TYPE_CHECKING:
    # Families compile kernels; programs of plain rows do not wait for that.
    pass


@dataclass(frozen=True, eq=False)
class SafeBounds:
    """What a problem knows that turns an inexact dual into a bound that holds.

    Attributes
    ----------
    trace : tuple of float or None
        Per block an upper bound on tr M over the feasible set (inf where unknown).
    direction : array of shape (m,) or None
        Repair direction w₀ with Vᵀdiag(A_qᵀw₀)V ⪰ I on the face and right signs.
    anchor : array of shape (m,) or None
        A multiplier known to be dual feasible.
    value_scale : float or None
        The least unit in which gaps are measured, a value that counts as zero; by default 1, or
        less where all data are tiny (`Program.value_floor`).

    Notes
    -----
    `direction` and `anchor` are checked by the certificate before they are used; `trace` is the
    claim of the problem.

    Examples
    --------
    >>> SafeBounds(trace=(4.0,)).direction is None
    True
    """

    trace: tuple[float, ...] | None = None
    direction: Array | None = None
    anchor: Array | None = None
    value_scale: float | None = None


@dataclass(frozen=True, eq=False)
class NormPenalty:
    """The penalty ρ‖x_G‖ over a group G of free auxiliary variables.

    Attributes
    ----------
    weight : float
        ρ ≥ 0.
    group : tuple of int
        The numbers of the variables in G.

    Examples
    --------
    >>> NormPenalty(weight=2.0, group=(0, 1)).weight
    2.0
    """

    weight: float
    group: tuple[int, ...]
