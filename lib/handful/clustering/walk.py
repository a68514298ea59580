"""Nearest of many centres by a greedy walk over the neighbourhoods of a fit."""

import numpy as np
from numba import njit

from handful.clustering.distances import inverted_file, probable_centers
from handful.clustering.variational import padded
from handful.clustering.vcgmm_kernels import Threads, distances_to

WIDTH = 12  # neighbours of a cluster in the graph
BEAM = 8  # best clusters that a walk keeps; it ends when the neighbours of all of them have been seen
BLOCK = 1 << 16  # rows walked at a time


@njit(cache=True, nogil=True)
def both_ways(neighbours):
    """The neighbourhoods made (nearly) symmetric: int32 array of shape (C, p).

    Each cluster gets the clusters that have it as a neighbour, as long as there is room; without this way back a walk
    soon has nowhere to go. Rows that are not full repeat their first entry, the cluster itself.
    """
    C, width = neighbours.shape
    graph = np.empty((C, max(width, WIDTH)), np.int32)
    count = np.full(C, width)
    for c in range(C):
        graph[c] = neighbours[c, 0]
        graph[c, :width] = neighbours[c]
    for g in range(1, width):  # the nearest first
        for c in range(C):
            other = neighbours[c, g]
            if count[other] < graph.shape[1] and not (graph[other, : count[other]] == c).any():
                graph[other, count[other]] = c
                count[other] += 1
    return graph


@njit(cache=True, nogil=True)
def _walk(start, stop, Y, centers, offset, slope, G, entry, labels, n_met):
    # Best-first search: look at the neighbours of the best cluster that has not been opened yet, until all clusters of
    # the beam are open.
    n_clusters, width = G.shape
    seen = np.full(n_clusters, -1, np.int64)
    ids, distance = np.empty(width + 3, np.int32), np.empty(width + 3, Y.dtype)
    beam, opened, value = np.empty(BEAM, np.int32), np.empty(BEAM, np.bool_), np.empty(BEAM, Y.dtype)
    for i in range(start, stop):
        ids[0] = entry[i]
        seen[entry[i]] = i
        count, filled, total = 1, 0, 0
        while True:
            total += count
            distances_to(Y[i], centers, ids, count, distance)
            for k in range(count):
                c = ids[k]
                v = offset[c] + slope[c] * distance[k]
                if filled == BEAM and v >= value[BEAM - 1]:
                    continue
                slot = filled if filled < BEAM else BEAM - 1
                filled = min(filled + 1, BEAM)
                while slot > 0 and value[slot - 1] > v:
                    value[slot], beam[slot], opened[slot] = value[slot - 1], beam[slot - 1], opened[slot - 1]
                    slot -= 1
                value[slot], beam[slot], opened[slot] = v, c, False
            count = 0
            for k in range(filled):
                if opened[k]:
                    continue
                opened[k] = True
                for g in range(1, width):
                    other = G[beam[k], g]
                    if seen[other] != i:
                        seen[other] = i
                        ids[count] = other
                        count += 1
                if count:
                    break
            if count == 0:
                break
        labels[i] = beam[0]
        n_met[i] = total


def walk_to_centers(X, centers, neighbours, offset, slope, *, to_frame):
    """The cluster of least ``offset + slope * squared distance`` for nearly every row; some walks end at one close by.

    A walk begins at the centre that an inverted file finds.

    Parameters
    ----------
    X : array or memory map, shape (n, d)
    centers : array, shape (C, d), about the origin
    neighbours : int32 array, shape (C, G), each cluster's neighbourhood, itself first
    offset, slope : arrays, shape (C,)
    to_frame : function that takes rows of X to the coordinates of the centres

    Returns
    -------
    labels : int array, shape (n,)
    n_distances : int, distances that were computed
    """
    n = len(X)
    labels, n_met = np.empty(n, np.intp), np.empty(n, np.int64)
    *file, n_distances = inverted_file(centers)
    graph = both_ways(neighbours)
    offset, slope, wide = offset.astype(X.dtype), slope.astype(X.dtype), padded(centers.astype(X.dtype))
    with Threads() as threads:
        for start in range(0, n, BLOCK):
            part = slice(start, start + BLOCK)
            rows = to_frame(np.ascontiguousarray(X[part]))
            entry, n_entering = probable_centers(rows, centers, (*file, 0))
            walk = wide, offset, slope, graph, entry, labels[part], n_met[part]
            threads.run(_walk, len(rows), padded(rows), *walk)
            n_distances += n_entering
    return labels, n_distances + int(n_met.sum())
