"""Labelling a pool from nothing: what is asked for first and after each answer, and a simulated
person who answers."""

import numpy as np
from handful.active import BilevelQuery, KMeansQuery, UniformQuery
from handful.active.loop import ActiveLoop

from handful_papers.bico.active import accuracy, train
from handful_papers.bico.active_data import features, recordings
from handful_papers.effects import paired_differences


class Asker:
    """Asks for recordings of a pool: for typical ones, and from two words on by the bilevel
    acquisition.

    Parameters
    ----------
    data : Recordings
    Z : shape (n, d), features of the recordings
    options : dict, of `MixMatch`
    seed : int
    """

    def __init__(
        self,
        data,
        Z,
        *,
        options,
        seed=0,
    ):
        self.data = data
        self.Z = Z
        self.options = options
        self.seed = seed
        self._last = (None, None)

    def train(self, labelled, labels):
        """MixMatch on labelled recordings (`labels` are words) and all others; the last model is
        kept."""
        key = (*labelled, *labels)
        if self._last[0] != key:
            columns = [self.data.words.index(word) for word in labels]
            model = train(self.data, labelled, columns, seed=self.seed, **self.options)
            self._last = (key, model)
        return self._last[1]

    def __call__(self, labelled, labels, rest, n):
        """The next `n` of the recordings `rest`: the `propose` of an `ActiveLoop`."""
        if len(set(labels)) < 2:
            query = KMeansQuery(random_state=self.seed)
            typical = query.query(
                n,
                features=self.Z[rest],
                labelled=self.Z[labelled],
            )
            return rest[typical]
        model = self.train(labelled, labels)
        chosen = BilevelQuery().query(
            n,
            features=self.Z[rest],
            probabilities=model.predict_proba(self.data.X[rest]),
            labelled=self.Z[labelled],
            labels=labels,
            classes=self.data.words,
        )
        return rest[chosen]


def simulated_rows(
    method,
    *,
    pool,
    kernel,
    options,
    batch,
    n_rounds,
    seed,
):
    """A simulated person, who is never wrong, labels a pool from nothing: a task of a sweep.

    Parameters
    ----------
    method : "bico" labels what `Asker` asks for, "uniform" as many random recordings
    pool : dict, arguments of `recordings`
    kernel : dict, options of `Proxy`
    options : dict, of `MixMatch`
    batch : int, recordings labelled in a round

    Returns
    -------
    list of dict, one for each round : method, seed, labels (their number), words_heard (different
    words among them) and accuracy (percent, of the same training on the labels so far)
    """
    data = recordings(**pool)
    ask = Asker(
        data,
        features(pool, kernel).Z,
        options=options,
        seed=seed,
    )
    draw = UniformQuery(random_state=np.random.default_rng(seed))

    def propose(labelled, labels, rest, n):
        if method == "bico":
            return ask(labelled, labels, rest, n)
        return rest[draw.query(n, n_pool=len(rest))]

    loop = ActiveLoop(
        propose,
        n_pool=len(data.X),
        classes=data.words,
        batch_size=batch,
    )
    rows = []
    for _ in range(n_rounds):
        loop.run(lambda index: data.words[data.y[index]], n_rounds=1)
        model = ask.train(loop.labelled, loop.labels)
        row = dict(
            method=method,
            seed=seed,
            labels=len(loop.labelled),
            words_heard=len(set(loop.labels)),
            accuracy=accuracy(model, data),
        )
        rows.append(row)
    return rows


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    run.facts.update(data=run.parameters["dataset"])
    gaps = paired_differences(
        run.rows,
        a="bico",
        b="uniform",
        value="accuracy",
        by="labels",
    )
    return {"bico-own-labelling": gaps}
