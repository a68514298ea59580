"""Sensitivity sampling: draw points by bounds on their largest share of the loss."""
