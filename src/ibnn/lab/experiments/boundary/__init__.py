"""Fig. 2 of the paper: decision boundaries in the plane."""
