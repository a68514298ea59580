"""Recovery with a generative model (Bora et al. 2017), such as a small variational autoencoder."""

import numpy as np
import torch
from handful.checks import ConvergenceError
from handful.dictionary.recovery import Recovery
from torch import nn
from torch.func import jacfwd, vmap
from torch.nn.functional import binary_cross_entropy_with_logits

from handful_papers.bico.training import train_epochs


class VAE(nn.Module):
    """A variational autoencoder of rows in [0, 1] (Kingma and Welling 2014): one hidden layer on
    either side.

    Parameters
    ----------
    d : int, length of a row
    latent : int, length of a code. The paper: 20
    hidden : int
    """

    def __init__(self, d, *, latent=20, hidden=400):
        super().__init__()
        self.latent = latent
        self.encoder = _one_hidden_layer(d, hidden, 2 * latent)
        self.decoder = _one_hidden_layer(latent, hidden, d)

    def forward(self, z):
        """The rows, shape (n, d), in [0, 1], that codes z, shape (n, latent), stand for."""
        return torch.sigmoid(self.decoder(z))

    def loss(self, X, rng=None):
        """Negative evidence lower bound, in nats per row, with one draw of the codes."""
        mean, log_variance = self.encoder(X).chunk(2, dim=1)
        noise = torch.randn(mean.shape, generator=rng, dtype=mean.dtype)
        logits = self.decoder(mean + noise * torch.exp(log_variance / 2))
        missed = binary_cross_entropy_with_logits(logits, X, reduction="none").sum(1)
        twice = mean.square() + log_variance.exp() - 1 - log_variance
        divergence = 0.5 * twice.sum(1)
        return (missed + divergence).mean()


def _one_hidden_layer(inputs, hidden, outputs):
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


def train_vae(
    X,
    *,
    latent=20,
    hidden=400,
    n_epochs=20,
    batch_size=128,
    learning_rate=1e-3,
    rng,
):
    """A `VAE` trained on the rows of `X` with Adam.

    Parameters
    ----------
    X : array, shape (n, d), values in [0, 1]
    latent, hidden : int, as in `VAE`
    n_epochs, batch_size, learning_rate : passes over the rows, rows in a minibatch, and of Adam
    rng : torch.Generator on the CPU; draws the first weights, the order of the rows and the noise
        of the codes

    Returns
    -------
    VAE, its parameters without gradients
    """
    X = torch.as_tensor(np.asarray(X, dtype=np.float32))
    with torch.random.fork_rng(devices=[]):
        # Layers draw their weights from the global generator only.
        torch.set_rng_state(rng.get_state())
        model = VAE(X.shape[1], latent=latent, hidden=hidden)
    train_epochs(
        lambda rows: model.loss(X[rows], rng),
        model.parameters(),
        len(X),
        n_epochs=n_epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        rng=rng,
    )
    return model.requires_grad_(False).eval()


class Generative(Recovery):
    """Recovery among the signals of a generator (Section 4.5): ``R(y)`` is 0 if ``y = G(z)`` for a
    z, else infinite.

    Minimises ``|A (x - G(z))|^2 + l2 |z|^2`` over z by damped Gauss-Newton steps (Levenberg and
    Marquardt), with a damping for each signal, from z = 0 or the codes of an earlier call. The
    scores take the Gauss-Newton Hessian of each signal. Choose measurements for it with
    ``rule="linear"`` (see `MeasurementSelector`).

    Parameters
    ----------
    generator : torch.nn.Module that maps codes, shape (n, latent), smoothly to signals, shape (n,
        d); such as a `VAE`
    l2 : float, strength of the penalty on the codes; the paper: 0.01
    max_iter : int, most Gauss-Newton steps
    tol : float; a signal is done when a step lowers its objective by no more than this share
    """

    def __init__(
        self,
        generator,
        *,
        l2=0.01,
        max_iter=30,
        tol=1e-3,
    ):
        self.generator = generator
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol

    @torch.no_grad()
    def recover(self, A, measured, state=None):
        """Estimates, shape (n, d), and codes, a tensor of shape (n, p); see `Recovery`."""
        A = self._tensor(A)
        measured = self._tensor(measured)
        if state is None:
            state = torch.zeros((len(measured), self.generator.latent), dtype=A.dtype)
        codes = self._descend(A, measured, state)
        return self.generator(codes).numpy(), codes

    @torch.no_grad()
    def scores(
        self,
        A,
        atoms,
        errors,
        state,
        *,
        quadratic,
    ):
        """Scores, shape (m,); see `Recovery`."""
        A, atoms, errors = map(self._tensor, (A, atoms, errors))
        _, jacobian = self._linearised(state)
        total = torch.zeros(len(atoms), dtype=torch.float64)
        roots, _ = self._factor(A, jacobian)
        for J, root, e in zip(jacobian, roots, errors):
            # B^-1 is half^T half, where half has shape (p, d).
            half = torch.linalg.solve_triangular(root, J.T, upper=False)
            pull = atoms @ e
            slope = 2 * pull * (atoms @ (half.T @ (half @ e)))
            if quadratic:
                towards = half @ atoms.T
                leverage = 1 + towards.square().sum(0)
                moved = (towards * ((half @ half.T) @ towards)).sum(0)
                slope = slope / leverage - moved * (pull / leverage).square()
            total += slope
        return total.numpy()

    def _tensor(self, values):
        """An array as a tensor of the generator's type."""
        dtype = next(self.generator.parameters()).dtype
        return torch.as_tensor(np.ascontiguousarray(values), dtype=dtype)

    def _linearised(self, codes):
        """Signals (n, d) and Jacobians (n, d, p) of the generator."""

        def one(z):
            x = self.generator(z[None])[0]
            return x, x

        jacobian, signals = vmap(jacfwd(one, has_aux=True))(codes)
        return signals, jacobian

    def _factor(self, A, jacobian, damping=None):
        """Cholesky factors (n, p, p) of J^T A^T A J + l2 (+ damping), and A J."""
        seen = A @ jacobian
        inner = seen.mT @ seen
        diagonal = inner.diagonal(dim1=1, dim2=2)
        diagonal += self.l2 if damping is None else self.l2 + damping[:, None]
        root, failed = torch.linalg.cholesky_ex(inner)
        if failed.any():
            raise ConvergenceError(
                f"the codes are not determined at l2={self.l2:g}, in {inner.dtype}: raise l2, or "
                "scale X."
            )
        return root, seen

    def _objective(self, A, measured, codes, signals):
        missed = (measured - signals @ A.T).square().sum(1)
        return missed + self.l2 * codes.square().sum(1)

    def _descend(self, A, measured, codes):
        codes = codes.clone()
        objective = self._objective(A, measured, codes, self.generator(codes))
        damping = torch.full((len(codes),), float(self.l2), dtype=codes.dtype)
        # The signals that are not done.
        going = torch.arange(len(codes))
        for _ in range(self.max_iter):
            if not len(going):
                break
            z = codes[going]
            b = measured[going]
            signals, jacobian = self._linearised(z)
            root, seen = self._factor(A, jacobian, damping[going])
            missed = b - signals @ A.T
            slope = (seen.mT @ missed[:, :, None])[:, :, 0] - self.l2 * z
            step = torch.cholesky_solve(slope[:, :, None], root)[:, :, 0]
            tried = z + step
            before = objective[going]
            found = self._objective(A, b, tried, self.generator(tried))
            better = found < before
            codes[going] = torch.where(better[:, None], tried, z)
            objective[going] = torch.where(better, found, before)
            now = torch.where(better, damping[going] / 4, damping[going] * 8)
            damping[going] = now
            # A signal is done when a step gains too little, or when none is short enough to gain.
            rests = torch.where(better, before - found <= self.tol * before, now > 1e6)
            going = going[~rests]
        return codes
