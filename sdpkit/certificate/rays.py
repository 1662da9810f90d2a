"""Rays: proofs that a program is infeasible or unbounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from numpy.typing import ArrayLike

from sdpkit.certificate.bounds import EPS, FACE_TOLERANCE, direction_strength, size_of_image
from sdpkit.certificate.directions import direction_proof, exact_direction
from sdpkit.certificate.faces import (
    DATA_ROUNDING,
    FaceProof,
    exact_contradiction,
    without_computed_null,
)
from sdpkit.certificate.points import FeasiblePoint
from sdpkit.certificate.primal import as_matrices, as_vector, project_onto_cone, restored
from sdpkit.certificate.rigor import Verification, out_of_range, verify_multiplier_ray
from sdpkit.certificate.rounding import TINY
from sdpkit.certificate.scales import ratio
from sdpkit.numerics.breakdown import BREAKDOWNS
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.program.block import Block
from sdpkit.program.form import Program
from sdpkit.program.gram import Gram, Matrix, is_finite, scaled, trace
from sdpkit.program.second_order import VariableCone
from sdpkit.proof.prove import Given, Proof, prove, saved
from sdpkit.proof.statement import Approximation, approximation, statement_of
from sdpkit.typing import Array, Bools

# What a ray may be off: a direction relative to what each row could reach, and its gain to what
# it is summed from; multipliers relative to their image.
_EXACT = 1e-11
# Rows that a direction reaches less than this far are lost to underflow.
_LEAST = 1e-300
# Steps of multipliers onto the reduced costs that they should have.
_MAX_CORRECTIONS = 6


# Rays are accepted at this relative violation at most, however loose `tol` is.
RAY_TOL = 1e-7


@dataclass(frozen=True, eq=False)
class Ray:
    """A proof that there is no solution, or no finite optimum.

    infeasible: multipliers w with Aᵀ(w) ⪰ 0 on the face, right signs and bᵀw < 0 (negated for a
    minimisation); normalised to |bᵀw| = 1. A weakly infeasible program has none: there `chain`
    holds the exposing vectors of a smaller face, and `multipliers` is such a w on that face.
    unbounded: a direction (M, x) in the cone that leaves every constraint in place and improves the
    objective; normalised to an improvement of 1. `point` is a feasible point that is proven, or
    None: a direction alone shows that the dual is infeasible, and the program may be so too.

    `violation` is what is left of an inexact ray, relative to its size, for a direction also to
    its gain; `proof` is why it counts all the same, or is empty.
    """

    kind: Literal["infeasible", "unbounded"]
    violation: float
    proof: str
    program: Program = field(repr=False)
    multipliers: Array | None = field(default=None, repr=False)
    matrices: tuple[Matrix, ...] | None = field(default=None, repr=False)
    x: Array | None = field(default=None, repr=False)
    chain: FaceProof | None = field(default=None, repr=False)
    point: FeasiblePoint | None = field(default=None, repr=False)

    def passes(self, tol: float) -> bool:
        """True if the ray is exact, repaired, or inexact by rounding, and `tol`, at most."""
        # A ray must hold to the last digits: with a gain of one, a violation of 1e-7 belongs to a
        # program whose optimum is 1e7 as well as to one that has none; multipliers that lack 1e-7
        # exclude points of size 1e7 only.
        return bool(self.proof) or self.violation <= min(tol, _EXACT)

    @one_blas_thread
    def verify(self) -> Verification:
        """Prove the ray for the floating-point data, where that is possible.

        Infeasible: the multipliers, or simple fractions near them, or the chain of faces.
        Unbounded: a direction near this one, and the feasible point if there is one; `reason` says
        what follows. A ray that holds only up to rounding may be no ray of the exact data.

        >>> from sdpkit import Block, Cost, Program
        >>> block = Block.of(1, [[1.0]], cost=Cost.of(1, identity=1.0))
        >>> program = Program.of(block, [1.0], relations=">=")
        >>> certify_unbounded(program, [np.eye(1)], []).verify()
        <verified: the dual is infeasible (rational arithmetic); no feasible point is at hand>
        """
        try:
            if self.kind == "unbounded":
                return self._verified_direction()
            return self._verified_multipliers()
        except BREAKDOWNS as error:
            return out_of_range(error)

    @one_blas_thread
    def prove(self) -> Proof | None:
        """The same in integers, as `Certificate.prove`; None if nothing was proven.

        An infeasible program is stated without null directions that were computed and rounded.

        >>> from sdpkit import Block, Program
        >>> program = Program.of(Block.of(1, [[1.0]]), [-1.0])
        >>> str(certify_infeasible(program, [1.0]).prove())
        'theorem: no feasible point of the program with SHA-256 ...'
        """
        program = self.program if self.matrices else without_computed_null(self.program)
        ray = direction = None
        answer = Approximation(None, np.zeros(program.n_auxiliary), None)
        if self.multipliers is not None:
            w = program.sign * self.multipliers
            ray = approximation(program, None, answer.x, w).multipliers
        if self.matrices is not None and self.x is not None:
            turned = approximation(program, self.matrices, self.x, None)
            direction = None if turned.matrices is None else (turned.matrices, turned.x)
        if self.point is not None:
            matrices, x = self.point.lifted(program)
            answer = approximation(program, matrices, x, None)
        return prove(statement_of(program), Given(answer, ray, direction), many_bits=False)

    def save_proof(self, path: str | Path) -> Proof:
        """Prove, and write the proof to a .json.gz; returns it."""
        return saved(self.prove(), path)

    def _verified_multipliers(self) -> Verification:
        if self.multipliers is None:
            return Verification(None, "the ray has no multipliers that contradict the constraints")
        if self.chain is not None:
            if self.chain.holds(self.program):
                return Verification(0.0, f"the program is infeasible: {self.chain}")
            return Verification(None, "the chain of faces is not exact")
        w = self.program.sign * self.multipliers
        found = verify_multiplier_ray(self.program, w)
        if not found and exact_contradiction(self.program, w) is not None:
            return Verification(0.0, "the program is infeasible: rational arithmetic")
        return found

    def _verified_direction(self) -> Verification:
        if self.matrices is None or self.x is None:
            return Verification(None, "the ray has no direction that improves the objective")
        how = direction_proof(self.program, self.matrices, self.x)
        if not how:
            return Verification(
                None,
                f"the direction holds to a relative {self.violation:.2g}, not exactly: no simple "
                "fractions near it are a direction, and the directions have no interior",
            )
        feasible = "" if self.point is None else self.point.proof(self.program)
        if feasible:
            return Verification(0.0, f"the program is unbounded: {how}; {feasible}")
        words = f"the dual is infeasible ({how}); no feasible point is at hand"
        return Verification(0.0, words)


@one_blas_thread
def certify_infeasible(program: Program, multipliers: ArrayLike) -> Ray:
    """Certify multipliers as a proof that no (M, x) meets the constraints.

    >>> from sdpkit import MVU
    >>> import numpy as np
    >>> triangle = np.array([[0, 1, 1], [1, 0, 3], [1, 3, 0]])      # 1 + 1 < 3
    >>> program = MVU(graph=triangle).program()
    >>> certify_infeasible(program, [2.0, 2.0, -1.0]).passes(1e-9)
    True
    """
    w = program.sign * as_vector(multipliers, program.n_rows, "multipliers")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return _improved(program, w)
    except BREAKDOWNS:  # numbers near the ends of the floating-point range
        return Ray("infeasible", np.inf, "", program)


def _improved(program: Program, w: Array) -> Ray:
    """What w shows, or multipliers near it that show more."""
    ray = _judged(program, w)
    if ray.passes(_EXACT) or ray.multipliers is None:
        return ray
    w = program.sign * ray.multipliers
    starts = [w]
    if program.repair_direction is not None and np.isfinite(ray.violation):
        # A boundary of the cone that no measurement sees stays one; at the others this moves
        # inside.
        natural = max(_natural_size(program), TINY)
        starts.append(w + (ray.violation / natural) * program.repair_direction)
    moved = (_judged(program, _onto_reduced_costs(program, start)) for start in starts)
    return next((better for better in moved if better.passes(_EXACT)), ray)


def _onto_reduced_costs(program: Program, w: Array) -> Array:
    """Multipliers near w with r_j = 0 where a variable is free, or r_j was negative."""
    wrong = np.zeros(program.n_auxiliary, dtype=bool)
    for _ in range(_MAX_CORRECTIONS):
        r = np.asarray(program.rows_x.T @ w)
        wrong |= np.where(program.cone_x.lines, r != 0, (r < 0) & ~program.free_x)
        if not r[wrong].any() or not np.isfinite(r).all():
            break
        # Multipliers at an end of their box stay there.
        inside = np.flatnonzero((program.relations == 0) | (w != 0))
        equations = sp.csr_array(program.rows_x.T)[np.flatnonzero(wrong)][:, inside]
        w = w.copy()
        w[inside] -= scipy.sparse.linalg.lsqr(equations, r[wrong], atol=1e-15, btol=1e-15)[0]
        w = np.clip(w, *program.sign_box)
    return w


def _judged(program: Program, w: Array) -> Ray:
    """What multipliers of a maximisation show, clipped to their signs."""
    refused = Ray("infeasible", np.inf, "", program)
    w = np.clip(w, *program.sign_box)
    # Right-hand sides are rounded numbers, and often sums of them.
    doubt = DATA_ROUNDING * (program.n_rows + 4) * float(np.abs(program.rhs) @ np.abs(w))
    if not np.isfinite(w).all() or not program.rhs @ w < -doubt:
        return refused
    with np.errstate(over="ignore"):
        w = w / -(program.rhs @ w)
    if not np.isfinite(w).all():
        return refused
    weights = program.split(np.asarray(program.rows_q.T @ w))
    lacks = [_lack(block, u) for block, u in zip(program.blocks, weights, strict=True)]
    r = np.asarray(program.rows_x.T @ w)
    hidden_x = _hidden_in_cones(program.cone_x, r)
    outside = float((program.cone_x.lack(r) + hidden_x).max(initial=0.0))
    unequal = float(np.abs(r)[program.cone_x.lines].max(initial=0.0))
    lack_x = max(program.cone_x.short(r), outside, unequal)
    sizes = [size_of_image(block, u) for block, u in zip(program.blocks, weights, strict=True)]
    if not np.isfinite([lack_x, *sizes]).all():
        return refused  # an image that overflows shows nothing
    size = max(*sizes, float(np.abs(r).max(initial=0.0)))
    # bᵀw = −1 and a lack of λ exclude points of trace below 1/λ only: that must be far beyond
    # the size that solutions of these rows would have. A boundary is no lack.
    hidden = [_hidden(block, s) for block, s in zip(program.blocks, sizes, strict=True)]
    seen = max(lack_x, *(lack - 2 * h for lack, h in zip(lacks, hidden, strict=True)))
    natural = _natural_size(program)
    violation = max(ratio(max(*lacks, lack_x), size), 100 * max(seen, 0.0) * natural)
    # Multipliers of a weakly infeasible program, or of one whose points are large, grow until
    # rounding hides what they lack: then they exclude points of size 1e8 at most.
    doubtful = [_doubtful(block, u) for block, u in zip(program.blocks, weights, strict=True)]
    doubtful.append(outside)
    violation = max(violation, 0.1 * max(doubtful) * natural)
    proof = _ray_proof(program, w, lacks, lack_x)
    if not proof and exact_contradiction(program, w, clear=True) is not None:
        proof = "exact ray in rational arithmetic"
    if not proof and program.safe.trace is not None:
        # The feasible set is bounded, so that a ray which is a proof can be shown to be one.
        violation = np.inf
    return Ray("infeasible", violation, proof, program, multipliers=program.sign * w)


def _hidden_in_cones(cone: VariableCone, r: Array) -> Array:
    """(k,) what rounding may hide in r_h − ‖r_T‖."""
    return np.asarray(4 * EPS * (cone.members.size + 8) * np.abs(r[cone.heads]))


def chain_ray(program: Program, chain: FaceProof, multipliers: Array) -> Ray:
    """The ray of a chain of faces, with the multipliers of the last one for the maximisation."""
    w = program.sign * multipliers / -float(program.rhs @ multipliers)
    steps = len(chain.exposing)
    words = f"a face without points, after {steps} exposing vector{'s' * (steps > 1)}"
    proof = words if steps else "exact ray in rational arithmetic"
    return Ray("infeasible", 0.0, proof, program, multipliers=w, chain=chain)


def _natural_size(program: Program) -> float:
    """The size of the largest point that a single constraint requires."""
    return float((np.abs(program.rhs) / program.row_norms).max())


def _lack(block: Block, u: Array) -> float:
    """What Vᵀdiag(u)V lacks to be positive semidefinite on the face beyond doubt of rounding."""
    hidden = _hidden(block, size_of_image(block, u))
    return max(0.0, hidden - block.smallest_of_slack(u, 0.0))


def _hidden(block: Block, size: float) -> float:
    """What rounding may hide of the smallest eigenvalue of an image of this size."""
    # Null directions beyond the constant one were computed, and a face that is a little off makes
    # lengths of real points contradict each other by as much.
    face = FACE_TOLERANCE if block.null_basis.shape[1] > 1 else 0.0
    # The bound of a large graph is proven and hides nothing.
    rounding = 0.0 if block.is_large_graph else 10 * block.size * EPS
    return (rounding + face) * size


def _doubtful(block: Block, u: Array) -> float:
    """How negative the smallest eigenvalue of an image may be, with the rounding that is usual."""
    if block.is_large_graph:
        return 0.0  # its bound is proven
    usual = 4 * float(np.sqrt(block.size)) * EPS * size_of_image(block, u)
    return max(0.0, usual - block.smallest_of_slack(u, 0.0))


def _ray_proof(program: Program, w: Array, lacks: list[float], lack_x: float) -> str:
    """Why bᵀw = −1 still contradicts every feasible point, or the empty string."""
    if max(*lacks, lack_x) == 0:
        return "exact ray"
    if lack_x == 0 and program.safe.trace is not None:
        terms = zip(lacks, program.safe.trace, strict=True)
        if sum(lack * trace for lack, trace in terms if lack) < 1 - 1e-6:
            return "the trace bound covers its error"
    strength = direction_strength(program)
    if strength is None or program.repair_direction is None:
        return ""
    moved = w + (max(*lacks, lack_x) / strength) * program.repair_direction
    r = program.rows_x.T @ moved
    hidden_x = _hidden_in_cones(program.cone_x, r)
    inside = not (program.cone_x.lack(r) + hidden_x > 0).any() and program.cone_x.short(r) == 0
    signs = np.all(program.relations * moved <= 0) and inside
    if signs and program.rhs @ moved < 0 and not program.cone_x.lines.any():
        return "the repair direction covers its error"
    return ""


@one_blas_thread
def certify_unbounded(program: Program, matrices: Sequence[Matrix], x: ArrayLike) -> Ray:
    """Certify a direction as a proof that the objective improves without end."""
    blocks, aux = as_matrices(program, matrices), as_vector(x, program.n_auxiliary, "x")
    refused = Ray("unbounded", np.inf, "", program)
    if not all(is_finite(m) for m in [*blocks, aux]):
        return refused
    # At any length a ray is the same one: at this length its squares do not overflow.
    size = max(*(_largest(m) for m in blocks), float(np.abs(aux).max(initial=0.0)))
    if not TINY <= size < np.inf:
        return refused
    blocks, aux = [scaled(m, 1 / size) for m in blocks], aux / size
    aux = program.cone_x.projected(aux)
    aux = np.where(program.quadratic_x > 0, 0.0, aux)  # a curved variable cannot go on for ever
    blocks = [project_onto_cone(b, m) for b, m in zip(program.blocks, blocks, strict=True)]
    blocks, aux = _without_dust(blocks, aux, program.cone_x)
    linear = program
    if program.has_log_det:
        linear = replace(program, blocks=tuple(replace(b, log_det=0.0) for b in program.blocks))
    gain = program.sign * (linear.objective(blocks, aux) - program.offset)
    if gain >= 0:
        # A log det grows without end along any direction of the cone, if slowly.
        pairs = zip(program.blocks, blocks, strict=True)
        gain += sum(b.log_det * trace(m) for b, m in pairs if b.log_det)
    # What is gained must stand out from the sum it is computed with.
    share = ratio(gain, _activity(linear, blocks, aux, gain))
    if not share > _EXACT:
        return refused
    blocks, aux = [scaled(m, 1 / gain) for m in blocks], aux / gain
    zero = np.zeros(program.n_rows)
    if program.excess(program.row_values(program.measure(blocks), aux)).any():
        moved, moved_x = restored(program, blocks, aux, zero)
        moved_x = np.where(program.quadratic_x > 0, 0.0, moved_x)
        if all(is_finite(m) for m in [*moved, moved_x]):
            blocks, aux = _better(linear, (blocks, aux), (moved, moved_x))
    violation = _largest_violation(program, blocks, aux) / min(1.0, share)
    proof = "exact ray" if violation == 0 else ""
    if violation > _EXACT:
        exact = exact_direction(program, blocks, aux)
        if exact is not None:
            blocks, aux = exact
            worth = program.sign * (linear.objective(blocks, aux) - program.offset)
            if worth > 0:
                blocks, aux = [scaled(m, 1 / worth) for m in blocks], aux / worth
            violation, proof = 0.0, "exact ray in rational arithmetic"
    return Ray("unbounded", violation, proof, program, matrices=tuple(blocks), x=aux)


def _better(
    linear: Program, ray: tuple[list[Matrix], Array], moved: tuple[list[Matrix], Array]
) -> tuple[list[Matrix], Array]:
    """The moved ray, inside the cone and at a gain of one, if it keeps its signs and violates
    less; else the ray as it is."""
    x = moved[1]
    blocks = [project_onto_cone(b, m) for b, m in zip(linear.blocks, moved[0], strict=True)]
    worth = linear.sign * (linear.objective(blocks, x) - linear.offset)
    x = np.where(linear.cone_x.inside, linear.cone_x.projected(x), x)
    kept = np.all(x[~linear.free_x] >= 0) and all(is_finite(m) for m in blocks)
    less = _largest_violation(linear, blocks, x) < _largest_violation(linear, *ray)
    if not (kept and worth > 0.5 and less):
        return ray
    return [scaled(m, 1 / worth) for m in blocks], x / worth


def _activity(linear: Program, matrices: list[Matrix], x: Array, gain: float) -> float:
    """The sizes of what the gain of a direction is summed from; `gain` at least."""
    total = float(np.abs(linear.cost_x) @ np.abs(x))
    total += float(np.abs(linear.cost_q) @ np.abs(linear.measure(matrices)))
    for block, matrix in zip(linear.blocks, matrices, strict=True):
        total += block.cost.magnitude() * _norm(matrix)
    return max(gain, total)


def _largest_violation(program: Program, matrices: list[Matrix], x: Array) -> float:
    """The worst row of a direction, relative to what the row could reach."""
    # In units of its largest part: lengths of a small direction would underflow.
    size = max(*map(_norm, matrices), float(np.abs(x).max(initial=0.0)))
    if not TINY <= size < np.inf:
        return 0.0 if size == 0 else np.inf
    matrices, x = [scaled(m, 1 / size) for m in matrices], x / size
    violated = program.excess(program.row_values(program.measure(matrices), x))
    reach = _reach(program, matrices, x)
    if np.any(_touched(program, matrices, x) & ~(reach >= _LEAST)):
        return np.inf
    return max((ratio(v, r) for v, r in zip(violated, reach, strict=True)), default=0.0)


def _pattern(matrix: sp.csr_array) -> sp.csr_array:
    """Ones where the matrix has entries."""
    return sp.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)


def _touched(program: Program, matrices: list[Matrix], x: Array) -> Bools:
    """(m,) the rows that see any of a direction."""
    measured = [
        (np.diff(block.incidence.indptr) > 0) & (_norm(m) > 0)
        for block, m in zip(program.blocks, matrices, strict=True)
    ]
    seen = _pattern(program.rows_q) @ np.concatenate(measured).astype(float)
    return np.asarray(seen + _pattern(program.rows_x) @ (x != 0).astype(float) > 0)


def _without_dust(
    matrices: list[Matrix], x: Array, cone: VariableCone
) -> tuple[list[Matrix], Array]:
    """A ray without the parts that are nothing but a solver's rounding."""
    norms = [_norm(m) for m in matrices]
    dust = 1e-6 * max(*norms, float(np.abs(x).max(initial=0.0)))
    clean = [m if norm > dust else scaled(m, 0.0) for m, norm in zip(matrices, norms, strict=True)]
    # Without its tail, or a part of it, a point of a second-order cone is still one.
    kept = np.abs(x) > dust
    kept[cone.members] |= kept[cone.heads][cone.owners]
    return clean, np.where(kept, x, 0.0)


def _largest(matrix: Matrix) -> float:
    """The size of a matrix, without squares."""
    return matrix.largest_eigenvalue if isinstance(matrix, Gram) else float(np.abs(matrix).max())


def _norm(matrix: Matrix) -> float:
    return matrix.largest_eigenvalue if isinstance(matrix, Gram) else float(np.linalg.norm(matrix))


def _reach(program: Program, matrices: list[Matrix], x: Array) -> Array:
    """(m,) the largest value that each row could take on a ray of this size, block by block."""
    lengths = [
        _squared_lengths(block) * _norm(matrix)
        for block, matrix in zip(program.blocks, matrices, strict=True)
    ]
    return np.asarray(
        abs(program.rows_q) @ np.concatenate(lengths) + abs(program.rows_x) @ np.abs(x)
    )


def _squared_lengths(block: Block) -> Array:
    """(p,) ‖v_p‖²."""
    if block.features is None:
        return np.asarray(block.incidence.multiply(block.incidence).sum(axis=1)).ravel()
    return block.measure(np.eye(block.size))
