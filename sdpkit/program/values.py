"""Where a program keeps what was written: the values of expressions at a solution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sdpkit.errors import InputError
from sdpkit.program.atoms import (
    Absolute,
    Atom,
    Auxiliary,
    Entries,
    Inner,
    Lengths,
    LogDet,
    Penalty,
)
from sdpkit.program.matrices import MatrixExpression
from sdpkit.typing import Array

if TYPE_CHECKING:
    from sdpkit.program.expressions import Expression, Unknown
    from sdpkit.program.gram import Matrix


@dataclass(frozen=True, eq=False)
class Places:
    """Where the unknowns and variables of a model are in its program.

    Attributes
    ----------
    unknowns: in the order of the blocks
    variables: with the number of the first column of each, or of the first row where
    by_rows: the variables are multipliers of the rows
    """

    unknowns: tuple[Unknown, ...]
    variables: tuple[tuple[Auxiliary, int], ...]
    by_rows: bool = False

    def value(
        self, what: Any, matrices: Sequence[Matrix], x: Array, dual: Array | None
    ) -> Array | float:
        """An unknown, an expression or a matrix of them at a point; a number where it has size
        1."""
        numbers = dual if self.by_rows else x
        if numbers is None or (not matrices and self.unknowns):
            raise InputError("this solution has no point, so that expressions have no value")
        point = _Values(self, matrices, numbers)
        if hasattr(what, "as_matrix"):
            return np.asarray(point.matrix(what))
        if isinstance(what, MatrixExpression):
            return point.vector(what.entries).reshape(what.shape)
        if not hasattr(what, "terms"):
            raise InputError(
                f"value takes unknowns, variables and expressions, not {type(what).__name__}"
            )
        found = point.vector(what)
        return float(found[0]) if found.size == 1 else found


@dataclass(frozen=True, eq=False)
class _Values:
    places: Places
    matrices: Sequence[Matrix]
    numbers: Array

    def vector(self, e: Expression) -> Array:
        out = e.constant.copy()
        for atom, a in e.terms:
            out += a @ self.atom(atom)
        return np.asarray(out)

    def matrix(self, unknown: Unknown) -> Matrix:
        for known, matrix in zip(self.places.unknowns, self.matrices, strict=False):
            if known is unknown:
                return matrix
        raise InputError(f"the unknown {unknown.name} is not part of this program")

    def atom(self, atom: Atom) -> Array:
        if isinstance(atom, Auxiliary):
            for known, start in self.places.variables:
                if known is atom:
                    return self.numbers[start : start + atom.size]
            raise InputError(f"the variable {atom.name} is not part of this program")
        if isinstance(atom, Absolute):
            return np.abs(self.vector(atom.expression))
        if isinstance(atom, Penalty):
            size = float(np.linalg.norm(self.vector(atom.expression)))
            return np.array([size if atom.kind == "norm" else size**2])
        dense = np.asarray(self.matrix(atom.unknown))
        if isinstance(atom, Entries):
            return np.asarray(dense[atom.i, atom.j])
        if isinstance(atom, Inner):
            return np.array([atom.cost.inner(dense)])
        if isinstance(atom, LogDet):
            return np.array([np.linalg.slogdet(dense)[1]])
        assert isinstance(atom, Lengths)
        features = atom.unknown.features
        v = atom.vectors if features is None else sp.csr_array(atom.vectors @ features)
        return np.asarray((v @ dense * v.toarray()).sum(axis=1))
