"""Levels of data: the lowest of a run's data sets decides, and each is named."""

import pytest
from handful_papers.levels import GENERATED, OWN, PART, STAND_IN, level

SHA = {"sha256": "ab"}


@pytest.mark.parametrize(
    ("data", "papers", "expected"),
    [
        ({"phishing": SHA, "a9a": SHA}, ["phishing", "a9a", "covtype"], (OWN, "the paper's data")),
        ({"covtype_subset": SHA, "a9a": SHA}, ["covtype", "a9a"], (PART, "part: 16 % of Covertype")),
        ({"cod_rna": SHA}, ["cod_rna"], (OWN, "the paper's data")),
        ({"cod_rna": SHA}, [{"name": "cod_rna", "rows": 488565}], (PART, "part: 68 % of cod-rna")),
        ({"mnist": SHA | {"rows": 7000}}, ["mnist"], (PART, "part: 10 % of MNIST")),
        ({"mnist": SHA | {"instead_of": "SVHN"}}, ["svhn"], (STAND_IN, "stand-in: MNIST for SVHN")),
        ({"digits": SHA, "covtype_subset": SHA}, ["covtype"], (STAND_IN, "stand-in: Digits; 16 % of Covertype")),
        ({"digits[1,8]": SHA}, ["phishing"], (STAND_IN, "stand-in: Digits")),
        ({"pathological": {"sha256": None}}, [], (GENERATED, "generated")),
        ({}, [], (GENERATED, "generated")),
        ({"fsdd": SHA}, [], (STAND_IN, "real data of our choice: Spoken Digits")),
        ({"susy_subset": SHA, "w8a": SHA | {"rows": 6470}}, [],
         (STAND_IN, "real data of our choice: 0.6 % of SUSY; 10 % of W8a")),
        ({"covtype_subset": SHA, "balanced": {"sha256": None}}, [],
         (STAND_IN, "real data of our choice: 16 % of Covertype")),
    ],
)  # fmt: skip
def test_the_level_of_a_run(data, papers, expected):
    assert level(data, papers) == expected
