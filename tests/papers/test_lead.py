"""The leading picture: same records, same bytes; its numbers are those of the rows."""

import pandas as pd
import pytest
from handful_papers.own import lead
from handful_papers.style import render


@pytest.fixture(scope="module")
def rows():
    cells = [("uniform", m, m, 20 / m + seed) for m in (10, 20, 40) for seed in (0, 1, 2)]
    cells += [("bilevel", m, m, 0.1) for m in (10, 20, 40) for _ in range(3)]
    cells += [("matched", m, m - 3, excess) for m, excess in ((20, 0.01), (40, 0.03))]
    frame = pd.DataFrame(cells, columns=["method", "m", "rows", "excess"]).assign(
        dataset="a", way="l2 x 1", seed=0
    )
    return pd.concat([frame, frame.assign(way="l1", excess=99.0)])


def test_the_lines_are_medians_at_the_trainers_own_penalty(rows):
    found = lead.excess(rows)
    assert found.loc["uniform"][0.5].to_list() == [3.0, 2.0, 1.5]
    assert lead.least_matched(rows).to_numpy().tolist() == [[17.0, 0.01]]


def test_the_same_records_make_the_same_bytes_and_other_divergences_others(rows):
    cells = [
        ("a", "matched", 1, 9, 0.1),
        ("a", "matched", 2, 18, 1e-3),
        ("a", "uniform", None, 300, 20.0),
    ]
    posterior = pd.DataFrame(cells, columns=["what", "method", "multiple", "rows", "kl"])
    chain = posterior.assign(what="NUTS", kl=9.0)
    first = render(lead.draw(rows, posterior))["png"]
    assert first == render(lead.draw(rows, pd.concat([posterior, posterior, chain])))["png"]
    assert first != render(lead.draw(rows, posterior.assign(kl=posterior.kl / 2)))["png"]
