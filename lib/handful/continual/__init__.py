"""Continual learning with a replay memory that a selector fills (Borsos et al. 2024, Section 4.1)."""

from handful.continual.memory import Memory, ReplayBuffer

__all__ = ["Memory", "ReplayBuffer"]
