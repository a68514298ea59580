"""Lazy and delayed tables of other libraries are named, with the call that makes rows of them."""

import numpy as np
import pandas as pd
import pytest
from handful import KCenter, LinearSVM, MergeReduce, UniformCoreset
from handful.blocks import Blocks
from handful.tables import LAZY_TABLES


def fake(root, name, **attributes):
    return type(name, (), {"__module__": f"{root}.core", **attributes})()


def lazy_tables():
    frame = pd.DataFrame(np.zeros((9, 2)), columns=["a", "b"])
    yield iter(frame.to_numpy()), "list"
    yield (part for part in [frame]), "partial_fit"
    polars = pytest.importorskip("polars")
    yield polars.from_pandas(frame).lazy(), "X.collect"
    dask = pytest.importorskip("dask")
    yield dask.delayed(frame), "X.compute"
    yield [dask.delayed(frame)] * 2, "from_delayed"
    arrow = pytest.importorskip("pyarrow")
    dataset = pytest.importorskip("pyarrow.dataset")
    yield dataset.dataset(arrow.Table.from_pandas(frame)), "X.to_table"
    yield dataset.dataset(arrow.Table.from_pandas(frame)).scanner(), "X.to_table"
    yield arrow.Table.from_pandas(frame).to_reader(), "X.read_all"
    for (root, name), call in LAZY_TABLES.items():
        yield fake(root, name), call.split("(")[0]
    yield fake("xarray", "DataArray", chunks=((4, 5), (2,)), shape=(9, 2)), "X.data"


def test_a_lazy_table_is_refused_by_name_with_the_call_that_makes_rows():
    for table, call in lazy_tables():
        ways = (
            lambda table=table: UniformCoreset(3).fit(table),
            lambda table=table: KCenter(3).fit(table),
            lambda table=table: MergeReduce(KCenter(), size=3).fit(table),
            lambda table=table: LinearSVM().fit(table, [0, 1]),
            lambda table=table: UniformCoreset(3, random_state=0).fit(np.zeros((9, 1))).take(table),
            lambda table=table: Blocks(table),
        )
        for way in ways:
            with pytest.raises(ValueError, match="holds no rows yet") as refused:
                way()
            assert call in str(refused.value)
