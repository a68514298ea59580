"""CartPole and a small deep Q-network, compiled, so that hundreds of seeded runs fit into
minutes."""

import numpy as np
from handful.sampling.online_newton import batch_gradient, newton_step
from handful.sampling.tree import draw_leaves, set_leaves
from numba import njit

# Constants of gymnasium's CartPole-v1 (Barto, Sutton and Anderson 1983)
_GRAVITY = 9.8
_POLE_MASS = 0.1
_TOTAL_MASS = 1.1
_HALF_LENGTH = 0.5
_FORCE = 10.0
_TIME_STEP = 0.02
_GREATEST_X = 2.4
_GREATEST_ANGLE = 12 * 2 * np.pi / 360


@njit(cache=True)
def cartpole_step(state, action):
    """Move the cart for one time step of 0.02 s, as gymnasium's CartPole-v1 does.

    Parameters
    ----------
    state : array, shape (4,): position, speed, angle (radians), angular speed; changed in place
    action : int, 0 pushes left, 1 right

    Returns
    -------
    bool : whether the pole fell or the cart left the track
    """
    x, speed, angle, turning = state
    force = _FORCE if action == 1 else -_FORCE
    cosine = np.cos(angle)
    sine = np.sin(angle)
    pushed = (force + _POLE_MASS * _HALF_LENGTH * turning**2 * sine) / _TOTAL_MASS
    inertia = _HALF_LENGTH * (4.0 / 3.0 - _POLE_MASS * cosine**2 / _TOTAL_MASS)
    turning_rate = (_GRAVITY * sine - cosine * pushed) / inertia
    acceleration = pushed - _POLE_MASS * _HALF_LENGTH * turning_rate * cosine / _TOTAL_MASS
    state[0] = x + _TIME_STEP * speed
    state[1] = speed + _TIME_STEP * acceleration
    state[2] = angle + _TIME_STEP * turning
    state[3] = turning + _TIME_STEP * turning_rate
    return abs(state[0]) > _GREATEST_X or abs(state[2]) > _GREATEST_ANGLE


@njit(cache=True)
def layers(theta, hidden):
    """Views of the flat parameters: W1 (4, h), b1, W2 (h, h), b2, W3 (h, 2), b3."""
    h = hidden
    a = 4 * h
    b = 5 * h
    c = 5 * h + h * h
    d = 6 * h + h * h
    return (
        theta[:a].reshape(4, h),
        theta[a:b],
        theta[b:c].reshape(h, h),
        theta[c:d],
        theta[d : d + 2 * h].reshape(h, 2),
        theta[d + 2 * h :],
    )


def n_parameters(hidden):
    """Length of the flat parameter vector."""
    return 5 * hidden + hidden * (hidden + 1) + 2 * hidden + 2


@njit(cache=True)
def forward(theta, hidden, S):
    """Two hidden layers of rectifiers: activations (b, h), (b, h) and action values (b, 2) of
    states (b, 4)."""
    W1, b1, W2, b2, W3, b3 = layers(theta, hidden)
    A1 = np.maximum(np.dot(S, W1) + b1, np.float32(0))
    A2 = np.maximum(np.dot(A1, W2) + b2, np.float32(0))
    return A1, A2, np.dot(A2, W3) + b3


@njit(cache=True)
def gradient(theta, hidden, S, A1, A2, slopes):
    """Gradient of sum(slopes * Q) in the parameters, flat; `slopes` has shape (b, 2), and `A1` and
    `A2` are what `forward` gives for the states `S`."""
    _, _, W2, _, W3, _ = layers(theta, hidden)
    out = np.zeros(theta.size, np.float32)
    G1, g1, G2, g2, G3, g3 = layers(out, hidden)
    D2 = _where_active(A2, np.dot(slopes, W3.T))
    D1 = _where_active(A1, np.dot(D2, W2.T))
    G1[:] = np.dot(S.T, D1)
    G2[:] = np.dot(A1.T, D2)
    G3[:] = np.dot(A2.T, slopes)
    g1[:] = D1.sum(axis=0)
    g2[:] = D2.sum(axis=0)
    g3[:] = slopes.sum(axis=0)
    return out


@njit(cache=True)
def _where_active(activations, slopes):
    # The slopes in place, with zeros where a rectifier is off.
    for i in range(slopes.shape[0]):
        for j in range(slopes.shape[1]):
            if activations[i, j] <= 0:
                slopes[i, j] = 0
    return slopes


@njit(cache=True)
def adam(theta, g, first, second, t, rate):
    """One step of Adam (Kingma and Ba 2015) with their decay rates, in place."""
    scale = np.float32(rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t))
    floor = np.float32(1e-8 * np.sqrt(1 - 0.999**t))
    for i in range(theta.size):
        first[i] = np.float32(0.9) * first[i] + np.float32(0.1) * g[i]
        second[i] = np.float32(0.999) * second[i] + np.float32(0.001) * g[i] * g[i]
        theta[i] -= scale * first[i] / (np.sqrt(second[i]) + floor)


@njit(cache=True, nogil=True)
def train(
    rng,
    agent,
    theta,
    tree,
    alphas,
    epsilons,
    learner,
    learns,
    rewards,
    weights,
):
    """Deep Q-learning with prioritised replay for `rewards.size` episodes.

    Every environment step draws a batch from the replay's mixture, takes one Adam step on the
    importance-weighted Huber loss of the temporal-difference errors, refreshes the batch's
    priorities with them and, when `learns`, gives their sizes to VRM.

    Parameters
    ----------
    rng : numpy.random.Generator
    agent : tuple (hidden, max_steps, batch, rate, discount, sync, warm_up, last_exploration,
        exploration_steps)
    theta : float32 array, the network's parameters; changed in place
    tree : array, shape (2 m, k - 1), an empty sum tree over m slots; changed in place
    alphas, epsilons : arrays, shape (k - 1,)
    learner : tuple (w, H, memory, settings) of a `NewtonLearner`, changed in place
    learns : bool
    rewards : array, shape (episodes,), filled with the steps each episode lasted
    weights : array, shape (episodes, k), filled with the mixture weights at the end of each episode
    """
    hidden, max_steps, b, rate, discount, sync, warm_up, last_exploration, exploration_steps = agent
    w, H, memory, settings = learner
    beta, gamma, scale = settings
    slope = np.empty(w.size)
    one = np.empty(1, np.int64)
    capacity = tree.shape[0] // 2
    S = np.empty((capacity, 4), np.float32)
    S_next = np.empty((capacity, 4), np.float32)
    actions = np.empty(capacity, np.int64)
    ends = np.empty(capacity, np.bool_)
    first = np.zeros_like(theta)
    second = np.zeros_like(theta)
    target = theta.copy()
    state = np.empty(4)
    now = np.empty((1, 4), np.float32)
    errors = np.empty(b)
    sizes = np.empty(b)
    greatest = 1.0
    steps = 0
    updates = 0
    for episode in range(rewards.size):
        state[:] = 0.1 * rng.random(4) - 0.05
        for moves in range(max_steps):
            now[0, :] = state
            share = steps / exploration_steps
            exploration = last_exploration + (1.0 - last_exploration) * np.exp(-share)
            if rng.random() < exploration:
                action = np.int64(rng.random() < 0.5)
            else:
                Q = forward(theta, hidden, now)[2]
                action = np.int64(Q[0, 1] > Q[0, 0])
            fell = cartpole_step(state, action)
            slot = steps % capacity
            S[slot] = now[0]
            S_next[slot] = state
            actions[slot] = action
            ends[slot] = fell
            one[0] = slot
            set_leaves(tree, one, ((greatest + epsilons) ** alphas).reshape(1, -1))
            steps += 1
            if steps >= warm_up:
                uniforms = np.ascontiguousarray(rng.random((b, 2)).T)
                indices, r, rows = draw_leaves(uniforms, w, tree, min(steps, capacity))
                batch = S[indices]
                Q_next = forward(target, hidden, S_next[indices])[2]
                A1, A2, Q = forward(theta, hidden, batch)
                slopes = np.zeros((b, 2), np.float32)
                for i in range(b):
                    a = actions[indices[i]]
                    goal = 1.0
                    if not ends[indices[i]]:
                        goal += discount * max(Q_next[i, 0], Q_next[i, 1])
                    errors[i] = goal - Q[i, a]
                    sizes[i] = abs(errors[i])
                    greatest = max(greatest, sizes[i])
                    # Huber's slope
                    slopes[i, a] = -r[i] * min(max(errors[i], -1.0), 1.0) / b
                updates += 1
                adam(
                    theta,
                    gradient(theta, hidden, batch, A1, A2, slopes),
                    first,
                    second,
                    updates,
                    rate,
                )
                slope[:] = 0
                if learns and batch_gradient(
                    rows,
                    r,
                    sizes,
                    memory,
                    scale,
                    slope,
                ):
                    newton_step(w, H, slope, beta, gamma)
                set_leaves(tree, indices, (sizes.reshape(-1, 1) + epsilons) ** alphas)
                if updates % sync == 0:
                    target[:] = theta
            if fell or moves == max_steps - 1:
                rewards[episode] = moves + 1
                break
        weights[episode] = w
