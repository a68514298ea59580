"""Protocol of VRM's prioritised-replay experiment (section 6.3, Figure 4): arms, seeds,
summaries."""

import numpy as np
from handful.sampling.online_newton import NewtonLearner
from handful.sampling.replay import GRID
from handful.sampling.tree import build_tree

from handful_papers.vrm.cartpole import n_parameters, train

# More than the steps of the first 80 of 200 episodes; the oldest transitions are overwritten.
CAPACITY = 16384

# The text gives no network, optimiser, buffer or exploration: these are ours, the same for every
# arm.
AGENT = dict(
    hidden=64,
    max_steps=200,
    batch=64,
    rate=1e-3,
    discount=0.95,
    sync=100,
    warm_up=200,
    last_exploration=0.02,
    exploration_steps=1000.0,
)


def arm_name(alpha, eps):
    """The name of the arm that samples from one component: "a=0.5 e=0.1"."""
    return f"a={alpha:g} e={eps:g}"


COMPONENTS = (*(arm_name(*pair) for pair in GRID), "uniform")
ARMS = ("uniform", *COMPONENTS[:-1], "equal mixture", "vrm")
# The mean of so many episodes is kept.
EPISODES = 5


def run(arm, seed, *, n_episodes):
    """One arm of Figure 4 with one seed; seeds share the network's start between the arms.

    Returns
    -------
    rewards : array, shape (n_episodes,), steps each episode lasted
    weights : array, shape (n_episodes, k), mixture weights after each episode, the uniform
        component's last
    """
    pairs = _pairs_of(arm)
    alphas, epsilons = map(np.array, zip(*pairs))
    learner = NewtonLearner(
        len(pairs) + 1,
        beta=0.5,
        gamma=0.01,
        eps=1000.0,
    )
    if len(pairs) == 1:
        learner.w[:] = (0.0, 1.0) if arm == "uniform" else (1.0, 0.0)
    hidden = AGENT["hidden"]
    theta = _first_parameters(hidden, np.random.default_rng([seed, 1]))
    rewards = np.zeros(n_episodes)
    weights = np.zeros((n_episodes, len(pairs) + 1))
    train(
        np.random.default_rng([seed, ARMS.index(arm), 2]),
        tuple(AGENT.values()),
        theta,
        build_tree(np.zeros((CAPACITY, len(pairs)))),
        alphas,
        epsilons,
        (learner.w, learner.H, learner.memory, learner.settings),
        arm == "vrm",
        rewards,
        weights,
    )
    return rewards, weights


def _pairs_of(arm):
    """The (alpha, eps) of an arm's components but the uniform one."""
    if arm in ("vrm", "equal mixture"):
        return GRID
    # An arm that is uniform alone has a component without weight beside it.
    return [pair for pair in GRID if arm_name(*pair) == arm] or GRID[:1]


def _first_parameters(hidden, rng):
    """Random weights of the network's three layers, scaled as He et al. (2015) do, and biases of
    zero."""
    theta = rng.normal(size=n_parameters(hidden)).astype(np.float32)
    lengths = [4 * hidden, hidden, hidden**2, hidden, 2 * hidden, 2]
    scales = [0.5**0.5, 0, (2 / hidden) ** 0.5, 0, hidden**-0.5, 0]
    start = 0
    for length, scale in zip(lengths, scales):
        theta[start : start + length] *= scale
        start += length
    return theta


def arm_rows(method, seed, *, n_episodes):
    """Rewards and weights of one arm with one seed, in means of five episodes: a task of the sweep.

    Returns
    -------
    list of dict : method, seed, episode (the last of its five), reward (mean steps an episode
        lasts) and, for VRM, the mixture weights after that episode as "weight a=0.1 e=0.01", ...,
        "weight uniform"
    """
    rewards, weights = run(method, seed, n_episodes=n_episodes)
    rows = []
    for last in range(EPISODES, n_episodes + 1, EPISODES):
        row = dict(
            method=method,
            seed=seed,
            episode=last,
            reward=round(rewards[last - EPISODES : last].mean(), 4),
        )
        if method == "vrm":
            now = zip(COMPONENTS, weights[last - 1])
            row |= {f"weight {name}": round(w, 4) for name, w in now}
        rows.append(row)
    return rows


def early_weights(rows):
    """VRM's mixture weights after a quarter of the episodes, means over seeds, by component."""
    until = max(rows.episode.max() // 4, EPISODES)
    learned = rows[(rows.method == "vrm") & (rows.episode <= until)]
    last = learned[learned.episode == learned.episode.max()]
    return last[[f"weight {name}" for name in COMPONENTS]].mean().set_axis(list(COMPONENTS))


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    total = run.rows.groupby(["method", "seed"]).reward.mean().unstack("method")
    favourite = early_weights(run.rows).idxmax()
    run.facts.update(episodes=int(run.rows.episode.max()))
    return {
        "vrm-fig04-finds-best": _leads(total, favourite),
        "vrm-fig04-loses-nothing": _leads(total, "vrm"),
    }


def _leads(total, method):
    """What a method earns more than each single component but itself."""
    return {one: total[method] - total[one] for one in COMPONENTS if one != method}
