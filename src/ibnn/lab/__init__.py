"""The laboratory: data, networks, training, experiments and their reports."""
