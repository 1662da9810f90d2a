"""cvxpy models as people write them, for `make bench NAME=judging` and `make bench NAME=auto`.

Each function returns a model for a random generator; `MODELS` names them. None of them is in the
form that sdpkit would choose, and few have a known direction into the interior of their dual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

Model = Callable[[np.random.Generator], cp.Problem]


# -- control ------------------------------------------------------------------------------------


def _stable(rng: np.random.Generator, n: int, margin: float = 0.3) -> Any:
    A = rng.standard_normal((n, n))
    return A - (np.linalg.eigvals(A).real.max() + margin) * np.eye(n)


def lyapunov(rng: np.random.Generator, n: int) -> cp.Problem:
    """A quadratic Lyapunov function of a stable system: feasibility only."""
    A, P = _stable(rng, n), cp.Variable((n, n), symmetric=True)
    return cp.Problem(cp.Minimize(0), [P >> np.eye(n), A.T @ P + P @ A << -1e-3 * np.eye(n)])


def smallest_lyapunov(rng: np.random.Generator, n: int) -> cp.Problem:
    """The one of least trace."""
    A, P = _stable(rng, n), cp.Variable((n, n), symmetric=True)
    return cp.Problem(cp.Minimize(cp.trace(P)), [P >> 0, A.T @ P + P @ A << -np.eye(n)])


def discrete_lyapunov(rng: np.random.Generator, n: int) -> cp.Problem:
    """Of two matrices at once, discrete time."""
    P = cp.Variable((n, n), PSD=True)
    rows = [cp.trace(P) == n]
    for _ in range(2):
        A = rng.standard_normal((n, n))
        A *= 0.5 / np.linalg.norm(A, 2)
        rows.append(A.T @ P @ A - P << 0)
    return cp.Problem(cp.Maximize(cp.lambda_min(P)), rows)


def h_infinity(rng: np.random.Generator, n: int) -> cp.Problem:
    """The bounded real lemma."""
    A, B, C = _stable(rng, n), rng.standard_normal((n, 2)), rng.standard_normal((2, n))
    P, g = cp.Variable((n, n), symmetric=True), cp.Variable()
    lmi = cp.bmat([[A.T @ P + P @ A + C.T @ C, P @ B], [B.T @ P, -g * np.eye(2)]])
    return cp.Problem(cp.Minimize(g), [P >> 0, lmi << 0])


def state_feedback(rng: np.random.Generator, n: int) -> cp.Problem:
    """A stabilising feedback of small gain: Q ≻ 0 and Y with AQ + QAᵀ + BY + YᵀBᵀ ≺ 0."""
    A, B = rng.standard_normal((n, n)), rng.standard_normal((n, 2))
    Q, Y = cp.Variable((n, n), symmetric=True), cp.Variable((2, n))
    closed = A @ Q + Q @ A.T + B @ Y + Y.T @ B.T
    return cp.Problem(cp.Minimize(cp.norm(Y, "fro")), [Q >> np.eye(n), closed << -np.eye(n)])


def linear_quadratic(rng: np.random.Generator, n: int) -> cp.Problem:
    """The Riccati solution as the largest P of a linear matrix inequality."""
    A, B, P = rng.standard_normal((n, n)), rng.standard_normal((n, 1)), None
    P = cp.Variable((n, n), symmetric=True)
    lmi = cp.bmat([[A.T @ P + P @ A + np.eye(n), P @ B], [B.T @ P, np.eye(1)]])
    return cp.Problem(cp.Maximize(cp.trace(P)), [lmi >> 0])


def predictive_control(rng: np.random.Generator, n: int) -> cp.Problem:
    """Model predictive control with limits on the input."""
    A, B = 0.9 * np.eye(n) + 0.1 * rng.standard_normal((n, n)), rng.standard_normal((n, 2))
    x, u = cp.Variable((n, 11)), cp.Variable((2, 10))
    rows = [x[:, 0] == rng.standard_normal(n), cp.abs(u) <= 0.3]
    rows += [x[:, t + 1] == A @ x[:, t] + B @ u[:, t] for t in range(10)]
    return cp.Problem(cp.Minimize(cp.sum_squares(x) + 0.1 * cp.sum_squares(u)), rows)


# -- graphs and eigenvalues ---------------------------------------------------------------------


def _graph(rng: np.random.Generator, n: int, density: float) -> Any:
    W = np.triu(rng.random((n, n)) < density, 1).astype(float)
    return W + W.T


def max_cut(rng: np.random.Generator, n: int) -> cp.Problem:
    """Goemans and Williamson's relaxation, with the rows one by one."""
    W, X = _graph(rng, n, 0.4), cp.Variable((n, n), symmetric=True)
    rows = [X >> 0, *(X[i, i] == 1 for i in range(n))]
    return cp.Problem(cp.Maximize(0.25 * cp.sum(cp.multiply(W, 1 - X))), rows)


def theta(rng: np.random.Generator, n: int) -> cp.Problem:
    """Lovász's ϑ."""
    i, j = np.nonzero(np.triu(_graph(rng, n, 0.4), 1))
    X = cp.Variable((n, n), PSD=True)
    return cp.Problem(cp.Maximize(cp.sum(X)), [cp.trace(X) == 1, X[i, j] == 0])


def theta_dual(rng: np.random.Generator, n: int) -> cp.Problem:
    """Its dual: the least largest eigenvalue."""
    i, j = np.nonzero(np.triu(_graph(rng, n, 0.4), 1))
    t, w = cp.Variable(), cp.Variable(i.size)
    basis = np.zeros((n * n, i.size))
    basis[i * n + j, np.arange(i.size)] = basis[j * n + i, np.arange(i.size)] = 1
    edges = cp.reshape(basis @ w, (n, n), order="C")
    return cp.Problem(cp.Minimize(t), [t * np.eye(n) + edges >> np.ones((n, n))])


def fastest_mixing(rng: np.random.Generator, n: int) -> cp.Problem:
    """The fastest mixing Markov chain on a graph (Boyd, Diaconis, Xiao 2004)."""
    W = _graph(rng, n, 0.5) + np.eye(n, k=1) + np.eye(n, k=-1)
    P = cp.Variable((n, n), symmetric=True)
    rows = [P >= 0, P @ np.ones(n) == 1, P[(W == 0) & ~np.eye(n, dtype=bool)] == 0]
    return cp.Problem(cp.Minimize(cp.sigma_max(P - np.ones((n, n)) / n)), rows)


def largest_eigenvalue(rng: np.random.Generator, n: int) -> cp.Problem:
    """Of an affine matrix."""
    x = cp.Variable(5)
    parts = rng.standard_normal((6, n, n))
    parts = parts + parts.transpose(0, 2, 1)
    A = parts[0] + sum(x[k] * parts[k + 1] for k in range(5))
    return cp.Problem(cp.Minimize(cp.lambda_max(A)), [cp.norm(x, 2) <= 2])


def sum_of_eigenvalues(rng: np.random.Generator, n: int) -> cp.Problem:
    """The sum of the three largest, over matrices near a given one."""
    A = rng.standard_normal((n, n))
    X = cp.Variable((n, n), symmetric=True)
    return cp.Problem(cp.Minimize(cp.lambda_sum_largest(X, 3)), [cp.norm(X - A - A.T, "fro") <= 1])


def correlation(rng: np.random.Generator, n: int) -> cp.Problem:
    """The nearest correlation matrix."""
    A = rng.uniform(-1, 1, (n, n))
    A, X = (A + A.T) / 2, cp.Variable((n, n), PSD=True)
    return cp.Problem(cp.Minimize(cp.norm(X - A, "fro")), [cp.diag(X) == 1])


def correlation_squared(rng: np.random.Generator, n: int) -> cp.Problem:
    """The same with squares."""
    A = rng.uniform(-1, 1, (n, n))
    A, X = (A + A.T) / 2, cp.Variable((n, n), PSD=True)
    return cp.Problem(cp.Minimize(cp.sum_squares(X - A)), [cp.diag(X) == 1])


def covariance_bounds(rng: np.random.Generator, n: int) -> cp.Problem:
    """Worst-case risk of a portfolio (Boyd and Vandenberghe, section 4.6.3)."""
    x, S = np.abs(rng.standard_normal(n)), cp.Variable((n, n), PSD=True)
    signs = rng.choice([-1.0, 1.0], (n, n))
    rows = [cp.diag(S) == rng.uniform(0.1, 1, n)]
    rows += [signs[i, j] * S[i, j] >= 0 for i in range(n) for j in range(i) if rng.random() < 0.5]
    return cp.Problem(cp.Maximize(x @ S @ x), rows)


# -- matrices -----------------------------------------------------------------------------------


def robust_pca(rng: np.random.Generator, n: int) -> cp.Problem:
    """A low rank and a sparse part."""
    L = rng.standard_normal((n, 2)) @ rng.standard_normal((2, n))
    S = (rng.random((n, n)) < 0.1) * rng.standard_normal((n, n)) * 5
    X, Y = cp.Variable((n, n)), cp.Variable((n, n))
    return cp.Problem(cp.Minimize(cp.normNuc(X) + cp.norm1(Y) / n**0.5), [X + Y == L + S])


def matrix_completion(rng: np.random.Generator, n: int) -> cp.Problem:
    """Least nuclear norm with given entries."""
    L = rng.standard_normal((n, 2)) @ rng.standard_normal((2, n))
    i, j = np.nonzero(rng.random((n, n)) < 0.6)
    X = cp.Variable((n, n))
    return cp.Problem(cp.Minimize(cp.normNuc(X)), [X[i, j] == L[i, j]])


def spectral_fit(rng: np.random.Generator, n: int) -> cp.Problem:
    """The affine matrix of least spectral norm."""
    x, parts = cp.Variable(4), rng.standard_normal((5, n, n + 2))
    A = parts[0] + sum(x[k] * parts[k + 1] for k in range(4))
    return cp.Problem(cp.Minimize(cp.sigma_max(A)))


def exact_fit(rng: np.random.Generator, n: int) -> cp.Problem:
    """Squares that vanish at the optimum."""
    V, X = rng.standard_normal((n, n + 1)), cp.Variable((n + 1, n + 1), PSD=True)
    return cp.Problem(cp.Minimize(cp.sum_squares(V @ X @ V.T - V @ V.T)))


def exact_distances(rng: np.random.Generator, n: int) -> cp.Problem:
    """Distances that are fitted exactly, absolute errors."""
    points = rng.standard_normal((n, 2))
    D = ((points[:, None] - points) ** 2).sum(axis=2)
    K = cp.Variable((n, n), PSD=True)
    i, j = np.nonzero(np.triu(rng.random((n, n)) < 0.7, 1))
    d = cp.diag(K)
    return cp.Problem(cp.Minimize(cp.norm1(d[i] + d[j] - 2 * K[i, j] - D[i, j])))


def completion_feasible(rng: np.random.Generator, n: int) -> cp.Problem:
    """A positive semidefinite completion: feasibility only."""
    G = rng.standard_normal((n, n))
    G, X = G @ G.T + 0.1 * np.eye(n), cp.Variable((n, n), symmetric=True)
    i, j = np.nonzero(np.triu(rng.random((n, n)) < 0.5))
    return cp.Problem(cp.Minimize(0), [X >> 0, X[i, j] == G[i, j]])


def procrustes(rng: np.random.Generator, n: int) -> cp.Problem:
    """A positive semidefinite map between point sets, in least squares."""
    P, Q = rng.standard_normal((n, 3 * n)), rng.standard_normal((n, 3 * n))
    A = cp.Variable((n, n), PSD=True)
    return cp.Problem(cp.Minimize(cp.sum_squares(A @ P - Q)))


def matrix_fraction(rng: np.random.Generator, n: int) -> cp.Problem:
    """xᵀP⁻¹x with both variable."""
    x, P = cp.Variable(n), cp.Variable((n, n), PSD=True)
    rows = [cp.trace(P) <= n, rng.standard_normal((2, n)) @ x == 1]
    return cp.Problem(cp.Minimize(cp.matrix_frac(x, P)), rows)


def sparse_pca(rng: np.random.Generator, n: int) -> cp.Problem:
    """d'Aspremont's relaxation."""
    A, X = rng.standard_normal((n, n)), cp.Variable((n, n), PSD=True)
    cost = cp.trace(A @ A.T @ X) - 0.5 * cp.sum(cp.abs(X))
    return cp.Problem(cp.Maximize(cost), [cp.trace(X) == 1])


def ellipsoid(rng: np.random.Generator, n: int) -> cp.Problem:
    """The smallest ellipsoid that covers points."""
    A, b = cp.Variable((n, n), symmetric=True), cp.Variable(n)
    points = rng.standard_normal((6 * n, n))
    rows = [cp.norm(A @ p + b) <= 1 for p in points]
    return cp.Problem(cp.Maximize(cp.log_det(A)), rows)


def inverse_covariance(rng: np.random.Generator, n: int) -> cp.Problem:
    """The graphical lasso."""
    S, K = np.cov(rng.standard_normal((n, 4 * n))), cp.Variable((n, n), PSD=True)
    return cp.Problem(cp.Maximize(cp.log_det(K) - cp.trace(S @ K) - 0.2 * cp.sum(cp.abs(K))))


def design(rng: np.random.Generator, n: int, kind: str) -> cp.Problem:
    """Experiment design: D, A or E."""
    V, w = rng.standard_normal((n, 4 * n)), cp.Variable(4 * n, nonneg=True)
    M = V @ cp.diag(w) @ V.T
    costs = {
        "D": lambda: cp.Minimize(-cp.log_det(M)),
        "A": lambda: cp.Minimize(cp.tr_inv(M)),
        "E": lambda: cp.Maximize(cp.lambda_min(M)),
    }
    return cp.Problem(costs[kind](), [cp.sum(w) == 1])


# -- quantum and polynomials --------------------------------------------------------------------


def _state(rng: np.random.Generator, n: int) -> Any:
    G = rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n))
    G = G @ G.conj().T
    return G / np.trace(G).real


def discrimination(rng: np.random.Generator, n: int) -> cp.Problem:
    """The best measurement that tells three states apart."""
    E = [cp.Variable((n, n), hermitian=True) for _ in range(3)]
    gain = sum(cp.real(cp.trace(_state(rng, n) @ part)) for part in E) / 3
    return cp.Problem(cp.Maximize(gain), [sum(E) == np.eye(n), *(part >> 0 for part in E)])


def partial_trace(rng: np.random.Generator, n: int) -> cp.Problem:
    """A state with given marginals, nearest to a projector."""
    a, b = _state(rng, n), _state(rng, 2)
    R = cp.Variable((2 * n, 2 * n), hermitian=True)
    v = rng.standard_normal(2 * n)
    rows = [R >> 0, cp.partial_trace(R, [n, 2], axis=1) == a]
    rows += [cp.partial_trace(R, [n, 2], axis=0) == b]
    return cp.Problem(cp.Maximize(cp.real(v @ R @ v)), rows)


def sum_of_squares(rng: np.random.Generator, n: int) -> cp.Problem:
    """The minimum of a polynomial in one variable of degree 2n."""
    c = np.r_[rng.standard_normal(2 * n), 1.0]
    Q, t = cp.Variable((n + 1, n + 1), PSD=True), cp.Variable()
    rows = []
    for k in range(2 * n + 1):
        terms = [Q[i, k - i] for i in range(max(0, k - n), min(n, k) + 1)]
        rows.append(sum(terms) == c[k] - (t if k == 0 else 0))
    return cp.Problem(cp.Maximize(t), rows)


def moments(rng: np.random.Generator, n: int) -> cp.Problem:
    """A bound on an expectation by moments on an interval."""
    m = cp.Variable(2 * n + 1)
    hankel = cp.bmat([[m[i + j] for j in range(n + 1)] for i in range(n + 1)])
    inner = cp.bmat([[m[i + j] - m[i + j + 2] for j in range(n)] for i in range(n)])
    cost = rng.standard_normal(2 * n + 1)
    return cp.Problem(cp.Minimize(cost @ m), [m[0] == 1, m[1] == 0.2, hankel >> 0, inner >> 0])


def trust_region(rng: np.random.Generator, n: int) -> cp.Problem:
    """A nonconvex quadratic over a ball, by its relaxation."""
    A, b = rng.standard_normal((n, n)), rng.standard_normal(n)
    A, Z = A + A.T, cp.Variable((n + 1, n + 1), PSD=True)
    cost = cp.trace(A @ Z[:n, :n]) + 2 * b @ Z[:n, n]
    return cp.Problem(cp.Minimize(cost), [Z[n, n] == 1, cp.trace(Z[:n, :n]) <= 1])


def s_lemma(rng: np.random.Generator, n: int) -> cp.Problem:
    """The same by the S-lemma: a linear matrix inequality with two numbers."""
    A, b = rng.standard_normal((n, n)), rng.standard_normal((n, 1))
    A, t, s = A + A.T, cp.Variable(nonneg=True), cp.Variable()
    lmi = cp.bmat([[A + t * np.eye(n), b], [b.T, cp.reshape(-s - t, (1, 1), order="C")]])
    return cp.Problem(cp.Maximize(s), [lmi >> 0])


def random_sdp(rng: np.random.Generator, n: int) -> cp.Problem:
    """A random program that has an interior on both sides, trace unbounded in the data."""
    m = n + 2
    A = rng.standard_normal((m, n, n))
    A = A + A.transpose(0, 2, 1)
    G = rng.standard_normal((n, n))
    C = sum(rng.standard_normal() * part for part in A) + G @ G.T
    X0 = rng.standard_normal((n, n))
    X0, X = X0 @ X0.T, cp.Variable((n, n), symmetric=True)
    rows = [X >> 0, *(cp.trace(part @ X) == np.sum(part * X0) for part in A)]
    return cp.Problem(cp.Minimize(cp.trace(C @ X)), rows)


def random_lmi(rng: np.random.Generator, n: int) -> cp.Problem:
    """Its dual, with free numbers."""
    m = n + 2
    A = rng.standard_normal((m, n, n))
    A = A + A.transpose(0, 2, 1)
    G, X0 = rng.standard_normal((n, n)), rng.standard_normal((n, n))
    C, b = G @ G.T, np.einsum("kij,ij->k", A, X0 @ X0.T)
    y = cp.Variable(m)
    return cp.Problem(cp.Maximize(b @ y), [C - sum(y[k] * A[k] for k in range(m)) >> 0])


def two_blocks(rng: np.random.Generator, n: int) -> cp.Problem:
    """Two matrices and numbers that share equations and limits."""
    X, Y, z = cp.Variable((n, n), PSD=True), cp.Variable((3, 3), PSD=True), cp.Variable(2)
    A, B = rng.standard_normal((4, n, n)), rng.standard_normal((4, 3, 3))
    rows = [
        cp.trace(A[k] @ A[k].T @ X) + cp.trace(B[k] @ B[k].T @ Y) + (-1) ** k * z[0] <= 4 + k
        for k in range(4)
    ]
    rows += [X[0, 1] + Y[0, 1] == z[1], cp.abs(z) <= 1]
    return cp.Problem(cp.Maximize(cp.trace(X) + cp.trace(Y) + z[0]), rows)


def truss(rng: np.random.Generator, n: int) -> cp.Problem:
    """The stiffest truss of a given volume: [[t, fᵀ], [f, K(x)]] ⪰ 0."""
    B, f = rng.standard_normal((n, 3 * n)), rng.standard_normal(n)
    x, t = cp.Variable(3 * n, nonneg=True), cp.Variable((1, 1))
    K = B @ cp.diag(x) @ B.T
    lmi = cp.bmat([[t, f[None, :]], [f[:, None], K]])
    return cp.Problem(cp.Minimize(t[0, 0]), [cp.sum(x) <= 1, lmi >> 0])


def arrow(rng: np.random.Generator, n: int) -> cp.Problem:
    """A matrix inequality of arrow shape."""
    b = rng.standard_normal(n - 1)
    d, t = cp.Variable(n - 1), cp.Variable((1, 1))
    lmi = cp.bmat([[t, b[None, :]], [b[:, None], cp.diag(d)]])
    return cp.Problem(cp.Minimize(t[0, 0] + cp.sum(d)), [lmi >> 0])


def tridiagonal(rng: np.random.Generator, n: int) -> cp.Problem:
    """A matrix inequality of tridiagonal shape."""
    d, e = cp.Variable(n), rng.standard_normal(n - 1)
    shift = sp.diags_array([e, e], offsets=[1, -1], shape=(n, n))
    return cp.Problem(cp.Minimize(cp.sum(d)), [cp.diag(d) + shift.toarray() >> 0])


def worst_case(rng: np.random.Generator, n: int) -> cp.Problem:
    """The worst case of n steps of the accelerated proximal point method (Güler 1992), as a Gram
    matrix and function values. It is invariant under translations: the dual has no interior."""
    size, f = n + 3, cp.Variable(n + 2)
    best, x0, *slopes = np.eye(size)
    G, x, g = cp.Variable((size, size), PSD=True), [best, x0], [np.zeros(size), slopes[0]]
    weight, v = 5.0, x0
    for t, slope in enumerate(slopes[1:]):
        step = (t + 1) / 1.1
        root = weight * step
        alpha = (np.sqrt(root**2 + 4 * root) - root) / 2
        y = (1 - alpha) * x[-1] + alpha * v
        x.append(y - step * slope)
        g.append(slope)
        v = v + (x[-1] - y) / alpha
        weight *= 1 - alpha
    rows = [f[1] - f[0] + 2.5 * ((x0 - best) @ G @ (x0 - best)) <= 1]
    for i in range(n + 2):
        rows += [f[i] >= f[j] + g[j] @ G @ (x[i] - x[j]) for j in range(n + 2) if i != j]
    return cp.Problem(cp.Maximize(f[n + 1] - f[0]), rows)


# -- linear programs ----------------------------------------------------------------------------


def random_lp(rng: np.random.Generator, n: int) -> cp.Problem:
    """Inequalities around a point, free variables."""
    A, x = rng.standard_normal((3 * n, n)), cp.Variable(n)
    c = A.T @ rng.random(3 * n)
    return cp.Problem(cp.Minimize(-c @ x), [A @ x <= 1 + rng.random(3 * n)])


def standard_lp(rng: np.random.Generator, n: int) -> cp.Problem:
    """Equations and nonnegative variables."""
    A, x = rng.standard_normal((n // 2, n)), cp.Variable(n, nonneg=True)
    c = A.T @ rng.standard_normal(n // 2) + rng.random(n)
    return cp.Problem(cp.Minimize(c @ x), [A @ x == A @ rng.random(n)])


def transport(rng: np.random.Generator, n: int) -> cp.Problem:
    """A transport problem, whose vertices are degenerate."""
    X = cp.Variable((n, n), nonneg=True)
    rows = [cp.sum(X, axis=0) == 1, cp.sum(X, axis=1) == 1]
    return cp.Problem(cp.Minimize(cp.sum(cp.multiply(rng.random((n, n)), X))), rows)


def absolute_fit(rng: np.random.Generator, n: int) -> cp.Problem:
    """Regression with absolute errors."""
    A, x = rng.standard_normal((4 * n, n)), cp.Variable(n)
    return cp.Problem(cp.Minimize(cp.norm1(A @ x - rng.standard_normal(4 * n))))


def basis_pursuit(rng: np.random.Generator, n: int) -> cp.Problem:
    """The sparsest signal with given measurements."""
    A, x = rng.standard_normal((n // 2, n)), cp.Variable(n)
    signal = rng.standard_normal(n) * (rng.random(n) < 0.2)
    return cp.Problem(cp.Minimize(cp.norm1(x)), [A @ x == A @ signal])


def chebyshev_centre(rng: np.random.Generator, n: int) -> cp.Problem:
    """The largest ball in a polyhedron."""
    A, x, r = rng.standard_normal((5 * n, n)), cp.Variable(n), cp.Variable()
    limits = A @ x + r * np.linalg.norm(A, axis=1) <= 1 + rng.random(5 * n)
    return cp.Problem(cp.Maximize(r), [limits, cp.abs(x) <= 10])


def quantile(rng: np.random.Generator, n: int) -> cp.Problem:
    """Quantile regression."""
    A, x = rng.standard_normal((5 * n, n)), cp.Variable(n)
    r = rng.standard_normal(5 * n) - A @ x
    return cp.Problem(cp.Minimize(0.8 * cp.sum(cp.pos(r)) + 0.2 * cp.sum(cp.neg(r))))


def game(rng: np.random.Generator, n: int) -> cp.Problem:
    """A matrix game."""
    p, v = cp.Variable(n, nonneg=True), cp.Variable()
    rows = [rng.standard_normal((n, n)).T @ p >= v, cp.sum(p) == 1]
    return cp.Problem(cp.Maximize(v), rows)


def linear_feasibility(rng: np.random.Generator, n: int) -> cp.Problem:
    """Any point of a polyhedron."""
    A, x = rng.standard_normal((2 * n, n)), cp.Variable(n)
    return cp.Problem(cp.Minimize(0), [A @ x <= rng.random(2 * n), cp.sum(x) == 0.01])


# -- quadratic programs -------------------------------------------------------------------------


def least_squares(rng: np.random.Generator, n: int) -> cp.Problem:
    """Without constraints."""
    A, x = rng.standard_normal((3 * n, n)), cp.Variable(n)
    return cp.Problem(cp.Minimize(cp.sum_squares(A @ x - rng.standard_normal(3 * n))))


def consistent_squares(rng: np.random.Generator, n: int) -> cp.Problem:
    """With an exact solution."""
    A, x = rng.standard_normal((3 * n, n)), cp.Variable(n)
    return cp.Problem(cp.Minimize(cp.sum_squares(A @ x - A @ rng.standard_normal(n))))


def nonnegative_squares(rng: np.random.Generator, n: int) -> cp.Problem:
    """Nonnegative least squares."""
    A, x = rng.standard_normal((2 * n, n)), cp.Variable(n, nonneg=True)
    return cp.Problem(cp.Minimize(cp.sum_squares(A @ x - rng.standard_normal(2 * n))))


def lasso(rng: np.random.Generator, n: int) -> cp.Problem:
    """The lasso."""
    A, x = rng.standard_normal((n, 2 * n)), cp.Variable(2 * n)
    b = rng.standard_normal(n)
    return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(A @ x - b) + 0.3 * cp.norm1(x)))


def support_vectors(rng: np.random.Generator, n: int) -> cp.Problem:
    """A support vector machine."""
    X, y = rng.standard_normal((5 * n, n)), rng.choice([-1.0, 1.0], 5 * n)
    w, b = cp.Variable(n), cp.Variable()
    hinge = cp.sum(cp.pos(1 - cp.multiply(y, X @ w - b)))
    return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + hinge))


def portfolio(rng: np.random.Generator, n: int) -> cp.Problem:
    """Mean and variance, factors."""
    F, w = rng.standard_normal((n, 3)), cp.Variable(n)
    risk = cp.sum_squares(F.T @ w) + cp.sum_squares(cp.multiply(rng.random(n), w))
    return cp.Problem(cp.Maximize(rng.random(n) @ w - 2 * risk), [cp.sum(w) == 1, w >= 0])


def huber(rng: np.random.Generator, n: int) -> cp.Problem:
    """Huber's loss."""
    A, x = rng.standard_normal((4 * n, n)), cp.Variable(n)
    b = rng.standard_normal(4 * n) + 10 * (rng.random(4 * n) < 0.1)
    return cp.Problem(cp.Minimize(cp.sum(cp.huber(A @ x - b))))


def denoising(rng: np.random.Generator, n: int) -> cp.Problem:
    """Total variation in one dimension."""
    x, y = cp.Variable(n), np.repeat([0.0, 1.0], [n // 2, n - n // 2]) + 0.1 * rng.random(n)
    return cp.Problem(cp.Minimize(cp.sum_squares(x - y) + 0.5 * cp.tv(x)))


def isotonic(rng: np.random.Generator, n: int) -> cp.Problem:
    """Monotone regression."""
    x = cp.Variable(n)
    y = np.arange(n) / n + rng.standard_normal(n)
    return cp.Problem(cp.Minimize(cp.sum_squares(x - y)), [cp.diff(x) >= 0])


# -- second-order cones -------------------------------------------------------------------------


def geometric_median(rng: np.random.Generator, n: int) -> cp.Problem:
    """The point of least total distance."""
    x, points = cp.Variable(3), rng.standard_normal((n, 3))
    return cp.Problem(
        cp.Minimize(cp.sum(cp.norm(points - cp.reshape(x, (1, 3), order="C"), axis=1)))
    )


def enclosing_ball(rng: np.random.Generator, n: int) -> cp.Problem:
    """The smallest ball around points."""
    x, r, points = cp.Variable(4), cp.Variable(), rng.standard_normal((n, 4))
    return cp.Problem(cp.Minimize(r), [cp.norm(p - x) <= r for p in points])


def robust_lp(rng: np.random.Generator, n: int) -> cp.Problem:
    """A linear program with ellipsoids of coefficients."""
    x, A = cp.Variable(n), rng.standard_normal((3 * n, n))
    rows = [a @ x + 0.1 * cp.norm(x) <= 1 for a in A]
    return cp.Problem(cp.Minimize(rng.standard_normal(n) @ x), [*rows, cp.norm(x, "inf") <= 5])


def norm_fit(rng: np.random.Generator, n: int) -> cp.Problem:
    """The Euclidean norm of residuals and of the solution."""
    A, x = rng.standard_normal((3 * n, n)), cp.Variable(n)
    return cp.Problem(cp.Minimize(cp.norm(A @ x - rng.standard_normal(3 * n)) + 0.1 * cp.norm(x)))


def group_lasso(rng: np.random.Generator, n: int) -> cp.Problem:
    """Squares and norms of groups."""
    A, x = rng.standard_normal((2 * n, 3 * n)), cp.Variable((n, 3))
    fit = cp.sum_squares(A @ cp.vec(x, order="C") - rng.standard_normal(2 * n))
    return cp.Problem(cp.Minimize(0.5 * fit + cp.sum(cp.norm(x, axis=1))))


def geometric_mean(rng: np.random.Generator, n: int) -> cp.Problem:
    """The largest geometric mean in a polyhedron."""
    x = cp.Variable(n)
    return cp.Problem(cp.Maximize(cp.geo_mean(x)), [rng.random((n, n)) @ x <= 1])


def equal_norms(rng: np.random.Generator, n: int) -> cp.Problem:
    """A consistent system under a norm: zero at the optimum."""
    A, x = rng.standard_normal((n, n + 2)), cp.Variable(n + 2)
    return cp.Problem(cp.Minimize(cp.norm(A @ x - rng.standard_normal(n))), [cp.abs(x) <= 20])


# -- exponential cones --------------------------------------------------------------------------


def logistic(rng: np.random.Generator, n: int) -> cp.Problem:
    """Logistic regression."""
    X, y, w = rng.standard_normal((6 * n, n)), rng.choice([-1.0, 1.0], 6 * n), cp.Variable(n)
    loss = cp.sum(cp.logistic(-cp.multiply(y, X @ w)))
    return cp.Problem(cp.Minimize(loss + 0.1 * cp.sum_squares(w)))


def entropy(rng: np.random.Generator, n: int) -> cp.Problem:
    """The largest entropy with given means."""
    p, A = cp.Variable(n), rng.standard_normal((3, n))
    q = rng.random(n)
    return cp.Problem(cp.Maximize(cp.sum(cp.entr(p))), [cp.sum(p) == 1, A @ p == A @ (q / q.sum())])


_KINDS: list[tuple[Callable[..., cp.Problem], tuple[Any, ...]]] = [
    (lyapunov, (2, 4, 6)), (smallest_lyapunov, (3, 6)), (discrete_lyapunov, (3, 5)),
    (h_infinity, (2, 4, 6)), (state_feedback, (3, 5)), (linear_quadratic, (3, 5)),
    (predictive_control, (3, 6)), (max_cut, (8, 20)), (theta, (8, 14)), (theta_dual, (8, 14)),
    (fastest_mixing, (6, 10)), (largest_eigenvalue, (6, 15)), (sum_of_eigenvalues, (6, 9)),
    (correlation, (6, 12)), (correlation_squared, (6, 15)), (covariance_bounds, (5, 10)),
    (robust_pca, (6, 12)), (matrix_completion, (5, 9)), (spectral_fit, (5, 9)),
    (exact_fit, (2, 4, 6)), (exact_distances, (5, 9)), (completion_feasible, (5, 10)),
    (procrustes, (3, 6)), (matrix_fraction, (4, 8)), (sparse_pca, (5, 9)), (ellipsoid, (2, 3)),
    (inverse_covariance, (4, 7)), (design, ((3, "D"), (3, "A"), (4, "E"))),
    (discrimination, (2, 4)), (partial_trace, (2, 3)), (sum_of_squares, (2, 4)), (moments, (2, 4)),
    (worst_case, (2, 4)), (trust_region, (5, 12)), (s_lemma, (5, 12)), (random_sdp, (6, 12)),
    (random_lmi, (6, 12)), (two_blocks, (5, 10)), (truss, (4, 8)), (arrow, (10, 40)),
    (tridiagonal, (10, 40)),
    (random_lp, (10, 30)), (standard_lp, (20, 60)), (transport, (5, 10)), (absolute_fit, (4, 10)),
    (basis_pursuit, (10, 30)), (chebyshev_centre, (4, 10)), (quantile, (3, 6)), (game, (6, 15)),
    (linear_feasibility, (5, 15)), (least_squares, (5, 15)), (consistent_squares, (5, 15)),
    (nonnegative_squares, (10, 30)), (lasso, (8, 20)), (support_vectors, (4, 8)),
    (portfolio, (10, 30)), (huber, (4, 10)), (denoising, (20, 50)), (isotonic, (15, 40)),
    (geometric_median, (10, 20)), (enclosing_ball, (10, 20)), (robust_lp, (4, 8)),
    (norm_fit, (5, 12)), (group_lasso, (5, 9)), (geometric_mean, (3, 6)), (equal_norms, (4, 10)),
    (logistic, (3,)), (entropy, (8,)),
]  # fmt: skip


def models(seeds: tuple[int, ...] = (0,)) -> Iterator[tuple[str, Callable[[], cp.Problem]]]:
    """Every kind at every size for every seed, by name."""
    for kind, sizes in _KINDS:
        for size in sizes:
            arguments = size if isinstance(size, tuple) else (size,)
            for seed in seeds:
                name = " ".join(map(str, (kind.__name__, *arguments, seed)))
                yield name, partial(_built, kind, arguments, seed)


def _built(kind: Callable[..., cp.Problem], arguments: tuple[Any, ...], seed: int) -> cp.Problem:
    return kind(np.random.default_rng(seed), *arguments)


def cvxpy_tests() -> Iterator[tuple[str, Callable[[], cp.Problem]]]:
    """The standard tests of cvxpy that have an optimum and no integers."""
    from cvxpy.tests import solver_test_helpers as helpers

    arguments = {"sdp_1": ("max",), "socp_3": (0,)}
    for name in sorted(dir(helpers)):
        if name.split("_")[0] in ("lp", "qp", "socp", "sdp", "expcone", "pcp"):
            case = partial(getattr(helpers, name), *arguments.get(name, ()))
            value = case().expect_val
            if value is not None and np.isfinite(value):
                yield f"cvxpy {name}", partial(_of_test, case)


def _of_test(case: Callable[[], Any]) -> cp.Problem:
    """The model of a test, as it was written."""
    problem: cp.Problem = case().prob
    return problem
