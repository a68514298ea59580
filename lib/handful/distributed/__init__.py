"""The same coresets over dask: what `fit` of each estimator calls for dask data (extra ``handful[distributed]``).

Every task is a pure function of its chunk and its place, random numbers included. So the answer depends on
the data, the chunks and the seed only: not on the scheduler, the number of workers, or a worker that died and
whose tasks were run again elsewhere.
"""

try:
    import dask  # noqa: F401 (so that its absence is named before anything else is imported)
except ImportError as error:
    raise ImportError("handful.distributed needs dask: pip install 'dask[array,distributed]'.") from error

from handful.distributed.bilevel import bilevel_model
from handful.distributed.chunks import ChunkError, Chunks
from handful.distributed.lightweight import lightweight_rows
from handful.distributed.merge_reduce import merge_reduce
from handful.distributed.rowwise import rowwise, take
from handful.distributed.selectors import fit

__all__ = ["ChunkError", "Chunks", "bilevel_model", "fit", "lightweight_rows", "merge_reduce", "rowwise", "take"]
