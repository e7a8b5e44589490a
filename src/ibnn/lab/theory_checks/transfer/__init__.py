"""Transfer: what is left of a trained standard network when its neurons become implicit."""
