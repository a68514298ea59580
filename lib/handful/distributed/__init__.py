"""The same coresets over dask: lightweight, merge and reduce, Algorithm 1 (extra ``handful[distributed]``).

Every task is a pure function of its chunk and its place, random numbers included. So the answer depends on
the data, the chunks and the seed only: not on the scheduler, the number of workers, or a worker that died and
whose tasks were run again elsewhere.
"""

try:
    import dask  # noqa: F401 (so that its absence is named before anything else is imported)
except ImportError as error:
    raise ImportError("handful.distributed needs dask: pip install 'dask[array,distributed]'.") from error

from handful.distributed.chunks import DistributedCoreset
from handful.distributed.lightweight import LightweightCoreset
from handful.distributed.merge_reduce import merge_reduce
from handful.distributed.svm import svm_coreset

__all__ = ["DistributedCoreset", "LightweightCoreset", "merge_reduce", "svm_coreset"]
