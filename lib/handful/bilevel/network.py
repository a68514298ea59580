"""Networks as inner problems: trained from scratch, implicit gradients from products alone (Section 3.5.1)."""

import copy
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from handful.bilevel.ihvp import conjugate_gradients, neumann_series
from handful.bilevel.newton import ConvergenceError
from handful.bilevel.problems import Problem
from handful.checks import check_integer, check_number

try:
    import torch
    from torch.func import functional_call, grad, jvp, vjp
except ImportError as error:
    raise ImportError("Network needs torch: pip install 'handful[torch]'.") from error

CURVATURES = ("gauss-newton", "hessian")
OPTIMISERS = ("sgd", "adam")


@dataclass(frozen=True)
class TrainConfig:
    """How a network is trained on the chosen rows. The defaults are the paper's for WideResNet-16-4 (Section 5.2.3).

    Attributes
    ----------
    steps : int, minibatches, whatever the number of rows; the paper's 300 n / m epochs are a fixed number of steps
    batch_size : int; fewer rows than that are one minibatch
    lr : float, step size at the start; it falls to zero along half a cosine
    momentum : float, of SGD (Nesterov's)
    weight_decay : float, the penalty ``weight_decay / 2 |theta|^2`` on all parameters, also in implicit gradients
    optimiser : "sgd" or "adam"
    augment : function ``(X, generator) -> X`` of a minibatch and a torch Generator of the CPU, or None
    bfloat16 : bool, whether to train in mixed precision; implicit gradients stay in the network's own
    """

    steps: int = 2000
    batch_size: int = 128
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    optimiser: str = "sgd"
    augment: Callable | None = field(default=None, repr=False)
    bfloat16: bool = False

    def check(self):
        """ValueError for a setting that makes no sense."""
        for name in ("steps", "batch_size"):
            check_integer(name, getattr(self, name), of=self)
        check_number("lr", self.lr, above=0, of=self)
        for name in ("momentum", "weight_decay"):
            check_number(name, getattr(self, name), least=0, of=self)
        if self.optimiser not in OPTIMISERS:
            raise ValueError(f"optimiser of TrainConfig must be one of {OPTIMISERS}, got {self.optimiser!r}.")

    def optimise(self, parameters):
        """A new torch optimiser of some parameters."""
        if self.optimiser == "adam":
            return torch.optim.Adam(parameters, lr=self.lr, weight_decay=self.weight_decay)
        options = dict(momentum=self.momentum, nesterov=self.momentum > 0, weight_decay=self.weight_decay)
        return torch.optim.SGD(parameters, lr=self.lr, **options)


class Network(Problem):
    """A torch network as inner problem of `BilevelCoreset` (Borsos et al. 2024, Sections 3.5.1 and 5.2.3).

    Each round trains the network from scratch on the points chosen so far, solves ``H v = grad g`` by a Neumann series
    or conjugate gradients on minibatches, and takes the points of the smallest implicit gradient. Row scores
    ``grad l_k' v`` are directional derivatives: one pass in forward mode over all rows, no gradient per row.

    Selection is forward, with equal weights and the linear rule:
    ``BilevelCoreset(Network(module), size=1000, batch=100, n_start=200, score="linear")``.

    Parameters
    ----------
    module : torch.nn.Module that takes rows as they lie in X, shape (batch, d), each training begins at a copy of it
        as it is now; or a function without arguments that makes one, called anew in every round
    loss : function ``(outputs, targets) -> losses``, shape (batch,). None: cross-entropy, where y holds classes or
        rows of probabilities
    train : TrainConfig
    curvature : "gauss-newton", never negative, so that both iterations converge; "hessian", the paper's, which may be
        indefinite: conjugate gradients then stop, the Neumann series may diverge, which is an error
    curvature_rows : int, chosen rows in the minibatch of one Hessian-vector product
    block : int, rows a pass of scores and gradients reads at a time
    device : of torch, such as "cuda"; None is the CPU
    seed : int, of the minibatches; every round has its own
    checkpoint : path of a file in which the choice is kept after every round, so that the same call after a crash goes
        on there; None keeps nothing

    Raises
    ------
    ValueError
        if the module does not take rows of X's shape
    ConvergenceError
        if training ends in a loss that is not finite, or the Neumann series diverges

    Examples
    --------
    >>> import torch
    >>> from handful import BilevelCoreset
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> net = torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.Tanh(), torch.nn.Linear(16, 10))
    >>> problem = Network(net, train=TrainConfig(steps=50, lr=1e-2, optimiser="adam"))
    >>> coreset = BilevelCoreset(problem, size=40, batch=10, n_start=20, score="linear", random_state=0)
    >>> len(coreset.fit(X / 16, y).indices_)
    40
    """

    forward_only = True

    def __init__(
        self,
        module,
        loss=None,
        *,
        train=None,
        curvature="gauss-newton",
        curvature_rows=512,
        block=1024,
        device=None,
        seed=0,
        checkpoint=None,
    ):
        self.module = module
        self.loss = loss
        self.train = train
        self.curvature = curvature
        self.curvature_rows = curvature_rows
        self.block = block
        self.device = device
        self.seed = seed
        self.checkpoint = checkpoint

    @property
    def classifies(self):
        """Whether y holds classes."""
        return self.loss is None

    def check(self):
        """ValueError for an option that makes no sense, and for CUDA where there is none."""
        if not callable(self.module):
            raise ValueError(f"module must be a torch module or a function that makes one, got {self.module!r}.")
        if self.curvature not in CURVATURES:
            raise ValueError(f"curvature must be one of {CURVATURES}, got {self.curvature!r}.")
        self.training().check()
        for name in ("curvature_rows", "block"):
            check_integer(name, getattr(self, name))
        if torch.device(self.device or "cpu").type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device={self.device!r}, but torch finds no CUDA device here: take device=None.")

    def training(self):
        """The `TrainConfig` that holds."""
        return TrainConfig() if self.train is None else self.train

    def encode(self, y):
        """Classes as integers in the order of `numpy.unique`; rows of probabilities and others as floats."""
        y = np.asarray(y)
        if self.loss is None and y.ndim == 1:
            return np.unique(y, return_inverse=True)[1]
        return y.astype(np.float32) if y.dtype.kind == "f" else y

    def selection(self, rows, rng, ihvp):
        """An empty `NetworkSelection`."""
        return NetworkSelection(self, rows, ihvp)

    def make(self):
        """A module to be trained, in its initial state."""
        if isinstance(self.module, torch.nn.Module):
            return copy.deepcopy(self.module).to(self.device)
        return self.module().to(self.device)

    def row_losses(self, outputs, y):
        """The loss of every row, shape (batch,)."""
        if self.loss is None:
            return torch.nn.functional.cross_entropy(outputs, y, reduction="none")
        losses = self.loss(outputs, y)
        if losses.shape != (len(outputs),):
            raise ValueError(
                f"loss must give one number a row, shape ({len(outputs)},), got {tuple(losses.shape)}: torch's losses "
                "take reduction='none'."
            )
        return losses

    def _first_outputs(self, module, rows):
        # What training begins with: a module that does not suit the data shows here, in torch's words.
        try:
            return module(rows)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, IndexError) as error:
            raise ValueError(
                f"module {type(module).__name__} must take rows as they lie in X, of shape {tuple(rows.shape[1:])}, "
                f"but fails on {len(rows)} of them: {error}"
            ) from error

    def fit_module(self, X, y, seed, watch=None):
        """A module trained from scratch on some rows.

        Parameters
        ----------
        X : tensor, shape (s, d); y : tensor, encoded targets
        seed : sequence of int
        watch : function ``(step, module)``, called after each minibatch, from 1; for those that look on

        Returns
        -------
        torch.nn.Module, in evaluation mode
        """
        config = self.training()
        rng = np.random.default_rng(seed)
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        size, device = min(config.batch_size, len(X)), torch.device(self.device or "cpu")
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(int(rng.integers(2**63)))  # of the initial weights and dropout
            module = self.make().train()
            X = X.to(next(module.parameters()).dtype)
            optimiser = config.optimise(module.parameters())
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.steps)
            order = np.empty(0, np.intp)
            for step in range(config.steps):
                if len(order) < size:  # what is left of an epoch begins the next, so that minibatches have one size
                    order = np.concatenate([order, rng.permutation(len(X))])
                batch, order = torch.from_numpy(order[:size]).to(X.device), order[size:]
                rows = X[batch] if config.augment is None else config.augment(X[batch], generator)
                with torch.autocast(device.type, torch.bfloat16, enabled=config.bfloat16):
                    outputs = module(rows) if step else self._first_outputs(module, rows)
                    loss = self.row_losses(outputs, y[batch]).mean()
                if not torch.isfinite(loss):
                    epoch = 1 + step * size // len(X)
                    raise ConvergenceError(
                        f"training on {len(X)} rows diverged in step {step + 1} of {config.steps} (epoch {epoch}): "
                        f"loss {loss.item():.3g} at the step size {schedule.get_last_lr()[0]:.3g}; lower lr."
                    )
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
                if watch is not None:
                    watch(step + 1, module)
        return module.eval()


class NetworkSelection:
    """A growing coreset of a `Network`, and what the outer loss says about every further row.

    Has the methods of `GenericSelection` that forward selection with equal weights asks for. All derivatives are taken
    in evaluation mode: dropout is off, batch normalisation has its running averages.

    Parameters
    ----------
    problem : Network
    rows : Rows
    ihvp : Ihvp; "auto" is "neumann"
    """

    max_candidates = 1 << 62  # scores are all there is, so every row is one

    def __init__(self, problem, rows, ihvp):
        if ihvp.method == "cholesky":
            raise ValueError(
                "ihvp='cholesky' needs the whole Hessian, which a network has not: take 'neumann' or 'cg'."
            )
        self.problem, self.ihvp, self.absent = problem, ihvp, rows.absent
        self.indices = []
        self._u = rows.sample_weight / rows.sample_weight.sum()
        self._X = torch.as_tensor(np.ascontiguousarray(rows.X), dtype=torch.float32)
        self._y = torch.as_tensor(rows.y)
        self.module = None

    def __len__(self):
        return len(self.indices)

    def add(self, indices):
        """Append rows to the coreset; where a checkpoint of the same task knows more, what it knows."""
        first = not self.indices
        self.indices += [int(i) for i in indices]
        path = self.problem.checkpoint
        if path is None:
            return
        path = Path(path)
        if first:
            self._task = self._fingerprint()
            if path.exists():
                self._resume(path)
                return
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        with open(new, "wb") as file:
            np.savez(file, task=self._task, indices=self.indices)
        new.replace(path)

    def _resume(self, path):
        with np.load(path, allow_pickle=False) as kept:
            task, indices = str(kept["task"]), kept["indices"].tolist()
        if task != self._task:
            raise ValueError(
                f"the checkpoint {path} is of other data, another start or another problem: remove it or name another."
            )
        self.indices = indices

    def _fingerprint(self):
        # of what the rounds depend on: data, start, options, initial parameters
        digest = hashlib.sha256()
        p = self.problem
        digest.update(repr((self.indices, self.ihvp, p.training(), p.curvature, p.curvature_rows, p.seed)).encode())
        arrays = [self._X, self._y]
        if isinstance(p.module, torch.nn.Module):
            arrays += p.module.state_dict().values()
        for array in arrays:
            digest.update(np.ascontiguousarray(array.detach().cpu().numpy()))
        digest.update(np.ascontiguousarray(self._u))
        return digest.hexdigest()

    def _rows(self, rows):
        rows = torch.as_tensor(np.asarray(rows))
        return self._X[rows].to(self.problem.device), self._y[rows].to(self.problem.device)

    def _blocks(self, rows):
        for low in range(0, len(rows), self.problem.block):
            part = rows[low : low + self.problem.block]
            yield part, *self._rows(part)

    def solve(self, weights=None):
        """Train the network from scratch on the coreset; weights must be equal."""
        if weights is not None and np.ptp(weights) > 1e-12:
            raise ValueError("a Network trains with equal weights only: take weighting='binary'.")
        self.module = self.problem.fit_module(*self._rows(self.indices), (self.problem.seed, 0, len(self)))
        parameters = {name: p.detach() for name, p in self.module.named_parameters() if p.requires_grad}
        self._names, self._shapes = list(parameters), [p.shape for p in parameters.values()]
        self._theta = parameters
        self._X = self._X.to(parameters[self._names[0]].dtype)  # a copy only if the network is not in float32

    def _vector(self, tensors):
        return np.concatenate([tensors[name].detach().cpu().numpy().ravel() for name in self._names]).astype(np.float64)

    def _tensors(self, vector):
        # a float64 vector as tensors of the parameters' shapes and types
        out, low = {}, 0
        for name, shape in zip(self._names, self._shapes):
            like, size = self._theta[name], shape.numel()
            out[name] = torch.from_numpy(vector[low : low + size].reshape(shape)).to(like.device, like.dtype)
            low += size
        return out

    def _outputs(self, theta, X):
        return functional_call(self.module, theta, (X,))

    def _losses(self, theta, X, y):
        return self.problem.row_losses(self._outputs(theta, X), y)

    def outer_gradient(self):
        """Gradient of the mean outer loss, shape (p,)."""
        total = None
        for rows, X, y in self._blocks(np.flatnonzero(self._u)):
            u = torch.as_tensor(self._u[rows], device=X.device)
            part = grad(lambda theta, X=X, y=y, u=u: (u * self._losses(theta, X, y)).sum())(self._theta)
            total = part if total is None else {name: total[name] + part[name] for name in total}
        return self._vector(total)

    @torch.no_grad()
    def mean_loss(self):
        """Weighted mean of the outer losses at the current parameters."""
        blocks = self._blocks(np.flatnonzero(self._u))
        return float(sum(self._u[rows] @ self._losses(self._theta, X, y).cpu().numpy() for rows, X, y in blocks))

    def product(self, rng):
        """The function ``v -> H v``: curvature of the inner problem on a fresh minibatch at every call, float64."""
        size = min(self.problem.curvature_rows, len(self))
        chosen, decay = np.array(self.indices), self.problem.training().weight_decay

        def times(vector):
            X, y = self._rows(rng.choice(chosen, size, replace=False) if size < len(self) else chosen)
            v = self._tensors(vector)
            if self.problem.curvature == "hessian":
                gradient = grad(lambda theta: self._losses(theta, X, y).mean())
                _, image = jvp(gradient, (self._theta,), (v,))
            else:
                outputs, slopes = jvp(lambda theta: self._outputs(theta, X), (self._theta,), (v,))
                _, bent = jvp(grad(lambda o: self.problem.row_losses(o, y).mean()), (outputs,), (slopes,))
                image = vjp(lambda theta: self._outputs(theta, X), self._theta)[1](bent)[0]
            return self._vector(image) + decay * vector

        return times

    def row_scores(self):
        """First-order score of every row, shape (n,): ``grad l_k' v`` with ``v = H^-1 grad g`` (Equation 5)."""
        self.gradient = self.outer_gradient()
        self.direction = self._solve(self.gradient, np.random.default_rng((self.problem.seed, 1, len(self))))
        v = self._tensors(self.direction)
        scores = np.empty(len(self._u))
        for rows, X, y in self._blocks(np.arange(len(scores))):
            _, slopes = jvp(lambda theta, X=X, y=y: self._losses(theta, X, y), (self._theta,), (v,))
            scores[rows] = slopes.cpu().numpy()
        return scores

    def _solve(self, g, rng):
        product, damping = self.product(rng), self.ihvp.damping

        def damped(v):
            return product(v) + damping * v

        if self.ihvp.method == "cg":
            return conjugate_gradients(damped, g, steps=self.ihvp.steps)
        with np.errstate(over="ignore", invalid="ignore"):
            direction = neumann_series(damped, g, terms=self.ihvp.steps)
        # If no curvature is negative, each of the terms is at most |g| over the largest one, hence at most this:
        length, longest = np.linalg.norm(direction), g @ g / np.linalg.norm(damped(g))
        if not length <= 2 * self.ihvp.steps * longest:  # twice, since minibatches differ
            raise ConvergenceError(
                f"the Neumann series on {len(self)} points diverged (length {length:.2g} after {self.ihvp.steps} "
                "terms): the Hessian is not positive; take curvature='gauss-newton', or a damping."
            )
        return direction

    def linear_scores(self):
        """`row_scores`, -inf for rows that are chosen already or may not be."""
        scores = self.row_scores()
        scores[self.indices] = -np.inf
        scores[self.absent] = -np.inf
        return scores
