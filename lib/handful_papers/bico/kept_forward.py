"""Forward selection whose rounds are kept, for selections that take hours."""

from functools import partial

from handful.bilevel import Forward

from handful_papers.tasks import part


class KeptForward(Forward):
    """`Forward`, each few rounds a `part` of the task that runs: a selection that was killed goes
    on from there.

    Parameters
    ----------
    name : str, of the selection within its task
    rounds : int, of a part; even where two networks take turns
    batch_size, n_start, every_class : as in `Forward`
    """

    def __init__(
        self,
        name,
        rounds,
        batch_size=1,
        *,
        n_start=None,
        every_class=True,
    ):
        super().__init__(batch_size, n_start=n_start, every_class=every_class)
        self.name = name
        self.rounds = rounds

    def run(self, model, size, **options):
        """As `Forward.run`, for equal weights."""
        while len(model) < size:
            held = len(model)
            until = min(size, len(model) + self.rounds * self.batch_size)
            rows = part(f"{self.name} to {until}", partial(self._rows, model, until, options))
            if len(model) == held:
                # They were found before the task was killed.
                model.add_rows(rows)
                options["bar"].update(len(rows))

    def _rows(self, model, until, options):
        held = len(model)
        super().run(model, until, **options)
        return list(model.indices)[held:]
