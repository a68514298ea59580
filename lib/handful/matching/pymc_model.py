"""A PyMC model as rows: its graph says the log-likelihood of each row, the prior and the
transforms."""

from typing import Any

import numpy as np

from handful.lazy import LazyModule
from handful.matching.differences import around, evenly
from handful.matching.model_rows import WrittenModel, nearby_mode

pm = LazyModule("pymc")
fgraph = LazyModule("pymc.model.fgraph")
minibatch = LazyModule("pymc.variational.minibatch_rv")
pytensor = LazyModule("pytensor")
pt = LazyModule("pytensor.tensor")
replace = LazyModule("pytensor.graph.replace")
shaping = LazyModule("pytensor.tensor.shape")
traversal = LazyModule("pytensor.graph.traversal")

# Rows on which a part of the model is tried, and the share up to which it is that of all rows.
FEW = 5
SAME = 1e-9
# Of the difference of two slopes, beside the magnitude of a parameter.
STEP = 1e-4


class PyMCModel(WrittenModel):
    """A PyMC model on all of its data.

    Parameters
    ----------
    model : pymc.Model

    Raises
    ------
    ValueError
        for a model whose rows cannot be told apart or weighted, with the reason
    TypeError
        for what is no model of PyMC
    """

    def __init__(self, model: Any):
        if not isinstance(model, pm.Model):
            raise TypeError(f"model must be a pymc.Model, got {type(model).__name__}.")
        self.model = model
        self.value_vars = model.continuous_value_vars
        _refuse_variables(model)
        point = model.initial_point()
        self.point = [np.asarray(point[v.name], float) for v in self.value_vars]
        self.p = sum(v.size for v in self.point)
        terms = [*model.observed_RVs, *model.potentials]
        by_term = model.logp(vars=terms, sum=False, jacobian=False) if terms else []
        shapes = [np.shape(value) for value in self._function(by_term)(*self.point)]
        n = max((shape[0] for shape in shapes if shape), default=0)
        if not n:
            raise ValueError(
                "no observed variable or potential of the model has an entry for each row: give "
                "observed=..., and potentials without their sum."
            )
        rows = [bool(shape) and shape[0] == n for shape in shapes]
        for term, graph, of_rows in zip(terms, by_term, rows):
            if not of_rows and _arrays_of_rows([graph], n):
                raise ValueError(
                    f"the term {term.name!r} is of all {n} rows together: give it without the sum, "
                    "an entry for each row, the rows first."
                )
        self.terms = [term for term, of_rows in zip(terms, rows) if of_rows]
        super().__init__(n, self._shapes(n))
        others = [term for term in terms if term not in self.terms]
        by_row = [_summed(graph) for graph, of_rows in zip(by_term, rows) if of_rows]
        self._compile(sum(by_row), model.logp(vars=[*model.free_RVs, *others]))
        self.near = nearby_mode(self._negative, self.p)

    def _shapes(self, n):
        """Shapes of the latent variables as draws have them."""
        variables = self.model.free_RVs
        shapes = {}
        of_variables = self._function([v.shape for v in variables], of_values=False)
        for variable, shape in zip(variables, of_variables()):
            shapes[variable.name] = tuple(int(length) for length in shape)
            if n in shapes[variable.name]:
                raise ValueError(
                    f"the latent variable {variable.name!r} of shape {shapes[variable.name]} has "
                    "one for each row, which is not supported: integrate it out, or sample on all "
                    "rows."
                )
        return shapes

    # Densities ------------------------------------------------------------------------------------

    def _function(self, outputs, *inputs, of_values=True):
        given = [*(self.value_vars if of_values else ()), *inputs]
        return pytensor.function(given, outputs, on_unused_input="ignore")

    def _compile(self, total, prior):
        """Set the compiled functions of values, numbers of rows, and weights."""
        rows = pt.lvector("rows")
        w = pt.dvector("w")
        self.slices = True
        of_rows = _on_rows([total], self.n, rows)[0]
        self._of_rows = self._of_many(of_rows, rows)
        if not self._is_that_of_all(total):
            # some array of other rows is in it
            self.slices = False
            of_rows = total[rows]
            self._of_rows = self._of_many(of_rows, rows)
        weighted = (w * of_rows).sum()
        self._slope = self._function(
            [
                weighted,
                *pt.grad(weighted, self.value_vars, disconnected_inputs="ignore"),
            ],
            rows,
            w,
        )
        self._prior = self._of_many(prior)
        self._prior_slope = self._function(
            [
                prior,
                *pt.grad(prior, self.value_vars, disconnected_inputs="ignore"),
            ]
        )
        both = total.sum() + prior
        self._posterior = self._function([both, *pt.grad(both, self.value_vars)])

    def _of_many(self, output, *inputs):
        """A function of parameters (K, p) and of inputs, whose first axis is K."""
        theta = pt.dmatrix("theta")
        parts = {}
        start = 0
        for variable, value in zip(self.value_vars, self.point):
            part = theta[:, start : start + value.size]
            shape = (theta.shape[0], *value.shape)
            parts[variable] = pt.specify_shape(part.reshape(shape), (None, *value.shape))
            start += value.size
        batched = replace.vectorize_graph(output, parts)
        return pytensor.function([theta, *inputs], batched, on_unused_input="ignore")

    def _is_that_of_all(self, total):
        """Whether the log-likelihoods of some rows alone are those in the company of all."""
        some = evenly(np.arange(self.n), FEW)
        theta = np.random.default_rng(0).uniform(-1, 1, self.p)
        every = self._function(total)(*self._split(theta))[some]
        try:
            alone = self._of_rows(theta[None], some)[0]
        except (AssertionError, IndexError, ValueError):
            # a shape that is written into the model
            return False
        return alone.shape == every.shape and np.allclose(alone, every, rtol=SAME, atol=SAME)

    def _split(self, theta):
        cuts = np.cumsum([v.size for v in self.point])[:-1]
        return [part.reshape(v.shape) for part, v in zip(np.split(theta, cuts), self.point)]

    def of_rows(self, theta, rows):
        """As `WrittenModel.of_rows`."""
        return self._of_rows(theta, rows)

    def prior(self, theta):
        """As `WrittenModel.prior`."""
        return self._prior(theta)

    def slopes_of(self, theta, rows, w):
        """As `WrittenModel.slopes_of`."""
        return np.array([_flat(self._slope(*self._split(one), rows, w)[1:]) for one in theta])

    def prior_slopes(self, theta):
        """As `WrittenModel.prior_slopes`."""
        return np.array([_flat(self._prior_slope(*self._split(one))[1:]) for one in theta])

    def prior_derivatives(self, theta):
        """As `WrittenModel.prior_derivatives`."""
        return with_hessian(self.prior(theta[None])[0], self.prior_slopes, theta)

    def derivatives_of(self, theta, rows, w):
        """As `WrittenModel.derivatives_of`."""
        value = w @ self.of_rows(theta[None], rows)[0]
        return with_hessian(value, lambda there: self.slopes_of(there, rows, w), theta)

    def _negative(self, theta):
        value, *slope = self._posterior(*self._split(theta))
        return -float(value), -_flat(slope)

    # Draws and samplers ---------------------------------------------------------------------------

    def unconstrained(self, draws):
        """As `WrittenModel.unconstrained`."""
        model = self.model
        # the variables are given, and what made them is cut off
        function = self._function(_unconstrained(model), *model.free_RVs, of_values=False)
        columns = [draws[variable.name] for variable in model.free_RVs]
        return np.array([_flat(function(*row)) for row in zip(*columns)])

    def by_site(self, theta):
        """As `WrittenModel.by_site`."""
        names = [self.model.values_to_rvs[value].name for value in self.value_vars]
        return dict(zip(names, self._split(theta)))

    def constrained(self, theta):
        """As `WrittenModel.constrained`."""
        variables = self.model.free_RVs
        function = self._function(self.model.replace_rvs_by_values(variables))
        return dict(zip((v.name for v in variables), function(*self._split(theta))))

    def weighted(self, indices, weights, form):
        """As `WrittenModel.weighted`: potentials of the chosen rows stand for the terms of all."""
        names = [term.name for term in self.terms]
        model = _copy(self.model)
        shapes = self._function([d.shape for d in self.model.deterministics], of_values=False)()
        for deterministic, shape in zip(list(model.deterministics), shapes):
            # one a row is of all rows, and nothing that a chain needs
            if self.n in shape:
                model.deterministics.remove(deterministic)
                del model.named_vars[deterministic.name]
        with model:
            for name in names:
                term = model[name]
                is_potential = term in model.potentials
                terms = model.potentials if is_potential else model.observed_RVs
                graph = term if is_potential else pm.logp(term, model.rvs_to_values[term])
                if self.slices:
                    graph = _on_rows([graph], self.n, indices)[0]
                else:
                    graph = graph[indices]
                by_row = _summed(graph)
                terms.remove(term)
                del model.named_vars[name]
                pm.Potential(f"{name}_rows", (weights * by_row).sum())
            if form is not None:
                theta = pt.concatenate([part.ravel() for part in _unconstrained(model)])
                pm.Potential("quadratic_form", form(theta, pt))
        return model, (), {}


def _unconstrained(model):
    """The unconstrained values of a model's latent variables, as graphs of these variables."""
    found = []
    for value in model.continuous_value_vars:
        variable = model.values_to_rvs[value]
        transform = model.rvs_to_transforms[variable]
        inputs = variable.owner.inputs
        found.append(variable if transform is None else transform.forward(variable, *inputs))
    return found


def with_hessian(value, slopes, theta):
    """Value, slope (p,) and Hessian (p, p) at parameters (p,), the Hessian by differences of
    slopes, a function of parameters (K, p)."""
    h = STEP * np.maximum(1.0, np.abs(theta))
    here, *there = slopes(around(theta, np.diag(h)))
    ahead, behind = np.split(np.array(there), 2)
    hessian = (ahead - behind) / (2 * h[:, None])
    return float(value), here, (hessian + hessian.T) / 2


def _copy(model):
    """A copy of a model, which starts where it starts by itself; PyMC copies no starts of the
    user."""
    given = dict(model.rvs_to_initial_values)
    model.rvs_to_initial_values.update(dict.fromkeys(given))
    try:
        return fgraph.clone_model(model)
    finally:
        model.rvs_to_initial_values.update(given)


def _refuse_variables(model):
    if model.discrete_value_vars:
        names = [model.values_to_rvs[v].name for v in model.discrete_value_vars]
        raise ValueError(
            f"the latent variables {names} are discrete: sum them out, for example by pm.Mixture."
        )
    for variable in model.observed_RVs:
        if isinstance(variable.owner.op, minibatch.MinibatchRandomVariable):
            raise ValueError(
                f"the variable {variable.name!r} takes a subsample: leave pm.Minibatch and "
                "total_size out, as the rows are chosen here."
            )


def _summed(graph):
    """A term by row, whose other axes are summed."""
    return graph.sum(axis=tuple(range(1, graph.ndim)))


def _flat(arrays):
    return np.concatenate([np.ravel(a) for a in arrays])


def _data_of(variable):
    """The array of a constant or of shared data, or None."""
    if variable.owner is not None:
        return None
    if hasattr(variable, "get_value"):
        return variable.get_value(borrow=True)
    return getattr(variable, "data", None)


def _arrays_of_rows(graphs, n):
    """Data in graphs that have n rows, and their arrays."""
    found = {}
    for variable in traversal.ancestors(graphs):
        data = _data_of(variable)
        if data is not None and np.ndim(data) > 0 and len(data) == n:
            found[variable] = data
    return found


def _counts_rows(data, n):
    """Whether a constant is a shape of which n is one length."""
    is_shape = isinstance(data, np.ndarray) and data.ndim == 1 and data.dtype.kind == "i"
    return is_shape and len(data) < n and n in data


def _on_rows(graphs, n, rows):
    """Graphs made anew on some rows of the data that have n of them.

    Parameters
    ----------
    graphs : list of variables
    n : int
    rows : variable or array of numbers of rows
    """
    arrays = _arrays_of_rows(graphs, n)
    if isinstance(rows, np.ndarray):
        made = {variable: pt.constant(data[rows]) for variable, data in arrays.items()}
        count = pt.constant(len(rows))
    else:
        made = {variable: variable[rows] for variable in arrays}
        count = rows.shape[0]
    for variable in traversal.ancestors(graphs):
        data = _data_of(variable)
        # a shape that has the rows
        if _counts_rows(data, n):
            made[variable] = pt.stack([count if k == n else pt.constant(k) for k in data])
    for node in traversal.toposort(graphs):
        inputs = [made.get(variable, variable) for variable in node.inputs]
        if isinstance(node.op, shaping.SpecifyShape):
            # of all rows
            made[node.outputs[0]] = inputs[0]
        elif any(new is not old for new, old in zip(inputs, node.inputs)):
            # static shapes are found anew
            made.update(zip(node.outputs, node.op.make_node(*inputs).outputs))
    return [made.get(graph, graph) for graph in graphs]
