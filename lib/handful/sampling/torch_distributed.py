"""A `MixtureSampler` for several training processes: each draws from its own rows, and they share what they learn."""

import numpy as np

from handful.checks import check_integer
from handful.sampling.mixture import MixtureSampler

try:
    import torch
    from torch import distributed
    from torch.utils.data import Sampler as TorchSampler
except ImportError as error:
    raise ImportError("handful's torch sampler needs torch: pip install 'handful[torch]'.") from error


class DistributedMixtureSampler(TorchSampler):
    """The `batch_sampler` of one of several processes that train one model, by the conventions of `DistributedSampler`.

    Rank r draws from the rows r, r + R, r + 2 R, ... of R ranks and holds tables of these alone. Importance weights are
    such that the mean over the ranks of ``(weights * losses).mean()`` estimates the mean loss over all rows without
    bias: the mean that `DistributedDataParallel` takes of gradients. Each rank learns the mixture on its rows; every
    `sync_every` updates the ranks replace their mixture weights by the mean, so all must call `update` equally often.

    Parameters
    ----------
    probabilities : array or memory map, shape (k, n), one distribution over all rows a component, the same in all ranks
    num_replicas, rank : int, as in `torch.utils.data.DistributedSampler`; from the process group by default
    batch_size : int, rows of a batch of this rank
    n_batches : int, batches an epoch; by default enough for all ranks to draw n rows together
    sync_every : int, updates between two exchanges of the mixture weights
    random_state : int, the same in all ranks
    options : further ones of `MixtureSampler`

    Raises
    ------
    ValueError
        for a rank outside 0..num_replicas - 1, fewer rows than a batch for a rank, and as `MixtureSampler`

    Examples
    --------
    In each of the processes, after ``torch.distributed.init_process_group``::

        batches = DistributedMixtureSampler(group_components(classes), batch_size=64)
        loader = DataLoader(Weighted(dataset), batch_sampler=batches)
        for epoch in range(10):
            batches.set_epoch(epoch)
            for (x, y), indices, weights in loader:
                losses = cross_entropy(model(x), y, reduction="none")  # the model in DistributedDataParallel
                optimizer.zero_grad()
                (weights * losses).mean().backward()
                optimizer.step()
                batches.update(losses, indices, weights)
    """

    def __init__(
        self,
        probabilities,
        *,
        num_replicas=None,
        rank=None,
        batch_size=100,
        n_batches=None,
        sync_every=10,
        random_state=0,
        **options,
    ):
        grouped = distributed.is_available() and distributed.is_initialized()
        self.num_replicas = num_replicas if num_replicas is not None else distributed.get_world_size() if grouped else 1
        self.rank = rank if rank is not None else distributed.get_rank() if grouped else 0
        check_integer("num_replicas", self.num_replicas)
        check_integer("rank", self.rank, least=0, most=self.num_replicas - 1)
        check_integer("sync_every", sync_every)
        check_integer("random_state", random_state, least=0, why="all ranks need the same")
        n = np.shape(probabilities)[1]
        shard = np.array(probabilities[:, self.rank :: self.num_replicas], dtype=np.float64)
        mass = shard.sum(axis=1, keepdims=True)
        shard = np.where(mass > 0, shard / np.where(mass > 0, mass, 1.0), 1.0 / shard.shape[1])
        last = np.asarray(probabilities[-1])
        if options.get("uniform", True) and np.ptp(last) > 1e-9 * last.max():
            # of all ranks, where a component may be uniform on the rows of some
            shard = np.concatenate([shard, np.full((1, shard.shape[1]), 1.0 / shard.shape[1])])
        self.sampler = MixtureSampler(shard, batch_size=batch_size, **options)
        self._scale = self.num_replicas * self.sampler.n / n
        self.n_batches = -(-n // (batch_size * self.num_replicas)) if n_batches is None else n_batches
        check_integer("n_batches", self.n_batches)
        self.sync_every, self.random_state, self._n_updates = sync_every, random_state, 0
        self._group = grouped
        self.set_epoch(0)

    def __len__(self):
        return self.n_batches

    def set_epoch(self, epoch):
        """Begin the random numbers of an epoch: they depend on it, `random_state` and the rank alone."""
        self.sampler.rng = np.random.default_rng([self.random_state, epoch, self.rank])

    def __iter__(self):
        for _ in range(self.n_batches):
            indices, weights = self.sampler.sample()
            yield list(zip((self.rank + self.num_replicas * indices).tolist(), (self._scale * weights).tolist()))

    @property
    def mixture_weights(self):
        """The mixture weights, shape (k,), the uniform component's last; equal in all ranks after an exchange."""
        return self.sampler.mixture_weights

    def update(self, losses, indices, weights):
        """Take the feedback for a batch of this rank: see `MixtureSampler.update`."""
        indices = (torch.as_tensor(indices) - self.rank) // self.num_replicas
        self.sampler.update(losses, indices, torch.as_tensor(weights, dtype=torch.float64) / self._scale)
        self._n_updates += 1
        if self._group and self._n_updates % self.sync_every == 0:
            mean = torch.from_numpy(self.sampler.mixture_weights)
            distributed.all_reduce(mean)
            self.sampler.set_mixture_weights((mean / distributed.get_world_size()).numpy())
