import numpy as np
from handful.sampling.alias import alias_records, draw_alias


def test_alias_table_holds_the_distribution_exactly():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 1000):
        p = rng.gamma(0.3, size=n)
        p[rng.random(n) < 0.2] = 0
        p[0] += 0.1
        p /= p.sum()
        records = alias_records(p)
        own = (records >> np.uint64(32)).astype(float) / 2**32
        alias = (records & np.uint64(0xFFFFFFFF)).astype(int)
        held = own / n
        np.add.at(held, alias, (1 - own) / n)
        np.testing.assert_allclose(held, p, atol=2**-32)
        assert (np.array([draw_alias(records, u) for u in rng.random(2000)]) < n).all()


def test_the_greatest_draw_does_not_leave_the_table():
    # 3 u rounds up to 3 for the greatest u below one
    three = alias_records(np.full(3, 1 / 3))
    assert draw_alias(three, np.nextafter(1.0, 0.0)) == 2
