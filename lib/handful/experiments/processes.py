"""The independent runs of a notebook, a seed each, over processes."""

import pandas as pd
from joblib import Parallel, parallel_config
from tqdm import tqdm


def gather_runs(runs, n_jobs=1):
    """Results of independent runs as one table, in the order of `runs`, whichever ends first.

    Each process keeps to one thread: `n_jobs` of them load as many cores, and a run gives the numbers that it gives
    alone. Arrays that runs share are mapped into all processes, copied where one writes.

    Parameters
    ----------
    runs : list of (labels, call); labels a dict of columns to add, call a `joblib.delayed` one that gives a DataFrame
        or what makes one
    n_jobs : int, processes

    Returns
    -------
    DataFrame

    Raises
    ------
    Whatever a run raises.
    """
    labels, calls = zip(*runs)
    with parallel_config("loky", inner_max_num_threads=1, mmap_mode="c"):
        results = Parallel(n_jobs, return_as="generator")(calls)
        return pd.concat(
            [
                pd.DataFrame(result).assign(**about)
                for about, result in zip(labels, tqdm(results, total=len(calls), disable=None))
            ],
            ignore_index=True,
        )
