"""What selections compute with: inner solves, passes over all rows, implicit gradients, bases of spans."""
