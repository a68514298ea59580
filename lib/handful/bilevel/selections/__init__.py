"""Selections: a growing coreset of one model, and what the outer loss says about every further row."""
