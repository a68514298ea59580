"""Dictionary selection for compressed sensing (Borsos et al. 2024, Sections 4.5 and 5.6).

`Generative`, `VAE` and `train_vae` need torch, which is imported when they are asked for.
"""

from handful.dictionary.atoms import gaussian_atoms, wavelet_atoms
from handful.dictionary.recovery import L1, L2, Recovery
from handful.dictionary.selector import MeasurementSelector, approximate_greedy, recovery_error
from handful.lazy import lazy_names

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "VAE": "handful.dictionary.generative",
        "Generative": "handful.dictionary.generative",
        "train_vae": "handful.dictionary.generative",
    },
)
