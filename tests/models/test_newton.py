"""Newton's method climbs, however little the last step is asked to gain."""

import numpy as np
import pytest
from handful.models.newton import bordered, newton


@pytest.mark.parametrize("enough", [1e-12, 1e-6, 1e-2])
@pytest.mark.parametrize("start", [1.5, 5.0])
def test_steps_that_lead_downhill_are_halved_whatever_suffices(enough, start):
    # -1e9 - 1e5 log cosh, whose full steps go to and fro ever further from 1.1 on.
    def expansion(theta):
        x = theta[0]
        value = -1e9 - 1e5 * np.log(np.cosh(x))
        slope = np.array([-1e5 * np.tanh(x)])
        return bordered(value, slope, np.array([[1e5 / np.cosh(x) ** 2]]))

    value, theta, _ = newton(expansion, np.array([start]), enough=enough)
    assert value == pytest.approx(-1e9, abs=enough + 1e-5)
    assert abs(theta[0]) < 1e-5
