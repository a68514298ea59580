"""Coresets for image networks, and what other networks make of them (Section 5.2.3 of the bilevel
paper)."""

import time

import numpy as np
import torch
from handful.baselines import KCenter, KMeansPlusPlus, UniformCoreset
from handful.bilevel import BilevelCoreset, Joint, Network, NeumannSeries, TrainConfig

from handful_papers.bico.continual_data import images
from handful_papers.bico.forgetting import forgetting_events
from handful_papers.bico.image_data import SHAPES, averaged
from handful_papers.bico.image_networks import image_network, shift_and_flip
from handful_papers.bico.kept_forward import KeptForward
from handful_papers.claims import Evidence
from handful_papers.effects import paired_differences
from handful_papers.tasks import part

# selected for; and jointly with it
TARGET = "WideResNet-16-4"
PARTNER = "VGG16"
# the methods of Figure 8
CURVES = ("uniform", "kmeans++", "kcenter", "forgetting", "bico")
METHODS = (*CURVES, "bico joint")
PAPERS_ROWS = {"CIFAR-10": 50_000, "SVHN": 73_257}
# times during training that each row is classified, to count what is forgotten
LOOKS = 20


class NetworkCoresets:
    """One data set, three networks: choose rows for one of them, train all on what was chosen.

    Parameters
    ----------
    data : "digits", "mnist" or "cifar10"
    n, side : training rows taken, and pixels of a side to which images are averaged
    shift : pixels by which images are moved at most in training; None for an eighth of a side
    networks : names of `image_network` by the paper's names
    train : options of `TrainConfig`
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
        self.X, self.X_test = (
            averaged(part, SHAPES[data], side).reshape(len(part), -1) for part in (X[rows], X_test)
        )
        self.y = y[rows]
        self.y_test = y_test
        self.networks = networks
        self.device = device
        pad = max(1, side // 8) if shift is None else shift
        augment = shift_and_flip(self.shape, pad=pad, flip=data == "cifar10")
        self.train = TrainConfig(augment=augment, **train)
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
            train=self.train,
            random_state=seed,
            device=self.device,
        )

    def _tensors(self, X, y):
        return torch.from_numpy(X).to(self.device), torch.from_numpy(y).to(self.device)

    def _trained(self, network, rows, seed, watch=None):
        return self.problem(network, seed).fit_module(
            *self._tensors(self.X[rows], self.y[rows]), np.random.default_rng((seed, 2)), watch
        )

    @torch.no_grad()
    def _logits(self, module, X):
        parts = torch.from_numpy(X).split(1000)
        return torch.cat([module(part.to(self.device)).cpu() for part in parts]).numpy()

    def accuracies(self, module, rows):
        """Accuracy of a trained network on the test set, and on the rows that trained it, in
        percent."""
        sets = {
            "accuracy": (self.X_test, self.y_test),
            "train_accuracy": (self.X[rows], self.y[rows]),
        }
        return {
            k: 100.0 * float((self._logits(module, X).argmax(axis=1) == y).mean())
            for k, (X, y) in sets.items()
        }

    def look_on(self, seed):
        """One training of the target on all rows: its embeddings, and how often each row was
        forgotten.

        Returns
        -------
        embeddings, shape (n, channels); events, shape (n,); `accuracies`
        """
        correct = []
        every = max(1, self.train.n_steps // LOOKS)

        def watch(step, module):
            if step % every == 0:
                correct.append(self._logits(module.eval(), self.X).argmax(axis=1) == self.y)
                module.train()

        every_row = np.arange(len(self.X))
        module = self._trained(TARGET, every_row, seed, watch)
        unflatten, body = module
        with torch.no_grad():
            parts = torch.from_numpy(self.X).split(1000)
            embeddings = torch.cat(
                [body.embed(unflatten(part.to(self.device))).cpu() for part in parts]
            ).numpy()
        return embeddings, forgetting_events(correct), self.accuracies(module, every_row)

    def select(self, method, seed, embeddings, events):
        """The largest coreset of one method, in the order of selection: the smaller ones are its
        prefixes."""
        size = self.sizes[-1]
        if method == "uniform":
            return UniformCoreset(size, random_state=seed).fit(self.X).indices_
        # in pixel space, as the paper finds best; k-center on embeddings, for the same reason
        if method == "kmeans++":
            return KMeansPlusPlus(size, random_state=seed).fit(self.X).indices_
        if method == "kcenter":
            return KCenter(size, random_state=seed).fit(embeddings).indices_
        if method == "forgetting":
            return np.lexsort([np.random.default_rng(seed).random(len(events)), -events])[:size]
        problem = self.problem(TARGET, seed)
        if method == "bico joint":
            problem = Joint(problem, self.problem(PARTNER, seed), alternate=True)
        # two rounds a part: one for each network where they take turns
        strategy = KeptForward(method, 2, self.batch, n_start=self.n_start)
        options = dict(
            rule="linear",
            ihvp=NeumannSeries(self.terms),
            random_state=seed,
        )
        selector = BilevelCoreset(problem, size=size, strategy=strategy, **options)
        return selector.fit(self.X, self.y).indices_

    def run(self, seed):
        """Everything for one seed: method, network, size, seed, accuracies in percent, seconds of
        the selection.

        Each training and each two rounds of a selection are a `part` of the task.
        """
        rows = []
        n = len(self.X)
        embeddings, events, full = part("look on", lambda: self.look_on(seed))

        def add(method, network, chosen, seconds, found=None):
            found = found or part(
                f"{method} {network} {len(chosen)}",
                lambda: self.accuracies(self._trained(network, chosen, seed), chosen),
            )
            rows.append(
                dict(
                    method=method,
                    network=network,
                    size=len(chosen),
                    seed=seed,
                    **found,
                    seconds=seconds,
                )
            )

        for network in self.networks:
            add(
                "full",
                network,
                np.arange(n),
                0.0,
                full if network == TARGET else None,
            )
        for method in METHODS:
            start = time.perf_counter()
            chosen = self.select(method, seed, embeddings, events)
            seconds = time.perf_counter() - start
            for network in self.networks:
                # the curve of Figure 8 is the target's; other networks get the largest coreset, as
                # in Tables 1 and 2
                for size in (
                    self.sizes if network == TARGET and method in CURVES else self.sizes[-1:]
                ):
                    add(method, network, chosen[:size], seconds)
        return rows


def coreset_rows(about, *, seed, **options):
    """Rows of `NetworkCoresets.run` for one data set: a task of the sweep.

    Parameters
    ----------
    about : dict, what `NetworkCoresets` is told of the data, and under "set" the paper's set that
        they stand for
    seed : int
    options : further options of `NetworkCoresets`
    """
    # layers are small: threads would wait for each other
    torch.set_num_threads(1)
    about = {key: value for key, value in about.items() if key != "stands_for"}
    name = about.pop("set")
    return [dict(row, set=name) for row in NetworkCoresets(**about, **options).run(seed)]


# --- which numbers decide the claims


OTHERS = (PARTNER, "MobileNetV2")
# share of the rows above which forgetting is as good as BiCo
SETS = {"CIFAR-10": 0.3, "SVHN": 0.14}


def evidence(run):
    """Claim -> the numbers of a run that decide it: settings of all data sets, a stand-in under its
    own name."""
    sets = {
        name: about
        for name, about in run.parameters["sets"].items()
        if (run.rows["set"] == name).any()
    }
    data = sorted(about["data"].removesuffix("_full") for about in sets.values())
    found = {}
    facts = {"data": ", ".join(data)}
    for name, about in sets.items():
        many = SETS[about.get("stands_for", name)]
        for claim, gaps in _of_one_set(run.rows[run.rows["set"] == name], many).items():
            of = {(name, *(s if isinstance(s, tuple) else (s,))): v for s, v in gaps.items()}
            found[claim] = found.get(claim, {}) | of
    for claim, networks in {
        "fig08": (TARGET,),
        "tab01": OTHERS,
        "tab02": OTHERS,
    }.items():
        mine = facts | _facts(run.rows, networks)
        found |= {
            c: Evidence(s, facts=mine, lacks="" if s else "the networks did not run")
            for c, s in found.items()
            if c.startswith(claim)
        }
    return {f"bico-{claim}": value for claim, value in found.items()}


def _of_one_set(rows, many):
    n = rows["size"].max()
    last = rows.loc[rows.method != "full", "size"].max()
    at_end = rows[(rows["size"] == last) & (rows.method != "full")]
    curve = rows[(rows.network == TARGET) & ~rows.method.isin(["full", "bico joint"])]
    ends = rows[
        (rows.network == TARGET)
        & ((rows["size"] == n) | (rows.method == "bico") & (rows["size"] == last))
    ]

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

    return {
        "fig08-compression": lead(ends, "bico", ["full"], by=["network"]),
        "fig08-above-simple": lead(curve, "bico", ["kcenter", "kmeans++"]),
        "fig08-like-forgetting": lead(curve[curve["size"] > many * n], "bico", ["forgetting"]),
        "fig08-forgetting-below-uniform": lead(
            curve[curve["size"] == curve["size"].min()], "uniform", ["forgetting"]
        ),
        "tab01-transfer": lead(at_end, "bico", ["uniform", "kcenter"], OTHERS),
        "tab01-like-forgetting": lead(at_end, "bico", ["forgetting"], OTHERS),
        "tab02-joint": lead(at_end, "bico joint", ["bico"], OTHERS),
    }


def _facts(rows, networks):
    """How many rows there are; whether coresets are small; a network's least training accuracy on
    all rows."""
    full = rows[rows.method == "full"]
    share = (
        rows[rows.method != "full"].groupby("set")["size"].max() / full.groupby("set")["size"].max()
    )
    facts = {"half_of_the_rows": int((share <= 0.5).all()), "rows": int(full["size"].min())}
    full = full[full.network.isin(networks)]
    if full.empty:
        return facts
    return facts | {
        "train_accuracy": float(full.groupby(["set", "network"]).train_accuracy.mean().min())
    }
