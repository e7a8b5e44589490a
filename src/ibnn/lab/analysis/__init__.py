"""The paper's theory, measured on real layers and networks."""
