"""The cone of a program's auxiliary variables: half lines, lines and second-order cones.

A second-order cone over variables x_G = (x_h, x_T) is  {x_h ≥ ‖x_T‖}. It is its own dual: its
condition on the reduced costs r of a maximisation is r_h ≥ ‖r_T‖, as r_j ≥ 0 is that of a
nonnegative variable. Data of many cones lie in a few arrays, so that nothing here loops over cones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.typing import Array, Bools, Indices


@dataclass(frozen=True, eq=False)
class SecondOrderCone:
    """The cone x_h ≥ ‖x_T‖ of free auxiliary variables; build one with `SecondOrderCone.of`.

    Attributes
    ----------
    members : array of int, shape (k,)
        The numbers of the variables, h first.

    Examples
    --------
    >>> SecondOrderCone.of([0, 1, 2]).members
    array([0, 1, 2])
    """

    members: Indices

    @classmethod
    def of(cls, members: ArrayLike) -> SecondOrderCone:
        """The cone over the variables with these numbers, the head first.

        >>> from sdpkit import Block, Program, SecondOrderCone
        >>> cone = SecondOrderCone.of([0, 1, 2])           # x₀ ≥ ‖(x₁, x₂)‖
        >>> unused = Block.of(1, [[1.0]])
        >>> program = Program.of(
        ...     unused, [3.0, 4.0, 0.0], sense="min", rows_q=[[0.0], [0.0], [1.0]],
        ...     rows_x=[[0, 1, 0], [0, 0, 1], [0, 0, 0]], cost_x=[1.0, 0, 0],
        ...     free_x=[True] * 3, cones=[cone])
        >>> import sdpkit
        >>> round(sdpkit.solve(program, solver="interior").objective, 5)
        5.0
        """
        given = np.asarray(members)
        if given.ndim != 1 or not given.size or given.dtype.kind not in "iu":
            raise InputError(
                "a second-order cone needs the numbers of its variables, the head first; got "
                f"{given.dtype.name} of shape {given.shape}"
            )
        numbers = given.astype(np.int64)
        numbers.setflags(write=False)
        return cls(numbers)


@dataclass(frozen=True, eq=False)
class VariableCone:
    """The cone of x.

    Attributes
    ----------
    free: (n_x,) False for nonnegative variables
    members: the members of all second-order cones, one after the other
    starts: (k,) where each of them begins
    """

    free: Bools
    members: Indices
    starts: Indices

    @classmethod
    def of(cls, free: Bools, cones: tuple[SecondOrderCone, ...]) -> VariableCone:
        """The cone of the variables of a program."""
        sizes = [cone.members.size for cone in cones]
        members = np.concatenate([np.zeros(0, dtype=np.int64), *(c.members for c in cones)])
        starts = np.cumsum([0, *sizes])[:-1]
        return cls(free, members, starts.astype(np.int64))

    @property
    def heads(self) -> Indices:
        """(k,) the heads of the second-order cones."""
        return self.members[self.starts]

    @cached_property
    def owners(self) -> Indices:
        """The second-order cone of each member."""
        sizes = np.diff(np.r_[self.starts, self.members.size])
        return np.repeat(np.arange(self.starts.size), sizes)

    @cached_property
    def inside(self) -> Bools:
        """(n_x,) the members of second-order cones."""
        out = np.zeros(self.free.size, dtype=bool)
        out[self.members] = True
        return out

    @cached_property
    def lines(self) -> Bools:
        """(n_x,) the variables without any condition."""
        return self.free & ~self.inside

    @cached_property
    def unit(self) -> Array:
        """(n_x,) a point of the interior: 1 for half lines and heads, 0 for the others."""
        out = np.where(self.free, 0.0, 1.0)
        out[self.heads] = 1.0
        return out

    def lengths(self, values: Array) -> Array:
        """(k,) ‖x_T‖."""
        if not self.starts.size:
            return np.zeros(0)
        tails = np.abs(values[self.members])
        tails[self.starts] = 0.0
        size = float(tails.max(initial=0.0))
        # Squares of numbers near one neither overflow nor underflow.
        unit = 2.0 ** np.clip(np.frexp(size)[1], -1000, 1000) if 0 < size < np.inf else 1.0
        return np.asarray(unit * np.sqrt(np.add.reduceat((tails / unit) ** 2, self.starts)))

    def lack(self, values: Array) -> Array:
        """(k,) ‖x_T‖ − x_h: positive outside of the cone."""
        return self.lengths(values) - values[self.heads]

    def short(self, values: Array) -> float:
        """By how much `values` miss the half lines and the second-order cones at most."""
        below = float(np.maximum(-values[~self.free], 0.0).max(initial=0.0))
        return max(below, float(self.lack(values).max(initial=0.0)))

    def products(self, r: Array, x: Array) -> Array:
        """r_j x_j of all variables outside of second-order cones, and rᵀx of each of these."""
        each = r * x
        sums = np.bincount(self.owners, each[self.members], self.starts.size)
        return np.concatenate([each[~self.inside], sums])

    def projected(self, x: Array) -> Array:
        """The nearest point of the cone."""
        out = np.where(self.free, x, np.maximum(x, 0.0))
        if not self.starts.size:
            return out
        head, length = out[self.heads], self.lengths(out)
        outside = length > head
        if not outside.any():
            return out
        mean = np.maximum((head + length) / 2, 0.0)
        factor = np.divide(mean, length, out=np.zeros_like(mean), where=length > 0)
        factor = np.where(outside, factor, 1.0)
        out[self.members] *= factor[self.owners]
        out[self.heads] = np.where(outside, mean, head)
        return out


__all__ = ["SecondOrderCone", "VariableCone"]
