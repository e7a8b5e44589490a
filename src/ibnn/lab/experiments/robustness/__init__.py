"""The networks of the accuracy figures under attack."""
