"""The linear algebra that several checks share: products with J, eigenvalues, refined solves."""
