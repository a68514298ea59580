"""What Figure 7 shows, and which of its sizes decide its claims."""

import pandas as pd
from handful_papers.bico.multiclass import where_shown


def test_the_regularised_coreset_is_shown_above_the_last_size_at_which_forward_selection_is_better():
    accuracies = {1: (50, None), 2: (60, 70), 4: (80, 75), 7: (82, 85), 10: (88, 89)}  # forward, regularised
    rows = [dict(dataset="a", method="full", share=100.0, test_accuracy=90.0)]
    for share, pair in accuracies.items():
        for method, accuracy in zip(("bico", "bico regularised"), pair):
            rows += [dict(dataset="a", method=method, share=share, test_accuracy=accuracy)] if accuracy else []
    shown = where_shown(pd.DataFrame(rows))
    assert sorted(shown.share.unique()) == [7, 10]
    assert sorted(shown.method.unique()) == ["bico", "bico regularised"]
