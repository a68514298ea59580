"""Training of torch models by minibatches."""

import torch
from handful.checks import ConvergenceError


def train_epochs(
    loss_of,
    parameters,
    n_rows,
    *,
    n_epochs,
    batch_size,
    learning_rate,
    rng,
):
    """Minimise a mean loss over rows with Adam, in place, by passes over minibatches in random
    order.

    Parameters
    ----------
    loss_of : function ``(rows) -> loss`` of an int tensor, the rows of a minibatch, that gives a
        0-d tensor
    parameters : iterable of tensors that require gradients
    n_rows, n_epochs, batch_size : int
    learning_rate : float, of Adam
    rng : torch.Generator of the CPU, draws the order of the rows

    Raises
    ------
    ConvergenceError
        if an epoch ends with a loss that is not finite; names the epoch, the loss and the learning
        rate
    """
    parameters = list(parameters)
    optimiser = torch.optim.Adam(parameters, lr=learning_rate)
    for epoch in range(n_epochs):
        for rows in torch.randperm(n_rows, generator=rng).split(int(batch_size)):
            loss = loss_of(rows)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        if not (torch.isfinite(loss) and all(p.isfinite().all() for p in parameters)):
            raise ConvergenceError(
                f"training diverged in epoch {epoch + 1} of {n_epochs}: loss {loss.item():.3g} "
                "with learning_rate="
                f"{learning_rate:g}; lower learning_rate."
            )
