"""Readers of the file formats datasets come in, one file each."""
