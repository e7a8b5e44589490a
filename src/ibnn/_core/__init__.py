"""What holds the parts together: rows, the system, the ops torch sees, and their gradients."""
