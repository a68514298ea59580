"""Dictionary selection for compressed sensing (Borsos et al. 2024, Sections 4.5 and 5.6)."""

from handful.dictionary.atoms import gaussian_atoms, wavelet_atoms
from handful.dictionary.recovery import L1, L2, Recovery
from handful.dictionary.selector import MeasurementSelector, approximate_greedy, recovery_error

__all__ = [
    "L1",
    "L2",
    "MeasurementSelector",
    "Recovery",
    "approximate_greedy",
    "gaussian_atoms",
    "recovery_error",
    "wavelet_atoms",
]
