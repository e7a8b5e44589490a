"""Both neurons side by side over epochs, data, size and wrong labels."""
