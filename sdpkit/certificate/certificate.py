"""The certificate: what was recomputed from returned numbers, and whether it passes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpkit.certificate.faces import without_computed_null
from sdpkit.certificate.feasible import attained
from sdpkit.certificate.rigor import Verification, verify_dual
from sdpkit.certificate.scales import ratio
from sdpkit.certificate.smoothed_dual import verify_smoothed
from sdpkit.errors import InputError
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.plotting.cards import card_of
from sdpkit.plotting.pictures import plot_multipliers
from sdpkit.program.form import Program
from sdpkit.proof.prove import Given, Proof, prove, saved
from sdpkit.proof.statement import approximation, statement_of
from sdpkit.typing import Array

if TYPE_CHECKING:
    from sdpkit.program.families import Rows
    from sdpkit.program.gram import Matrix


@dataclass(frozen=True, eq=False)
class Certificate:
    """What was recomputed from a primal and a dual.

    Attributes
    ----------
    objective, dual_objective : float
        At the returned points, in the program's sense.
    primal_residual, dual_residual : float
        Relative; `sdpkit.certificate.certify` has the scales.
    min_eigenvalue_primal : float
        Smallest eigenvalue of the worst M.
    eigenvalue_scale : float
        Its largest.
    min_eigenvalue_dual : float
        Smallest eigenvalue of any dual slack on its face.
    safe_bound : float
        a bound on the optimal value that holds for inexact multipliers.
    bound_source : str
        Which argument of `sdpkit.certificate.certify` gave it.
    relative_gap : float
        |objective − safe_bound| / unit.
    unit : float
        max(|objective|, |safe_bound|, the program's `value_floor`); log dets have another.
    terms : float
        The size of the terms whose sums are the objective and the bound.
    dimacs : tuple of float
        The six DIMACS errors.
    cone_residual : float
        The largest residual once M and x are moved into their cones; 0 if they are there.
    residual_price : float
        Σ|w_e|·(violation of constraint e) with the multipliers of the bound, relative: what the
        residuals may be worth in the objective.
    complementarity : float
        |<S, M>| and its like for x and inequalities, with the same multipliers, relative; 0 for
        programs that are not linear.
    warnings : tuple of str
        What makes a small backward error say little about the value.
    matrices : tuple of array or Gram or None
        The certified point.
    x : array or None
        The certified point.
    program : Program
        The program that was certified.
    multipliers : array of shape (m,) or None
        The multipliers that gave the bound.
    rows : Rows or None
        As in `Solution`.
    smoothing : float
        As in `Solution`.

    Examples
    --------
    >>> import sdpkit
    >>> solution = sdpkit.solve(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)), "interior")
    >>> certificate = solution.certificate
    >>> certificate.passes(1e-6), bool(certificate.verify())
    (True, True)
    """

    objective: float
    dual_objective: float
    primal_residual: float
    dual_residual: float
    min_eigenvalue_primal: float
    eigenvalue_scale: float
    min_eigenvalue_dual: float
    safe_bound: float
    bound_source: str
    relative_gap: float
    dimacs: tuple[float, float, float, float, float, float]
    program: Program = field(repr=False)
    multipliers: Array | None = field(repr=False)
    rows: Rows | None = field(default=None, repr=False)
    smoothing: float = 0.0
    cone_residual: float = 0.0
    residual_price: float = 0.0
    complementarity: float = 0.0
    unit: float = 0.0
    terms: float = 0.0
    warnings: tuple[str, ...] = ()
    matrices: tuple[Matrix, ...] | None = field(default=None, repr=False)
    x: Array | None = field(default=None, repr=False)

    @classmethod
    def missing(cls, program: Program, reason: str) -> Certificate:
        """A certificate that proves nothing, because none could be computed."""
        inf = float("inf")
        return cls(
            objective=float("nan"),
            dual_objective=float("nan"),
            primal_residual=inf,
            dual_residual=inf,
            min_eigenvalue_primal=-inf,
            eigenvalue_scale=float("nan"),
            min_eigenvalue_dual=-inf,
            safe_bound=inf if program.sense == "max" else -inf,
            bound_source=reason,
            relative_gap=inf,
            dimacs=(inf,) * 6,
            program=program,
            multipliers=None,
        )

    def passes(self, tol: float) -> bool:
        """True if residuals, eigenvalues and the certified gap all meet `tol`."""
        return not self.failures(tol)

    def failures(self, tol: float) -> list[str]:
        """What does not meet `tol`, as texts; empty if the certificate passes."""
        # `not <=` rather than `>`: NaN must fail.
        return [f"{what} is {value:.2g}" for what, value in self._errors if not value <= tol]

    @property
    def largest_error(self) -> float:
        """The smallest `tol` at which the certificate passes; NaN or infinite if there is none."""
        return float(np.max([value for _, value in self._errors]))

    @property
    def _errors(self) -> list[tuple[str, float]]:
        """What a tolerance is compared with, each with its name."""
        negative = max(0.0, -self.min_eigenvalue_primal)
        return [
            (f"certified relative gap{self._unit_in_words}", self.relative_gap),
            ("primal residual", self.primal_residual),
            ("dual residual", self.dual_residual),
            (
                "negative eigenvalue of the primal, relative",
                ratio(negative, self.eigenvalue_scale),
            ),
            ("primal residual inside the cone", self.cone_residual),
            ("cost of the residuals", self.residual_price),
            ("complementarity", self.complementarity),
        ]

    @property
    def gap_in_words(self) -> str:
        """The relative gap with two digits, and its unit where that is not the larger value."""
        return f"{self.relative_gap:.2g}{self._unit_in_words}"

    @property
    def _unit_in_words(self) -> str:
        larger = max(abs(self.objective), abs(self.safe_bound))
        plain = self.unit in (larger, 0.0) or not np.isfinite(self.relative_gap)
        return "" if plain else f" (in units of {self.unit:.3g})"

    @property
    def backward_error(self) -> float:
        """By how much the program must be changed for the point to be feasible, relative."""
        negative = max(0.0, -self.min_eigenvalue_primal)
        share = ratio(negative, self.eigenvalue_scale)
        return max(self.primal_residual, self.cone_residual, share)

    @one_blas_thread
    def verify(self) -> Verification:
        """Enclose the optimal value: a theorem about the floating-point data.

        The dual gives one end, a point that is proven feasible the other, where there is one.

        The eigenvalue claim is proved by a shifted Cholesky factorisation with an a-priori
        rounding bound (Rump 2006) and the value is summed exactly. Where the rounded data leave
        no slack for this (a dual that is not strictly feasible and cannot be moved) it says so.
        """
        value, words = None, "there is no point to verify"
        if self.matrices is not None and self.x is not None:
            value, words = attained(self.program, self.matrices, self.x)
        if self.smoothing and self.matrices is not None:
            dual = verify_smoothed(self.program, list(self.matrices), self.smoothing)
        elif self.multipliers is None:
            dual = Verification(None, "there are no multipliers to verify")
        elif self.rows is not None:
            dual = verify_dual(self.program.restricted(self.rows), self.multipliers)
        else:
            dual = verify_dual(self.program, self.multipliers)
        return replace(dual, attained=value, attained_reason=words, sense=self.program.sense)

    @one_blas_thread
    def prove(self) -> Proof | None:
        """The same in integers: a proof that a checker of 300 lines verifies without this library.

        For linear programs over semidefinite blocks, nonnegative and free variables; others raise
        an `InputError`. Returns None where nothing was proven. It takes longer than `verify`.

        Null directions that are no simple numbers were computed from the constraints, and rounded:
        the program is stated without them, and only the dual's end is proven.
        """
        program = without_computed_null(self.program)
        x = np.zeros(program.n_auxiliary) if self.x is None else self.x
        matrices = self.matrices if program is self.program else None
        answer = approximation(program, matrices, x, self.multipliers)
        return prove(statement_of(program), Given(answer), many_bits=program is self.program)

    def save_proof(self, path: str | Path) -> Proof:
        """Prove, and write the proof to a .json.gz; returns it.

        `python check.py PATH` verifies the file, `docs/proof.md` says how.
        """
        return saved(self.prove(), path)

    def __str__(self) -> str:
        kind = "upper" if self.program.sense == "max" else "lower"
        rows = [
            ("objective", f"{self.objective:.10g}"),
            (f"safe {kind} bound", f"{self.safe_bound:.10g}   ({self.bound_source})"),
            ("certified relative gap", f"{self.relative_gap:.2e}{self._unit_in_words}"),
            ("backward error", f"{self.backward_error:.2e}"),
            ("primal residual", f"{self.primal_residual:.2e}"),
            ("cost of the residuals", f"{self.residual_price:.2e}"),
            ("complementarity", f"{self.complementarity:.2e}"),
            ("dual residual", f"{self.dual_residual:.2e}"),
            (
                "smallest eigenvalue, primal",
                f"{self.min_eigenvalue_primal:.2e}   (largest {self.eigenvalue_scale:.3g})",
            ),
            ("smallest eigenvalue, dual", f"{self.min_eigenvalue_dual:.2e}"),
            ("DIMACS errors", " ".join(f"{e:.1e}" for e in self.dimacs)),
            *(("warning", text) for text in self.warnings),
        ]
        return "\n".join(["certificate", *(f"  {name:<28} {text}" for name, text in rows)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return card_of(str(self))

    def plot(self, ax: Any = None) -> Any:
        """The multipliers by size: which constraints hold the optimum back; returns the axes."""
        if self.multipliers is None:
            raise InputError(
                "this certificate has no multipliers to plot: the solver returned no dual"
            )
        return plot_multipliers(self.multipliers, ax)
