"""Continual learning with a replay memory that a selector fills (Borsos et al. 2024, Section 4.1).

`network_views` needs torch, which is imported when it is asked for.
"""

from handful.continual.memory import ReplayBuffer
from handful.lazy import lazy_names

__all__ = ["ReplayBuffer"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {"network_views": "handful.continual.views"},
    moved={"Views": "handful.continual.views.Views"},
)
