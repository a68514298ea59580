"""Coresets for image networks, and what other networks make of them (Section 5.2.3 of the bilevel
paper)."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from handful.baselines import KCenter, KMeansPlusPlus, UniformCoreset
from handful.bilevel import BilevelCoreset
from handful.models import Joint, Network
from handful.models.inverse import NeumannSeries
from handful.models.network import TrainConfig

from handful_papers.bico.continual_data import images
from handful_papers.bico.forgetting import forgetting_events
from handful_papers.bico.image_data import SHAPES, averaged
from handful_papers.bico.image_networks import image_network, shift_and_flip
from handful_papers.bico.kept_forward import KeptForward
from handful_papers.claims import Evidence
from handful_papers.effects import paired_differences
from handful_papers.tasks import part

# The network that is selected for, and the one that is jointly with it.
TARGET = "WideResNet-16-4"
PARTNER = "VGG16"
# The methods of Figure 8.
CURVES = ("uniform", "kmeans++", "kcenter", "forgetting", "bico")
METHODS = (*CURVES, "bico joint")
# The methods that look on a training of all rows.
LOOK_ON = ("full", "kcenter", "forgetting")
PAPERS_ROWS = {"CIFAR-10": 50_000, "SVHN": 73_257}
# How often each row is classified during a training, to count what is forgotten.
LOOKS = 20


class NetworkCoresets:
    """One data set, three networks: choose rows for one of them, train all on what was chosen.

    Parameters
    ----------
    data : "digits", "mnist" or "cifar10"
    n, side : training rows taken, and pixels of a side to which images are averaged
    shift : pixels by which images are moved at most in training; None for an eighth of a side
    networks : names of `image_network` by the paper's names
    train : options of `TrainConfig`; `n_steps` may be a dict, network -> its steps
    n_start, batch_size : random rows at the start, rows a round
    sizes : of the coresets; a prefix of the largest each
    n_terms : of the Neumann series
    device : of torch
    """

    def __init__(
        self,
        data,
        *,
        n,
        side,
        networks,
        train,
        n_start,
        batch_size,
        sizes,
        n_terms,
        shift=None,
        device=None,
    ):
        X, y, X_test, y_test = images(data)
        self.shape = (SHAPES[data][0], side, side)
        rows = np.random.default_rng(0).permutation(len(X))[:n]

        def shrunk(X):
            return averaged(X, SHAPES[data], side).reshape(len(X), -1)

        self.X = shrunk(X[rows])
        self.X_test = shrunk(X_test)
        self.y = y[rows]
        self.y_test = y_test
        self.networks = networks
        self.device = device
        pad = max(1, side // 8) if shift is None else shift
        augment = shift_and_flip(self.shape, pad=pad, flip=data == "cifar10")
        steps = train["n_steps"]
        each = steps if isinstance(steps, dict) else dict.fromkeys(networks, steps)
        config = TrainConfig(augment=augment, **train | {"n_steps": 1})
        self.train = {network: replace(config, n_steps=each[network]) for network in networks}
        self.n_start = n_start
        self.batch = batch_size
        self.sizes = sorted(sizes)
        self.terms = n_terms

    def problem(self, network, seed):
        """The inner problem of one network."""
        classes = len(np.unique(self.y))
        name = self.networks[network]

        def make():
            return image_network(name, classes, self.shape).to(memory_format=torch.channels_last)

        return Network(
            make,
            train=self.train[network],
            random_state=seed,
            device=self.device,
        )

    def _tensors(self, X, y):
        return torch.from_numpy(X).to(self.device), torch.from_numpy(y).to(self.device)

    def _trained(self, network, rows, seed, watch=None):
        X, y = self._tensors(self.X[rows], self.y[rows])
        rng = np.random.default_rng((seed, 2))
        return self.problem(network, seed).fit_module(X, y, rng, watch)

    @torch.no_grad()
    def _of_rows(self, function, X):
        """What a function of a batch gives for all rows, as an array."""
        parts = torch.from_numpy(X).split(1000)
        return torch.cat([function(part.to(self.device)).cpu() for part in parts]).numpy()

    def _right(self, module, X, y):
        """Whether each row is classified as its label says."""
        return self._of_rows(module, X).argmax(axis=1) == y

    def accuracies(self, module, rows):
        """Accuracy of a trained network on the test set, and on the rows that trained it, in
        percent."""
        right = self._right(module, self.X_test, self.y_test)
        right_in_training = self._right(module, self.X[rows], self.y[rows])
        return {
            "accuracy": 100.0 * float(right.mean()),
            "train_accuracy": 100.0 * float(right_in_training.mean()),
        }

    def look_on(self, seed):
        """One training of the target on all rows: its embeddings, and how often each row was
        forgotten.

        Returns
        -------
        embeddings, shape (n, channels); events, shape (n,); `accuracies`
        """
        correct = []
        every = max(1, self.train[TARGET].n_steps // LOOKS)

        def watch(step, module):
            if step % every == 0:
                correct.append(self._right(module.eval(), self.X, self.y))
                module.train()

        every_row = np.arange(len(self.X))
        module = self._trained(TARGET, every_row, seed, watch)
        unflatten, body = module
        embeddings = self._of_rows(lambda part: body.embed(unflatten(part)), self.X)
        return embeddings, forgetting_events(correct), self.accuracies(module, every_row)

    def select(self, method, seed, embeddings, events):
        """The largest coreset of one method, in the order of selection: the smaller ones are its
        prefixes."""
        size = self.sizes[-1]
        if method == "uniform":
            return UniformCoreset(size, random_state=seed).fit(self.X).indices_
        # k-means++ looks at pixels and k-center at embeddings, as the paper finds best.
        if method == "kmeans++":
            return KMeansPlusPlus(size, random_state=seed).fit(self.X).indices_
        if method == "kcenter":
            return KCenter(size, random_state=seed).fit(embeddings).indices_
        if method == "forgetting":
            ties = np.random.default_rng(seed).random(len(events))
            return np.lexsort([ties, -events])[:size]
        problem = self.problem(TARGET, seed)
        if method == "bico joint":
            problem = Joint(problem, self.problem(PARTNER, seed), alternate=True)
        # Two rounds are a part: one for each network where they take turns.
        strategy = KeptForward(method, 2, self.batch, n_start=self.n_start)
        selector = BilevelCoreset(
            problem,
            size=size,
            strategy=strategy,
            rule="linear",
            ihvp=NeumannSeries(self.terms),
            outer_penalty=False,
            random_state=seed,
        )
        return selector.fit(self.X, self.y).indices_

    def run(self, method, seed):
        """Everything of one method for one seed: method, network, size, seed, accuracies in
        percent, seconds of the selection.

        Each training and each two rounds of a selection are a `part` of the task.

        Parameters
        ----------
        method : "full" (training on all rows) or one of `METHODS`
        seed : int
        """
        embeddings = events = full = None
        if method in LOOK_ON:
            embeddings, events, full = part("look on", lambda: self.look_on(seed))
        start = time.perf_counter()
        if method == "full":
            chosen = np.arange(len(self.X))
        else:
            chosen = self.select(method, seed, embeddings, events)
        seconds = 0.0 if method == "full" else time.perf_counter() - start

        rows = []
        for network in self.networks:
            for size in self._sizes(method, network):
                few = chosen[:size]

                def accuracies(network=network, few=few):
                    return self.accuracies(self._trained(network, few, seed), few)

                if method == "full" and network == TARGET:
                    found = full
                else:
                    found = part(f"{method} {network} {size}", accuracies)
                row = dict(
                    method=method,
                    network=network,
                    size=size,
                    seed=seed,
                )
                rows.append(row | found | dict(seconds=seconds))
        return rows

    def _sizes(self, method, network):
        """The curve of Figure 8 is the target's; other networks get the largest coreset, as in
        Tables 1 and 2."""
        if method == "full":
            return [len(self.X)]
        is_curve = network == TARGET and method in CURVES
        return self.sizes if is_curve else self.sizes[-1:]


def tasks(sets, networks):
    """The settings of the sweep: every data set with every method, the longest tasks first. A joint
    coreset needs the partner among the networks.

    Parameters
    ----------
    sets : dict, the paper's names of the data sets -> what `NetworkCoresets` is told of them
    networks : names of `image_network` by the paper's names
    """
    methods = [m for m in reversed(METHODS) if m != "bico joint" or PARTNER in networks]
    return [
        {"about": about | {"set": name}, "method": method}
        for method in [*methods, "full"]
        for name, about in sets.items()
    ]


def coreset_rows(about, method, *, seed, **options):
    """Rows of `NetworkCoresets.run` for one data set and one method: a task of the sweep.

    Parameters
    ----------
    about : dict, what `NetworkCoresets` is told of the data, and under "set" the paper's set that
        they stand for
    method : "full" or one of `METHODS`
    seed : int
    options : further options of `NetworkCoresets`
    """
    # Layers are small: threads would wait for each other.
    torch.set_num_threads(1)
    about = {key: value for key, value in about.items() if key != "stands_for"}
    name = about.pop("set")
    rows = NetworkCoresets(**about, **options).run(method, seed)
    return [row | {"set": name} for row in rows]


def in_order(rows):
    """Rows of all tasks by data set and seed, their methods in the order of `METHODS`."""
    place = {method: i for i, method in enumerate(("full", *METHODS))}
    order = np.lexsort([rows.method.map(place), rows.seed, pd.factorize(rows["set"])[0]])
    return rows.iloc[order].reset_index(drop=True)


# --- which numbers decide the claims


OTHERS = (PARTNER, "MobileNetV2")
# The share of the rows above which forgetting is as good as BiCo.
SETS = {"CIFAR-10": 0.3, "SVHN": 0.14}


def evidence(run):
    """Claim -> the numbers of a run that decide it: settings of all data sets, a stand-in under its
    own name."""
    there = set(run.rows["set"])
    sets = {name: about for name, about in run.parameters["sets"].items() if name in there}
    settings = {}
    for name, about in sets.items():
        many = SETS[about.get("stands_for", name)]
        for claim, gaps in _of_one_set(run.rows[run.rows["set"] == name], many).items():
            mine = settings.setdefault(claim, {})
            mine |= {(name, *setting): values for setting, values in gaps.items()}
    data = sorted(about["data"].removesuffix("_full") for about in sets.values())
    facts = {"data": ", ".join(data)}
    of_target = facts | _facts(run.rows, (TARGET,))
    of_others = facts | _facts(run.rows, OTHERS)
    found = {}
    for claim, values in settings.items():
        mine = of_target if claim.startswith("fig08") else of_others
        lacks = "" if values else "the networks did not run"
        found[f"bico-{claim}"] = Evidence(values, facts=mine, lacks=lacks)
    return found


def _of_one_set(rows, many):
    """Claim -> leads on one data set, of which `many` is a share; no leads where a method or a
    network did not run."""
    n = rows["size"].max()
    last = rows.loc[rows.method != "full", "size"].max()
    at_end = rows[(rows["size"] == last) & (rows.method != "full")]
    of_target = rows[rows.network == TARGET]
    curve = of_target[~of_target.method.isin(["full", "bico joint"])]
    is_largest = (of_target.method == "bico") & (of_target["size"] == last)
    ends = of_target[is_largest | (of_target["size"] == n)]

    def lead(
        part,
        a,
        b,
        networks=(TARGET,),
        by=("network", "size"),
    ):
        part = part[part.method.isin([a, *b]) & part.network.isin(networks)]
        if {a, *b} - set(part.method) or set(networks) - set(part.network):
            return {}
        return paired_differences(
            part,
            a=a,
            b=b,
            value="accuracy",
            by=list(by),
        )

    smallest = curve[curve["size"] == curve["size"].min()]
    return {
        "fig08-compression": lead(ends, "bico", ["full"], by=["network"]),
        "fig08-above-simple": lead(curve, "bico", ["kcenter", "kmeans++"]),
        "fig08-like-forgetting": lead(curve[curve["size"] > many * n], "bico", ["forgetting"]),
        "fig08-forgetting-below-uniform": lead(smallest, "uniform", ["forgetting"]),
        "tab01-transfer": lead(at_end, "bico", ["uniform", "kcenter"], OTHERS),
        "tab01-like-forgetting": lead(at_end, "bico", ["forgetting"], OTHERS),
        "tab02-joint": lead(at_end, "bico joint", ["bico"], OTHERS),
    }


def _facts(rows, networks):
    """How many rows there are; whether coresets are small; a network's least training accuracy on
    all rows."""
    full = rows[rows.method == "full"]
    largest = rows[rows.method != "full"].groupby("set")["size"].max()
    share = largest / full.groupby("set")["size"].max()
    facts = {"half_of_the_rows": int((share <= 0.5).all()), "rows": int(full["size"].min())}
    full = full[full.network.isin(networks)]
    if full.empty:
        return facts
    means = full.groupby(["set", "network"]).train_accuracy.mean()
    return facts | {"train_accuracy": float(means.min())}
