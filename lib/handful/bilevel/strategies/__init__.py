"""Strategies: how the set of points is found (Section 3.5)."""
