"""Memorization: curvature of the loss around each example, and wrong labels that are learned."""
