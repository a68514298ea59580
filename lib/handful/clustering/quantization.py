"""The k-means objective, exact."""

from handful.blocks import as_blocks
from handful.checks import check_rows, check_sample_weight, check_some_count, is_blocks
from handful.distances import nearest_centers


def quantization_error(X, centers, sample_weight=None):
    """Sum over all rows of the squared distance to the nearest of all centres: the k-means
    objective, exact.

    Parameters
    ----------
    X : array of shape (n, d), or Blocks
        The rows; float32 is searched in float32 and measured in float64. Or what is read block by
        block: files, dask data, `handful.blocks.Blocks`, an array that exceeds half of the memory.
    centers : array of shape (C, d)
        The centres.
    sample_weight : array of shape (n,) or None, default=None
        How often each row counts.

    Returns
    -------
    float
        The sum, in squared units of X.

    Raises
    ------
    ValueError
        if the columns of `X` and `centers` do not agree, or for bad weights
    """
    if is_blocks(X, sample_weight):
        blocks = as_blocks(X, None, sample_weight)
        errors = []
        for error in blocks.map(_error_of_block, centers):
            if error is not None:
                errors.append(error)
        check_some_count(errors, blocks.n)
        return float(sum(errors))
    X = check_rows(X)
    centers = check_rows(centers, "centers")
    if X.shape[1] != centers.shape[1]:
        raise ValueError(
            f"X and centers must have the same number of columns, got {X.shape[1]} and "
            f"{centers.shape[1]}."
        )
    weights = check_sample_weight(sample_weight, len(X))
    _, sq_dist = nearest_centers(X, centers)
    return float(weights @ sq_dist)


def _error_of_block(block, centers):
    # None for a block of which no row counts.
    if not block.weight.any():
        return None
    return quantization_error(block.X, centers, block.weight)
