"""Existence and uniqueness of z: thresholds, certificates for single inputs, several solutions."""
