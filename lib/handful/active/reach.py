"""`within_reach`: rows that lie far out count as if they were nearer, so that an outlier is no
group of its own."""

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import csc_median_axis_0

from handful.distances import sq_distances_to


def within_reach(features, reach=2.0):
    """A function that pulls rows back which lie far out, so that their length alone does not have
    them chosen.

    Parameters
    ----------
    features : array or CSR matrix, shape (pool, d)
    reach : float, most that a row may be away from the pool's median, in units of the median
        distance from it

    Returns
    -------
    function from rows, shape (..., d), to the same with longer ways shortened; CSR rows stay CSR
    """
    if sparse.issparse(features):
        center = csc_median_axis_0(sparse.csc_matrix(features))
        most = reach * np.median(np.sqrt(sq_distances_to(features, center)))
    else:
        center = np.median(features, axis=0)
        most = reach * np.median(np.linalg.norm(features - center, axis=1))

    def pulled_sparse(rows):
        away = np.sqrt(sq_distances_to(rows, center))
        kept = np.where(away > most, most / np.maximum(away, most), 1.0)
        # The median is zero in all columns of which less than half is stored, so that this fills in
        # few entries.
        shift = sparse.csr_array((1.0 - kept)[:, None]) @ sparse.csr_array(center[None, :])
        return sparse.csr_array(sparse.diags_array(kept) @ rows + shift).astype(rows.dtype)

    def pulled(rows):
        if most and sparse.issparse(rows):
            return pulled_sparse(rows)
        away = np.linalg.norm(rows - center, axis=-1, keepdims=True)
        return (
            np.where(away > most, center + (rows - center) * (most / np.maximum(away, most)), rows)
            if most
            else rows
        )

    return pulled
