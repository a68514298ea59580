"""Inner problems: the models that are trained on a coreset."""
