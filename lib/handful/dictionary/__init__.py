"""Dictionary selection for compressed sensing (Borsos et al. 2024, Sections 4.5 and 5.6)."""

from handful.dictionary.measurement_selector import MeasurementSelector
from handful.dictionary.recovery import L1, L2
from handful.lazy import lazy_names

__all__ = ["L1", "L2", "MeasurementSelector"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {},
    moved={
        "Recovery": "handful.dictionary.recovery.Recovery",
        "wavelet_atoms": "handful.dictionary.atoms.wavelet_atoms",
    },
)
