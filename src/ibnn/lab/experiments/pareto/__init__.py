"""One network that keeps both promises? Clean against robust accuracy, every arm a point."""
