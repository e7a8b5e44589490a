"""Sensitivity to the input: the spectrum of K_inf, the paper's inequality, norms of Jacobians."""
