"""Atoms: vectors of unknown numbers that no arithmetic on expressions takes apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import scipy.sparse as sp

from sdpkit.program.cost import Cost
from sdpkit.typing import Indices

if TYPE_CHECKING:
    from sdpkit.program.expressions import Expression, Unknown


@dataclass(frozen=True, eq=False)
class Lengths:
    """q_p = v_pᵀ M v_p for the rows of `vectors`, (p, N) over the nodes of the unknown."""

    unknown: Unknown
    vectors: sp.csr_array

    @property
    def size(self) -> int:
        return int(self.vectors.shape[0])


@dataclass(frozen=True, eq=False)
class Entries:
    """M_ij for the indices i, j, (p,) each."""

    unknown: Unknown
    i: Indices
    j: Indices

    @property
    def size(self) -> int:
        return int(self.i.size)


@dataclass(frozen=True, eq=False)
class Inner:
    """<C, M>."""

    unknown: Unknown
    cost: Cost
    size: int = 1


@dataclass(frozen=True, eq=False)
class Auxiliary:
    """Real variables, nonnegative unless free."""

    name: str
    size: int
    free: bool


@dataclass(frozen=True, eq=False)
class LogDet:
    """log det M."""

    unknown: Unknown
    size: int = 1


@dataclass(frozen=True, eq=False)
class Penalty:
    """‖e‖² ("squares") or ‖e‖ ("norm") of an affine expression e."""

    kind: Literal["squares", "norm"]
    expression: Expression
    size: int = 1


@dataclass(frozen=True, eq=False)
class Absolute:
    """|e_k| of the entries of an affine expression e."""

    expression: Expression

    @property
    def size(self) -> int:
        return self.expression.size


# Any of them.
Atom: TypeAlias = Lengths | Entries | Inner | Auxiliary | LogDet | Penalty | Absolute
