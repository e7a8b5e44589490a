"""Implicit-bias networks made from trained standard ones."""
