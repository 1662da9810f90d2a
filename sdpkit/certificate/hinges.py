"""The value of a point where a family of comparisons is penalised: every M ⪰ 0 is feasible.

M = FFᵀ for a factor F of floats, which is positive semidefinite without any proof. Its value,
<C, FFᵀ> + weight·Σ[z]₊, is computed in floating point: outputs y = XF, squared distances and
hinges. Each z is off by a few roundings of the largest sum that any distance is made of.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sdpkit.certificate.onto_constraints import root_of
from sdpkit.certificate.rounding import TINY, gamma
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.typing import Array


def value_above(program: Program, matrices: list[Array]) -> float | None:
    """A number that the value at a feasible point next to the given one does not exceed.

    None where the program has more than its family and linear costs. It is a minimisation.
    """
    family = program.family
    plain = not program.n_rows and not program.n_auxiliary and program.is_linear
    plain = plain and not program.cost_q.any()
    whole = not any(block.null.shape[1] for block in program.blocks)
    if family is None or program.sense != "min" or not plain or not whole:
        return None
    pairs = list(zip(program.blocks, matrices, strict=True))
    # Eigenvalues ascend: what exceeds a limit on the rank comes first.
    factors = [_kept(root_of(block, m)[:, -(block.max_rank or block.size) :]) for block, m in pairs]
    parts, lost, reach = [program.offset], 0.0, 0.0
    for block, f in zip(program.blocks, factors, strict=True):
        m, size = f @ f.T, np.abs(f) @ np.abs(f).T
        absolute = replace(block.cost, identity=abs(block.cost.identity))
        absolute = replace(
            absolute, sparse=abs(block.cost.sparse), factor=np.abs(block.cost.factor)
        )
        absolute = replace(absolute, weights=np.abs(block.cost.weights))
        parts.append(block.cost.inner(m))
        chain = block.size**2 + f.shape[1] + block.cost.weights.size + 8
        lost += gamma(chain) * abs(absolute.inner(size)) + m.size * TINY
        reach += float(np.square(_outputs(_absolute(block), np.abs(f))).sum(axis=1).max())
    outputs = [_outputs(block, f) for block, f in zip(program.blocks, factors, strict=True)]
    hinges = family.hinge_sum(outputs)
    # y is summed over the features, a squared distance over the columns of y.
    chain = sum(
        2 * block.size + 2 * f.shape[1] for block, f in zip(program.blocks, factors, strict=True)
    )
    each = gamma(chain + 16) * (64 * reach + family.unit) + 64 * TINY
    lost += family.weight * (family.n_rows * each + gamma(family.n_rows + 8) * hinges)
    # Parts may cancel, or hide each other: their sum is rounded once.
    value = math.fsum([*parts, family.weight * hinges])
    value += 1.01 * lost + 8e-16 * abs(value)
    return float(np.nextafter(value, np.inf)) if np.isfinite(value) else None


def _kept(factor: Array) -> Array:
    """The columns that are not zero."""
    return factor[:, np.abs(factor).max(axis=0) > 0]


def _outputs(block: Block, factor: Array) -> Array:
    return factor if block.features is None else np.asarray(block.features @ factor)


def _absolute(block: Block) -> Block:
    return block if block.features is None else replace(block, features=np.abs(block.features))
