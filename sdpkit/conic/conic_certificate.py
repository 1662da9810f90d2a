"""The certificate of a model with exponential or power cones, in the words of `Certificate`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sdpkit.certificate.rigor import Verification
from sdpkit.conic.nonlinear_cones import NonlinearData
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.plotting.cards import card_of
from sdpkit.typing import Array


@dataclass(frozen=True, eq=False)
class ConicCertificate:
    """What was recomputed from the values in a model and from multipliers.

    Attributes
    ----------
    sense: of the model
    objective: the model's objective at its values
    safe_bound: a bound on the optimal value: that of multipliers in the dual cones which meet the
        dual's equations up to rounding;  bound_source: where they come from
    relative_gap: |objective − safe_bound| / unit
    unit: max(1, |objective|, |safe_bound|)
    primal_residual: by how much the values violate a constraint, relative to its sides
    residual_name: the constraint that is violated most
    dual_residual: what is left of the dual's equations, relative to the costs
    data, x, y: the conic data and the dual point of the bound
    warnings: reasons to doubt the values although residuals and gap are small
    """

    sense: Literal["min", "max"]
    objective: float
    safe_bound: float
    bound_source: str
    relative_gap: float
    unit: float
    primal_residual: float
    residual_name: str
    dual_residual: float
    data: NonlinearData = field(repr=False)
    x: Array | None = field(default=None, repr=False)
    y: Array | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()

    def passes(self, tol: float) -> bool:
        """True if the residuals and the certified gap meet `tol`."""
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
        return [
            (f"certified relative gap{self._unit_in_words}", self.relative_gap),
            ("primal residual", self.primal_residual),
            ("dual residual", self.dual_residual),
        ]

    @property
    def backward_error(self) -> float:
        """By how much a constraint must be changed for the values to be feasible, relative."""
        return self.primal_residual

    @property
    def dual_objective(self) -> float:
        """The value of the multipliers, which is the bound."""
        return self.safe_bound

    @property
    def gap_in_words(self) -> str:
        """The relative gap with two digits, and its unit where that is not the larger value."""
        return f"{self.relative_gap:.2g}{self._unit_in_words}"

    @property
    def _unit_in_words(self) -> str:
        larger = max(abs(self.objective), abs(self.safe_bound))
        plain = self.unit == larger or not np.isfinite(self.relative_gap)
        return "" if plain else f" (in units of {self.unit:.3g})"

    @one_blas_thread
    def verify(self) -> Verification:
        """The bound as a theorem about the floating-point data: multipliers that meet the dual's
        equations in rational numbers, with logarithms rounded outwards."""
        from sdpkit.conic.rational_bound import rational_bound

        if self.y is None or self.x is None:
            return Verification(None, "there are no multipliers to verify", sense=self.sense)
        value, words = rational_bound(self.data, self.x, self.y)
        return Verification(
            value, words, None, "only the bound of such a model is verified", self.sense
        )

    def __str__(self) -> str:
        kind = "upper" if self.sense == "max" else "lower"
        worst = f"   ({self.residual_name})" if self.residual_name else ""
        rows = [
            ("objective", f"{self.objective:.10g}"),
            (f"safe {kind} bound", f"{self.safe_bound:.10g}   ({self.bound_source})"),
            ("certified relative gap", f"{self.relative_gap:.2e}{self._unit_in_words}"),
            ("primal residual", f"{self.primal_residual:.2e}{worst}"),
            ("dual residual", f"{self.dual_residual:.2e}"),
            *(("warning", text) for text in self.warnings),
        ]
        return "\n".join(["certificate", *(f"  {name:<28} {text}" for name, text in rows)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return card_of(str(self))
