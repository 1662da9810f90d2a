"""The common form: a program in squared lengths.

The unknown is one or several positive semidefinite matrices M, and the data touch them only
through the squared lengths  q_p = v_pᵀ M v_p  of given vectors v_p (the *measurements*):

    maximise    <C, M> + gᵀq + cᵀx − ½ Σ h_j x_j² − Σ_G ρ_G ‖x_G‖ + β log det M
    subject to  A_q q + A_x x  {=, ≤, ≥}  b
                M ⪰ 0,  M N = 0,   x_j ≥ 0 unless free,   x_h ≥ ‖x_T‖ for second-order cones

Dual, one multiplier w_e per row; with u = A_qᵀw − g and r = A_xᵀw − c:

    minimise    bᵀw + Σ_j r_j²/(2h_j) − β log det S + βk(log β − 1)
                                                 (r_j⁻ only, where x_j ≥ 0)
    subject to  S = Vᵀ diag(u) V − C ⪰ 0  on the face {z : Nᵀz = 0}
                w_e ≥ 0 on ≤ rows,  w_e ≤ 0 on ≥ rows,
                r_j ≥ 0 (= 0 if x_j is free),  ‖r_G‖ ≤ ρ_G,  r_h ≥ ‖r_T‖

A minimisation is the maximisation of the negated objective, with the penalties h and ρ added
instead of subtracted, β log det M subtracted instead of added and the multipliers negated, so
that its dual reads  max bᵀw, C − Vᵀdiag(A_qᵀw − …)V ⪰ 0.  Each block has its own β ≥ 0, most
β = 0; determinants are those on the face, k is its dimension, S ≻ 0 there and M = βS⁻¹ at the
optimum where β > 0.  M N = 0 (centring, facial reduction) is part of the cone and never
a constraint: a constraint would take the interior away from every interior-point method.

A minimisation may carry a *family* of penalised inequalities that are too many to write down
(`sdpkit.program.families`) instead of rows:

    minimise  <C, M> + weight · Σ_t [c_t + q_ij − q_il]₊
    dual:     maximise Σc_tα_t,  0 ≤ α ≤ weight,  C + Σ_t α_t (v_ij v_ijᵀ − v_il v_ilᵀ) ⪰ 0

Any part of the family is a program of plain constraints (`Program.restricted`), whose multipliers
bound the whole.

The form is data only: immutable, validated, printable, fingerprinted, saved and loaded as npz.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.files import reading
from sdpkit.inputs import finite_csr, finite_vector, instance, instances, real_number
from sdpkit.plotting.cards import card_of
from sdpkit.plotting.pictures import plot_rows
from sdpkit.program.block import Block, differences
from sdpkit.program.checks import (
    auxiliary,
    check_parts,
    check_sense,
    measurement_rows,
    right_side,
    signs_of,
    some_blocks,
)
from sdpkit.program.claims import proven_claims
from sdpkit.program.cost import dense
from sdpkit.program.files import fingerprint_of, read_program, save_program
from sdpkit.program.identity import sparse_identity
from sdpkit.program.printing import Wording, describe
from sdpkit.program.safe import NormPenalty, SafeBounds
from sdpkit.program.second_order import SecondOrderCone, VariableCone
from sdpkit.program.sizes import norms_of_rows
from sdpkit.typing import Array, Bools

if TYPE_CHECKING:
    # Families compile kernels; programs of plain rows do not wait for that.
    from sdpkit.program.families import RowFamily, Rows, Terms
    from sdpkit.program.gram import Matrix
    from sdpkit.program.values import Places

Sense = Literal["max", "min"]

# Entries of all unknowns up to which vectors of all of them are formed.
_LARGEST_DENSE = 4_000_000


@dataclass(frozen=True, eq=False)
class Program:
    """A program in squared lengths; the docstring of `sdpkit.program.form` states it and its dual.

    Build one with `Program.of`, which fills in what is omitted and validates the rest.

    Attributes
    ----------
    sense : {"max", "min"}
        "max" or "min".
    blocks : tuple of Block
        The semidefinite unknowns; their measurements are numbered one after the other.
    rows_q : csr_array of shape (m, p)
        Csr array A_q.
    rows_x : csr_array of shape (m, n_x)
        Csr array A_x.
    relations : array of shape (m,)
        −1 for ≤, 0 for =, +1 for ≥.
    rhs : array of shape (m,)
        b.
    cost_q : array of shape (p,)
        g.
    cost_x : array of shape (n_x,)
        c.
    free_x : array of bool, shape (n_x,)
        Bool.
    quadratic_x : array of shape (n_x,)
        h ≥ 0.
    norms : tuple of NormPenalty
        Euclidean-norm penalties.
    offset : float
        a constant added to the objective.
    cones : tuple of SecondOrderCone
        Second-order cones over free variables.
    family : RowFamily or None
        Penalised inequalities that are not written down, or None.
    wording : Wording or None
        How the program was written, for printing only, or None.
    notes : tuple of str
        What a reader of the solution should know about how the program was made.
    places : Places or None
        Where the unknowns and variables are that it was written in, or None.
    name : str
        The name, for printing.
    safe : SafeBounds
        What is known that makes bounds safe.

    Examples
    --------
    >>> from sdpkit import Block, Cost
    >>> block = Block.of(2, [[1.0, -1.0]], cost=Cost.of(2, identity=1.0), null=[1.0, 1.0])
    >>> program = Program.of(block, [4.0])              # two points at distance 2
    >>> program.n_rows, program.sense
    (1, 'max')
    """

    name: str
    sense: Sense
    blocks: tuple[Block, ...]
    rows_q: sp.csr_array
    rows_x: sp.csr_array
    relations: NDArray[np.int8]
    rhs: Array
    cost_q: Array
    cost_x: Array
    free_x: Bools
    quadratic_x: Array
    norms: tuple[NormPenalty, ...] = ()
    offset: float = 0.0
    safe: SafeBounds = field(default_factory=SafeBounds)
    notes: tuple[str, ...] = ()
    family: RowFamily | None = None
    cones: tuple[SecondOrderCone, ...] = ()
    # Not taken over by `dataclasses.replace`: with other data it would be wrong.
    wording: Wording | None = field(default=None, init=False)
    places: Places | None = field(default=None, init=False)

    @classmethod
    def of(
        cls,
        blocks: Block | Sequence[Block],
        rhs: ArrayLike,
        *,
        sense: Sense = "max",
        rows_q: Any = None,
        rows_x: Any = None,
        relations: str | ArrayLike = "==",
        cost_q: ArrayLike | None = None,
        cost_x: ArrayLike | None = None,
        free_x: ArrayLike | None = None,
        quadratic_x: ArrayLike | None = None,
        norms: Sequence[NormPenalty] = (),
        cones: Sequence[SecondOrderCone] = (),
        offset: float = 0.0,
        safe: SafeBounds | None = None,
        notes: Sequence[str] = (),
        family: RowFamily | None = None,
        name: str = "program",
        wording: Wording | None = None,
    ) -> Program:
        """Build and validate a program.

        `rows_q` omitted means one row per measurement; `relations` is one of "==", "<=", ">=",
        or one of these (or 0, −1, 1) per row.

        >>> from sdpkit import Cost
        >>> block = Block.of(2, [[1.0, -1.0]], cost=Cost.of(2, identity=1.0), null=[1.0, 1.0])
        >>> print(Program.of(block, [4.0], name="two points"))
        two points
          maximise    <C, M>,  C = I
          subject to  A_q q = b  (1 constraint),  q_p = v_pᵀ M v_p  (1 measurement)
                      M ∈ S², M ⪰ 0, M1 = 0
        """
        check_sense(sense)
        blocks = some_blocks(blocks)
        b = right_side(rhs)
        p = sum(block.n_measurements for block in blocks)
        x, free, h = auxiliary(rows_x, free_x, quadratic_x)
        program = cls(
            name=name,
            sense=sense,
            blocks=blocks,
            rows_q=measurement_rows(rows_q, p, b.size),
            rows_x=finite_csr(x, (b.size, free.size), "rows_x"),
            relations=signs_of(relations, b.size),
            rhs=b,
            cost_q=finite_vector(cost_q, p, "cost_q"),
            cost_x=finite_vector(cost_x, free.size, "cost_x"),
            free_x=free,
            quadratic_x=h,
            norms=instances(norms, NormPenalty, "norms"),
            cones=instances(cones, SecondOrderCone, "cones"),
            offset=real_number(offset, "offset"),
            safe=SafeBounds() if safe is None else instance(safe, SafeBounds, "safe"),
            notes=tuple(notes),
            family=family,
        )
        object.__setattr__(program, "wording", wording)
        check_parts(program)
        return program

    @property
    def sentences(self) -> Wording | None:
        """`wording` under its former name."""
        warnings.warn("Program.sentences is now Program.wording", DeprecationWarning, stacklevel=2)
        return self.wording

    # -- sizes -------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """m."""
        return int(self.rhs.size)

    @property
    def n_auxiliary(self) -> int:
        """n_x."""
        return int(self.cost_x.size)

    @property
    def sign(self) -> float:
        """+1 for a maximisation, −1 for a minimisation."""
        return 1.0 if self.sense == "max" else -1.0

    @property
    def is_linear(self) -> bool:
        """True if neither a quadratic or norm penalty nor a log det is present."""
        return not self.norms and not self.quadratic_x.any() and not self.has_log_det

    @property
    def has_log_det(self) -> bool:
        """True if the objective holds the log det of some block."""
        return any(block.log_det for block in self.blocks)

    @cached_property
    def cone_x(self) -> VariableCone:
        """The cone of x: half lines, lines and second-order cones."""
        return VariableCone.of(self.free_x, self.cones)

    @cached_property
    def equations_x(self) -> Bools:
        """(n_x,) the variables with r_j = 0 in the dual: free, in no cone, without a penalty."""
        out: Bools = np.logical_and(self.cone_x.lines, self.quadratic_x == 0)
        for penalty in self.norms:
            out[list(penalty.group)] = False
        return out

    @property
    def spans(self) -> list[slice]:
        """Where the measurements of each block lie among all p."""
        ends = np.cumsum([0] + [block.n_measurements for block in self.blocks]).tolist()
        return [slice(start, stop) for start, stop in pairwise(ends)]

    def split(self, values: Array) -> list[Array]:
        """Cut a vector over all measurements into one vector per block."""
        return [values[span] for span in self.spans]

    # -- primal ------------------------------------------------------------------------------

    def measure(self, matrices: Sequence[Matrix]) -> Array:
        """q over all blocks, shape (p,)."""
        return np.concatenate(
            [block.measure(m) for block, m in zip(self.blocks, matrices, strict=True)]
        )

    def row_values(self, q: Array, x: Array) -> Array:
        """A_q q + A_x x, shape (m,)."""
        return np.asarray(self.rows_q @ q + self.rows_x @ x)

    def violations(self, q: Array, x: Array) -> Array:
        """By how much each row is violated, shape (m,), nonnegative."""
        return self.excess(self.row_values(q, x) - self.rhs)

    def excess(self, residual: Array) -> Array:
        """What of a residual (row value − rhs) is a violation, shape (m,), nonnegative."""
        one_sided = np.maximum(-self.relations * residual, 0.0)
        return np.where(self.relations == 0, np.abs(residual), one_sided)

    def objective(self, matrices: Sequence[Matrix], x: Array) -> float:
        """The objective in the program's own sense."""
        value = self.offset + float(self.cost_x @ x)
        for block, matrix in zip(self.blocks, matrices, strict=True):
            value += block.cost.inner(matrix)
        if self.cost_q.any():
            value += float(self.cost_q @ self.measure(matrices))
        if self.family is not None:
            value += self.family.weight * self.family.hinge_sum(self.outputs(matrices))
        return value - self.sign * (self.penalty(x) - self.log_dets(matrices))

    def log_dets(self, matrices: Sequence[Matrix]) -> float:
        """Σ β log det M over the blocks that have one; −inf unless M ≻ 0 on their faces."""
        pairs = zip(self.blocks, matrices, strict=True)
        return sum(b.log_det * b.log_det_on_face(np.asarray(m)) for b, m in pairs if b.log_det)

    def outputs(self, matrices: Sequence[Matrix]) -> list[Array]:
        """Per block the nodes' images X Lᵀ with M = LᵀL, (N, rank): ‖y_i − y_j‖² measures M."""
        out = []
        for block, matrix in zip(self.blocks, matrices, strict=True):
            values, vectors = scipy.linalg.eigh(np.asarray(matrix))
            kept = values > 1e-15 * max(values[-1], 0.0)
            factor = vectors[:, kept] * np.sqrt(values[kept])
            out.append(factor if block.features is None else block.features @ factor)
        return out

    def penalty(self, x: Array) -> float:
        """½ Σ h_j x_j² + Σ ρ_G ‖x_G‖."""
        value = 0.5 * float((self.quadratic_x * x) @ x)  # x² alone may overflow where h is 0
        return value + sum(p.weight * float(np.linalg.norm(x[list(p.group)])) for p in self.norms)

    # -- dual --------------------------------------------------------------------------------
    # Everything below takes the multipliers of the *maximisation*: `sign * w`. One convention
    # inside, the papers' signs outside.

    def measurement_weights(self, w: Array) -> Array:
        """u = A_qᵀw − g of the maximisation, shape (p,)."""
        return np.asarray(self.rows_q.T @ w - self.sign * self.cost_q)

    def dual_slacks(self, w: Array) -> list[Array]:
        """S per block for multipliers w of the maximisation."""
        images = self._images(self.measurement_weights(w))
        return [
            image - self.sign * block.cost.dense()
            for block, image in zip(self.blocks, images, strict=True)
        ]

    def adjoints(self, w: Array) -> list[Array]:
        """Vᵀ diag(A_qᵀw) V per block, dense: the homogeneous part of the dual slack."""
        return self._images(np.asarray(self.rows_q.T @ w))

    def _images(self, u: Array) -> list[Array]:
        parts = zip(self.blocks, self.split(u), strict=True)
        return [dense(block.adjoint(part)) for block, part in parts]

    def reduced_costs(self, w: Array) -> Array:
        """r = A_xᵀw − c of the maximisation, shape (n_x,)."""
        return np.asarray(self.rows_x.T @ w - self.sign * self.cost_x)

    def dual_value(self, w: Array) -> float:
        """bᵀw + Σ r²/(2h) − β log det S + βk(log β − 1) of the maximisation, without the offset.

        Infinite unless S ≻ 0 on the faces of blocks with a log det.
        """
        value = float(self.rhs @ w)
        if self.has_log_det:
            slacks = self.dual_slacks(w)
            value -= self.log_dets(slacks)
            for block in self.blocks:
                k = block.size - block.null_basis.shape[1]
                value += block.log_det * k * (np.log(block.log_det or 1.0) - 1)
        curved = self.quadratic_x > 0
        if curved.any():
            r = self.reduced_costs(w)
            r = np.where(self.free_x, r, np.minimum(r, 0.0))[curved]
            value += 0.5 * float(np.sum(r**2 / self.quadratic_x[curved]))
        return value

    @property
    def sign_box(self) -> tuple[Array, Array]:
        """(lo, hi): w ≥ 0 on ≤ rows, w ≤ 0 on ≥ rows, for the maximisation."""
        lo = np.where(self.relations == -1, 0.0, -np.inf)
        return lo, np.where(self.relations == 1, 0.0, np.inf)

    @cached_property
    def multiplier_box(self) -> tuple[Array, Array]:
        """(lo, hi): the interval that signs and single-entry slack columns leave each w_e.

        A nonnegative x_j that occurs in one row only, with coefficient a, demands a·w_e ≥ c_j:
        the slack form's |w_e| ≤ ω is such a box.
        """
        lo, hi = self.sign_box
        columns = sp.csc_array(self.rows_x)
        single = (np.diff(columns.indptr) == 1) & ~self.free_x & (self.quadratic_x == 0)
        start = columns.indptr[:-1][single]
        rows, entries = columns.indices[start], columns.data[start]
        limits = self.sign * self.cost_x[single] / entries
        np.maximum.at(lo, rows[entries > 0], limits[entries > 0])
        np.minimum.at(hi, rows[entries < 0], limits[entries < 0])
        return lo, hi

    @cached_property
    def columns_x(self) -> sp.csc_array:
        """A_x by columns."""
        return sp.csc_array(self.rows_x)

    @cached_property
    def slack_columns(self) -> sp.csr_array:
        """(m, k) a column for each inequality: with a nonnegative slack it is an equation."""
        unequal = np.flatnonzero(self.relations)
        entries = (-self.relations[unequal].astype(float), (unequal, np.arange(unequal.size)))
        return sp.csr_array(entries, shape=(self.n_rows, unequal.size))

    @cached_property
    def repair_direction(self) -> Array | None:
        """w₀ for the maximisation: the problem's own, or else the least-squares solution of
        Vᵀdiag(A_qᵀw₀)V = I, A_xᵀw₀ = 1 (max-cut: all ones). The certificate checks it."""
        if self.safe.direction is not None:
            return self.sign * self.safe.direction
        if sum(block.size**2 for block in self.blocks) > _LARGEST_DENSE:
            found = sparse_identity(self)
            return None if found is None else np.clip(found, *self.sign_box)
        rows = sp.hstack([self.matrix_rows, self.rows_x])
        ones = [(np.eye(b.size) - b.unseen @ b.unseen.T).ravel() for b in self.blocks]
        target = np.concatenate([*ones, self.cone_x.unit])
        found = scipy.sparse.linalg.lsqr(sp.csr_array(rows.T), target, atol=1e-14, btol=1e-14)[0]
        return np.clip(found, *self.sign_box)

    @cached_property
    def matrix_rows(self) -> sp.csr_array:
        """(m, Σn²): each row's matrix Σ a_p v_p v_pᵀ as a vector, the blocks side by side."""
        products = sp.block_diag([b.outer_products for b in self.blocks], format="csr")
        return sp.csr_array(self.rows_q @ products)

    @cached_property
    def row_norms(self) -> Array:
        """(m,) norms of the rows in the entries of M and x; 1 for a row of zeros."""
        return norms_of_rows(self)

    @cached_property
    def value_floor(self) -> float:
        """The least unit in which differences of values are measured.

        The problem's own (`SafeBounds.value_scale`), or else 1, and less where all data are tiny:
        min(1, `value_scale`).
        """
        stated = self.safe.value_scale
        return min(1.0, self.value_scale) if stated is None else stated

    @cached_property
    def value_scale(self) -> float:
        """The cost of a point of the size that the constraints suggest: the largest cost times the
        lower median of |b_e|/‖A_e‖ over the constraints with b_e ≠ 0."""
        costs = [block.cost.magnitude() for block in self.blocks]
        linear = float(np.abs(self.cost_x).max(initial=0.0))
        for block, g in zip(self.blocks, self.split(self.cost_q), strict=True):
            if g.any():
                linear = max(linear, float(np.abs(block.adjoint(np.abs(g))).max()))
        return (max(*costs, linear) or 1.0) * self.natural_size

    @cached_property
    def natural_size(self) -> float:
        """The lower median of |b_e|/‖A_e‖ over the rows with b_e ≠ 0; 1 if there are none."""
        sizes = np.sort((np.abs(self.rhs) / self.row_norms)[self.rhs != 0])
        middle = float(sizes[(sizes.size - 1) // 2]) if sizes.size else 1.0
        return max(middle, float(np.finfo(np.float64).tiny))

    def family_images(self, terms: Terms, weights: Array) -> list[Array]:
        """Per block  Σ_t weights_t (v_ij v_ijᵀ − v_il v_ilᵀ)  over rows of the family, dense."""
        from sdpkit.program.families import laplacians

        if self.family is None:
            raise InputError("the program has no family")
        graphs = laplacians(self.family, terms, weights, len(self.blocks))
        return [
            graph.toarray() if b.features is None else b.features.T @ (graph @ b.features)
            for b, graph in zip(self.blocks, graphs, strict=True)
        ]

    # -- derived programs --------------------------------------------------------------------

    def with_places(self, places: Places) -> Program:
        """This program, which knows where the expressions are that it was written in."""
        object.__setattr__(self, "places", places)
        return self

    @property
    def is_dual_side(self) -> bool:
        """Whether it is the dual of the model as it was written."""
        return self.wording is not None and self.wording.sense not in ("", self.sense)

    def restricted(self, rows: Rows) -> Program:
        """The program with only these rows of its family, written with slacks:

        q_il − q_ij + ξ_t ≥ c_t,  ξ_t ≥ 0, with the family's weight on Σξ in the objective.
        """
        family = self.family
        if family is None:
            raise InputError(
                "only a program with a family can be restricted to some of its inequalities"
            )
        terms = family.terms(rows)
        count, n = terms.size, family.n_points
        pairs = np.concatenate([terms.pulls[terms.pull], terms.pushes[terms.push]])
        there = pairs[:, 1] >= 0
        start, end = pairs[there].T
        keys, which = np.unique(start * n + end, return_inverse=True)
        start, end = keys // n, keys % n
        # The measurements of one block after the other.
        order = np.argsort(family.block_of[end], kind="stable")
        position = np.empty_like(order)
        position[order] = np.arange(order.size)
        start, end = start[order], end[order]
        coefficients = np.repeat([-1.0, 1.0], count)[there]
        entries = (coefficients, (np.tile(np.arange(count), 2)[there], position[which]))
        rows_q = sp.csr_array(entries, shape=(count, keys.size))
        if family.summed:
            rows_q = sp.hstack([rows_q] * len(self.blocks), format="csr")
        blocks = [
            replace(block, incidence=differences(start[mine], end[mine], n))
            for k, block in enumerate(self.blocks)
            for mine in [(family.block_of[end] == k) | family.summed]
        ]
        return Program.of(
            blocks,
            terms.row_constants,
            sense="min",
            rows_q=rows_q,
            rows_x=sp.eye_array(count, format="csr"),
            relations=">=",
            cost_x=np.full(count, family.weight),
            offset=self.offset,
            safe=SafeBounds(anchor=np.zeros(count), value_scale=self.safe.value_scale),
            notes=self.notes,
            name=self.name,
        )

    def with_margin(self, margin: float) -> Program:
        """The same program with a stricter dual: S ⪰ margin · I, r ≥ margin, ‖r_G‖ ≤ ρ − margin,
        r_h ≥ ‖r_T‖ + margin."""
        shift = self.sign * margin
        blocks = tuple(
            replace(block, cost=block.cost.plus_identity(shift, block.unseen))
            for block in self.blocks
        )
        plain = np.where(self.quadratic_x == 0, self.cone_x.unit, 0.0)
        norms = tuple(replace(p, weight=max(p.weight - margin, p.weight / 2)) for p in self.norms)
        cost_x = self.cost_x + shift * plain
        return replace(self, blocks=blocks, cost_x=cost_x, norms=norms)

    # -- identity ----------------------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the mathematics: equal data give equal fingerprints, names do not count."""
        return fingerprint_of(self)

    def save(self, path: str | Path) -> None:
        """Write the program as npz, without pickles."""
        save_program(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Program:
        """Read a program written by `save`.

        >>> import tempfile, os
        >>> from sdpkit import Cost
        >>> block = Block.of(2, [[1.0, -1.0]], cost=Cost.of(2, identity=1.0), null=[1.0, 1.0])
        >>> program = Program.of(block, [4.0])
        >>> path = os.path.join(tempfile.mkdtemp(), "two_points.npz")
        >>> program.save(path)
        >>> Program.load(path).fingerprint == program.fingerprint
        True
        """
        with reading(path, "a saved sdpkit program"):
            return cls.of_file(read_program(path))

    @classmethod
    def of_file(cls, arguments: dict[str, Any]) -> Program:
        """A program from the arguments that a file holds, without the claims about bounds that its
        data do not bear out (`sdpkit.program.claims`)."""
        program = cls.of(**arguments)
        safe, notes = proven_claims(program)
        if safe is program.safe:
            return program
        return cls.of(**(arguments | {"safe": safe, "notes": (*program.notes, *notes)}))

    def __str__(self) -> str:
        return describe(self)

    def __repr__(self) -> str:
        sizes = ", ".join(str(b.size) for b in self.blocks[:6])
        return (
            f"<Program {self.name!r}: {self.sense}, blocks ({sizes}), {self.n_rows} rows, "
            f"{self.rows_q.shape[1]} measurements, fingerprint {self.fingerprint}>"
        )

    def _repr_html_(self) -> str:
        return card_of(str(self))

    def plot(self, ax: Any = None) -> Any:
        """Which squared lengths each constraint contains, as dots; returns the axes."""
        return plot_rows(self, ax)
