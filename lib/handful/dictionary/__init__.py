"""Dictionary selection for compressed sensing (Borsos et al. 2024, Sections 4.5 and 5.6)."""

from handful.dictionary.atoms import wavelet_atoms
from handful.dictionary.measurement_selector import MeasurementSelector
from handful.dictionary.recovery import L1, L2, Recovery

__all__ = ["L1", "L2", "MeasurementSelector", "Recovery", "wavelet_atoms"]
