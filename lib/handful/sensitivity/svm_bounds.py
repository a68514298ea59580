"""Sensitivities of the SVM objective: the paper's upper bound, and a tighter one that is proved.

With ``F(w) = 1/2 |w_1..d|^2 + price sum_q u(q) h(q, w)``, h the hinge loss, and the share of one
point ``u(p) f(p, w) = u(p) / (2 U) |w_1..d|^2 + price u(p) h(p, w)``, U the sum of all weights, the
sensitivity is ``s(p) = sup_w u(p) f(p, w) / F(w)`` ("On Coresets for Support Vector Machines",
2020, Definition 3; `price` is the lambda there, see `handful.svm.linear_svm.hinge_price`).
"""

import numpy as np


def cluster_slope(cluster_weight, total_weight, price):
    """alpha of Algorithm 1, ``U(P \\ P_i) / (2 price U(P) U(P_i))``, for clusters of weight
    `cluster_weight`."""
    other_weight = total_weight - cluster_weight
    product = 2.0 * price * total_weight * cluster_weight
    return other_weight / product


def tight_bound(distance, u, cluster_weight, total_weight, *, price, opt):
    """Upper bound on the sensitivity of points, from their distance to the mean of their cluster.

    The paper's first steps (its Appendix A.2) give, for any partition of each class with weighted
    means, ``u f(p, w) / F(w) <= u / U_i + price u ([<w, D>]_+ - alpha |w|^2) / F(w)`` with D the
    vector from the point to the mean. Maximising over w with no more than ``F(w) >= max(opt, |w|^2
    / 2)`` gives

        u / U_i + price u D^2 / (4 alpha opt)                if D <= 2 alpha sqrt(2 opt)
        u / U_i + price u (sqrt(2 / opt) D - 2 alpha)        otherwise,

    a bound that is attained, unlike the printed one, which needs the optimum not to be the
    maximiser.

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
    """
    # alpha = 0, or so small that the quotient overflows: the second case holds
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        alpha = cluster_slope(cluster_weight, total_weight, price)
        root = np.sqrt(2.0 / opt)
        turn = 2.0 * alpha * np.sqrt(2.0 * opt)
        slack = 4.0 * alpha * opt
        near = distance**2 / slack
        far = root * distance - 2.0 * alpha
        reach = np.where(distance <= turn, near, far)
        reach = np.where(distance > 0, reach, 0.0)
        bound = u / cluster_weight + price * u * reach
        # also where it overflows
        return np.fmin(1.0, bound)


def printed_bound(distance, u, cluster_weight, total_weight, *, price, opt, kappa=4 / 9):
    """The paper's bound (its Lemma 5.3) with the constant `kappa`; parameters as in `tight_bound`.

    ``u / U_i + 9/2 price u max(kappa alpha, sqrt(4 alpha^2 + 2 D^2 / (9 opt)) - 2 alpha)``, at most
    1. The formula is lost from the stored text: kappa = 4/9 is the printed lemma as recalled, 2/3
    is the authors' code. With either it falls short of the sensitivity by up to about 6 % on
    instances where the optimum itself is the maximiser (`printed_bound_counterexample`).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        alpha = cluster_slope(cluster_weight, total_weight, price)
        twice = 2.0 * alpha
        moved = np.sqrt(2.0 / (9.0 * opt)) * distance
        reach = np.hypot(twice, moved) - twice
        largest = np.maximum(kappa * alpha, reach)
        bound = u / cluster_weight + 4.5 * price * u * largest
        return np.fmin(1.0, bound)
