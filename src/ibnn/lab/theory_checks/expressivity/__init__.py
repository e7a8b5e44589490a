"""Expressivity: the expansion in lam, universal approximation, linear regions on a plane."""
