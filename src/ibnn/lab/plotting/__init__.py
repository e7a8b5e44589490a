"""How every figure looks, and drawings that several reports share."""
