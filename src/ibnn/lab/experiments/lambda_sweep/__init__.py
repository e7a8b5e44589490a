"""Accuracy over lam and slope on held-out training data."""
