"""Sensitivities of the SVM objective: the paper's upper bound, a tighter one that is proved, and the truth.

With ``F(w) = 1/2 |w_1..d|^2 + price sum_q u(q) h(q, w)``, h the hinge loss, and the share of one point
``u(p) f(p, w) = u(p) / (2 U) |w_1..d|^2 + price u(p) h(p, w)``, U the sum of all weights, the sensitivity is
``s(p) = sup_w u(p) f(p, w) / F(w)`` ("On Coresets for Support Vector Machines", 2020, Definition 3; `price` is the
lambda there, see `handful.svm.hinge_price`).
"""

import numpy as np
from sklearn.utils import check_X_y

from handful.checks import (
    check_integer,
    check_magnitude,
    check_number,
    check_sample_weight,
    check_vector,
    signed_labels,
)
from handful.svm.interior_point import minimise, with_ones


def cluster_slope(cluster_weight, total_weight, price):
    """alpha of Algorithm 1, ``U(P \\ P_i) / (2 price U(P) U(P_i))``, for clusters of weight `cluster_weight`."""
    return (total_weight - cluster_weight) / (2.0 * price * total_weight * cluster_weight)


def tight_bound(distance, u, cluster_weight, total_weight, *, price, opt):
    """Upper bound on the sensitivity of points, from their distance to the mean of their cluster.

    The paper's first steps (its Appendix A.2) give, for any partition of each class with weighted means,
    ``u f(p, w) / F(w) <= u / U_i + price u ([<w, D>]_+ - alpha |w|^2) / F(w)`` with D the vector from the point
    to the mean. Maximising over w with no more than ``F(w) >= max(opt, |w|^2 / 2)`` gives

        u / U_i + price u D^2 / (4 alpha opt)                if D <= 2 alpha sqrt(2 opt)
        u / U_i + price u (sqrt(2 / opt) D - 2 alpha)        otherwise,

    a bound that is attained, unlike the printed one, which needs the optimum not to be the maximiser.

    Parameters
    ----------
    distance : float array, shape (n,); D
    u : float array, shape (n,); weights of the points
    cluster_weight : float array, shape (n,); U_i, the weight of each point's cluster
    total_weight : float; U, of both classes
    price : float; of a unit of hinge loss
    opt : float; a lower bound on min F

    Returns
    -------
    float array, shape (n,), in (0, 1]

    Raises
    ------
    ValueError
        for a `price` or `opt` that is not positive and finite, distances and weights that are negative, not finite or
        of different number
    """
    distance, u = _check_problem(distance, u, price, opt)
    # alpha = 0, or so small that the quotient overflows: the second case holds
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        alpha = cluster_slope(cluster_weight, total_weight, price)
        root = np.sqrt(2.0 / opt)
        near = distance**2 / (4.0 * alpha * opt)
        far = root * distance - 2.0 * alpha
        reach = np.where(distance <= 2.0 * alpha * np.sqrt(2.0 * opt), near, far)
        reach = np.where(distance > 0, reach, 0.0)
        return _at_most_one(u / cluster_weight + price * u * reach, price, opt)


def printed_bound(distance, u, cluster_weight, total_weight, *, price, opt, kappa=4 / 9):
    """The paper's bound (its Lemma 5.3) with the constant `kappa`; parameters as in `tight_bound`.

    ``u / U_i + 9/2 price u max(kappa alpha, sqrt(4 alpha^2 + 2 D^2 / (9 opt)) - 2 alpha)``, at most 1. The formula is
    lost from the stored text: kappa = 4/9 is the printed lemma as recalled, 2/3 is the authors' code. With
    either it falls short of the sensitivity by up to about 6 % on instances where the optimum itself is the
    maximiser (`printed_bound_counterexample`).
    """
    distance, u = _check_problem(distance, u, price, opt)
    check_number("kappa", kappa, least=0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        alpha = cluster_slope(cluster_weight, total_weight, price)
        reach = np.hypot(2.0 * alpha, np.sqrt(2.0 / (9.0 * opt)) * distance) - 2.0 * alpha
        return _at_most_one(u / cluster_weight + 4.5 * price * u * np.maximum(kappa * alpha, reach), price, opt)


def _check_problem(distance, u, price, opt):
    distance = check_vector(distance, "distance", least=0)
    u = check_vector(u, "u", len(distance), least=0)
    check_number("price", price, above=0, any_size=True)
    check_number("opt", opt, above=0, any_size=True, why="a lower bound on the SVM's optimum, which is positive")
    return distance, u


def _at_most_one(bound, price, opt):
    if np.isnan(bound).any():
        raise ValueError(f"price={price:g} and opt={opt:g} are so far apart that the bound overflows: scale the data.")
    return np.minimum(1.0, bound)


def exact_sensitivity(X, y, index, *, price=1.0, sample_weight=None, tol=1e-9, max_iter=50):
    """The sensitivity of one point, by fractional programming (Dinkelbach 1967).

    Above ``s = u / U`` the numerator minus s times F is concave in w; each round maximises it, a weighted
    SVM with a linear term, and takes the ratio at the maximiser for the next s. For small data: a round
    costs an SVM.

    Parameters
    ----------
    X : float array, shape (n, d)
    y : shape (n,), -1 or +1
    index : int, the point
    price : float; of a unit of hinge loss
    sample_weight : shape (n,); ones if None
    tol : float, relative change of s at which to stop
    max_iter : int, rounds

    Returns
    -------
    float; the ratio that some w reaches (so never above the sensitivity), or u / U of the point's class,
    which a bias going to infinity approaches

    Raises
    ------
    ValueError
        for values that are not finite or huge, labels other than -1 and +1 of which both are there, a point that is
        not there or has no weight, and options out of range
    """
    X, y = check_X_y(X, y, dtype=np.float64)
    check_magnitude(X, "X", X.dtype)
    if not np.array_equal(signed_labels(y, "an SVM")[0], (-1, 1)):
        raise ValueError(f"y must hold the labels -1 and +1, got {np.unique(y)[:5]}.")
    y = y.astype(np.float64)
    u = check_sample_weight(sample_weight, len(y))
    check_integer("index", index, least=0, most=len(y) - 1, why="it is a row of X")
    if not u[index]:
        raise ValueError(f"sample_weight is zero at index={index}: a point without weight has no sensitivity.")
    check_number("price", price, above=0)
    check_number("tol", tol, above=0)
    check_integer("max_iter", max_iter)
    z = y[index] * np.append(X[index], 1.0)
    A, total = with_ones(X), u.sum()
    s = least = u[index] / u[y == y[index]].sum()
    s *= 1.0 + 1e-6
    for _ in range(max_iter):
        curvature = s - u[index] / total
        w = minimise(A, y, s * price * u / curvature, tol=1e-10, linear=-price * u[index] * z / curvature).w
        norm = 0.5 * w[:-1] @ w[:-1]
        cost = norm + price * u @ np.maximum(0.0, 1.0 - y * (A @ w))
        ratio = (u[index] / total * norm + price * u[index] * max(0.0, 1.0 - z @ w)) / cost
        if ratio <= s * (1.0 + tol):
            break
        s = ratio
    return max(least, ratio)


def printed_bound_counterexample(distance=2.3, light=1e-3, heavy=1e5):
    """Three points on a line for which the printed bound is below the sensitivity.

    Two positive points, at 1 (weight 1) and at ``1 - distance`` (weight `light`), one negative at -1 (weight
    `heavy`), price = 1/2, one cluster per class. As `light` goes to 0 and `heavy` to infinity the optimum is
    ``w = 1, b = 0``, and it is where the light point matters most.

    Returns
    -------
    X : float array, shape (3, 1)
    y : float array, shape (3,)
    sample_weight : float array, shape (3,)
    price : float; of a unit of hinge loss
    index : int, the light point
    """
    for name, value in dict(distance=distance, light=light, heavy=heavy).items():
        check_number(name, value, above=0)
    X = np.array([[1.0], [1.0 - distance], [-1.0]])
    return X, np.array([1.0, 1.0, -1.0]), np.array([1.0, light, heavy]), 0.5, 1
