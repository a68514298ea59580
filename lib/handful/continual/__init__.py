"""Continual learning with a replay memory that a selector fills (Borsos et al. 2024, Section 4.1).

`Views` and `network_views` need torch, which is imported when they are asked for.
"""

from handful.continual.memory import ReplayBuffer
from handful.lazy import lazy_names

__all__ = ["ReplayBuffer"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {"Views": "handful.continual.views", "network_views": "handful.continual.views"},
)
