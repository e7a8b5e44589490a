"""The datasets that come with the laboratory, one file each."""
