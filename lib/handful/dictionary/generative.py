"""Recovery with a generative model (Bora et al. 2017): signals are what a small variational autoencoder can make."""

import numpy as np
import torch
from torch import nn
from torch.func import jacfwd, vmap

from handful.checks import check_number
from handful.dictionary.recovery import Recovery


class VAE(nn.Module):
    """A variational autoencoder of rows in [0, 1] (Kingma and Welling 2014): one hidden layer on either side.

    Parameters
    ----------
    d : int, length of a row
    latent : int, length of a code. The paper: 20
    hidden : int
    """

    def __init__(self, d, *, latent=20, hidden=400):
        super().__init__()
        self.latent = latent
        self.encoder = nn.Sequential(nn.Linear(d, hidden), nn.Tanh(), nn.Linear(hidden, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.Tanh(), nn.Linear(hidden, d))

    def forward(self, z):
        """The rows that codes stand for, in [0, 1]: shape (n, d)."""
        return torch.sigmoid(self.decoder(z))

    def loss(self, X, generator=None):
        """Negative evidence lower bound, nats a row, with one draw of the codes."""
        mean, log_variance = self.encoder(X).chunk(2, dim=1)
        noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype)
        logits = self.decoder(mean + noise * torch.exp(log_variance / 2))
        missed = nn.functional.binary_cross_entropy_with_logits(logits, X, reduction="none").sum(1)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
        return (missed + divergence).mean()


def train_vae(X, *, latent=20, hidden=400, epochs=20, batch_size=128, learning_rate=1e-3, seed=0):
    """A `VAE` trained on the rows of `X` with Adam.

    Parameters
    ----------
    X : array, shape (n, d), values in [0, 1]
    latent, hidden : of the `VAE`
    epochs, batch_size, learning_rate : of Adam
    seed : int, of the weights, the order of the rows and the draws of the codes

    Returns
    -------
    VAE, its parameters without gradients

    Raises
    ------
    ValueError
        for values outside [0, 1]
    """
    X = torch.as_tensor(np.asarray(X, dtype=np.float32))
    if X.ndim != 2 or not len(X) or not (float(X.min()) >= 0 and float(X.max()) <= 1):
        raise ValueError(f"X must have rows of values between 0 and 1 to train a VAE on, got shape {tuple(X.shape)}.")
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = VAE(X.shape[1], latent=latent, hidden=hidden)
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for _ in range(epochs):
        for rows in torch.randperm(len(X), generator=generator).split(batch_size):
            optimiser.zero_grad()
            model.loss(X[rows], generator).backward()
            optimiser.step()
    return model.requires_grad_(False).eval()


class Generative(Recovery):
    """Signals that a generator makes from codes: ``R(y)`` is 0 where ``y = G(z)``, else infinite (Section 4.5).

    Minimises ``|A (x - G(z))|^2 + penalty |z|^2`` over codes z, from 0 or where the last call ended, by damped
    Gauss-Newton steps (Levenberg and Marquardt), each signal with a damping of its own. Scores take the Gauss-Newton
    Hessian; the curvature of each signal is its own.

    Parameters
    ----------
    generator : torch.nn.Module that maps codes (n, p) to signals (n, d), smooth; for instance a `VAE`
    latent : int, the length p of a code; the generator's own `latent` if None
    penalty : on the codes. The paper: .01
    max_steps : int, Gauss-Newton steps
    tol : stops when no code's objective falls by more than this share in a step
    """

    def __init__(self, generator, *, latent=None, penalty=0.01, max_steps=30, tol=1e-3):
        self.generator = generator
        self.latent = latent
        self.penalty = penalty
        self.max_steps = max_steps
        self.tol = tol

    def check(self):
        """ValueError if a hyper-parameter is out of range."""
        check_number("penalty", self.penalty, above=0, of=self, why="few measurements leave a code undetermined")
        check_number("tol", self.tol, above=0, of=self, why="the search for codes ends when it is reached")

    @torch.no_grad()
    def recover(self, A, measured, state=None):
        """Estimates, shape (n, d), and codes, a tensor of shape (n, p); see `Recovery`."""
        A, measured = (torch.as_tensor(np.ascontiguousarray(a), dtype=self._dtype()) for a in (A, measured))
        start = torch.zeros((len(measured), self._latent()), dtype=A.dtype) if state is None else state
        codes = self._descend(A, measured, start)
        return self.generator(codes).numpy(), codes

    @torch.no_grad()
    def scores(self, A, atoms, errors, state, *, quadratic):
        """Scores, shape (m,); see `Recovery`."""
        A, atoms, errors = (torch.as_tensor(np.ascontiguousarray(a), dtype=self._dtype()) for a in (A, atoms, errors))
        _, jacobian = self._linearised(state)
        total = torch.zeros(len(atoms), dtype=torch.float64)
        roots, _ = self._factor(A, jacobian)
        for J, root, e in zip(jacobian, roots, errors):
            half = torch.linalg.solve_triangular(root, J.T, upper=False)  # B^-1 is half^T half: (p, d)
            pull = atoms @ e
            slope = 2 * pull * (atoms @ (half.T @ (half @ e)))
            if quadratic:
                towards = half @ atoms.T
                leverage = 1 + towards.square().sum(0)
                moved = (towards * ((half @ half.T) @ towards)).sum(0)
                slope = slope / leverage - moved * (pull / leverage).square()
            total += slope
        return total.numpy()

    def _dtype(self):
        return next(self.generator.parameters()).dtype

    def _latent(self):
        return self.generator.latent if self.latent is None else self.latent

    def _linearised(self, codes):
        """Signals (n, d) and Jacobians (n, d, p) of the generator."""

        def one(z):
            x = self.generator(z[None])[0]
            return x, x

        jacobian, signals = vmap(jacfwd(one, has_aux=True))(codes)
        return signals, jacobian

    def _factor(self, A, jacobian, damping=None):
        """Cholesky factors (n, p, p) of J^T A^T A J + penalty (+ damping), and A J."""
        seen = A @ jacobian
        inner = seen.mT @ seen
        diagonal = inner.diagonal(dim1=1, dim2=2)
        diagonal += self.penalty if damping is None else self.penalty + damping[:, None]
        return torch.linalg.cholesky(inner), seen

    def _objective(self, A, measured, codes, signals):
        return (measured - signals @ A.T).square().sum(1) + self.penalty * codes.square().sum(1)

    def _descend(self, A, measured, codes):
        codes = codes.clone()
        objective = self._objective(A, measured, codes, self.generator(codes))
        damping = torch.full((len(codes),), float(self.penalty), dtype=codes.dtype)
        going = torch.arange(len(codes))  # the signals whose codes still move
        for _ in range(self.max_steps):
            if not len(going):
                break
            z, b = codes[going], measured[going]
            signals, jacobian = self._linearised(z)
            root, seen = self._factor(A, jacobian, damping[going])
            slope = (seen.mT @ (b - signals @ A.T)[:, :, None])[:, :, 0] - self.penalty * z
            tried = z + torch.cholesky_solve(slope[:, :, None], root)[:, :, 0]
            before, found = objective[going], self._objective(A, b, tried, self.generator(tried))
            better = found < before
            codes[going] = torch.where(better[:, None], tried, z)
            objective[going] = torch.where(better, found, before)
            damping[going] = torch.where(better, damping[going] / 4, damping[going] * 8)
            rests = torch.where(better, before - found <= self.tol * before, damping[going] > 1e6)
            going = going[~rests]
        return codes
