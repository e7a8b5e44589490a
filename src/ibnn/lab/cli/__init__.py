"""The `ibnn` command. Each command has a file; torch and matplotlib are imported when needed."""

from ibnn.lab.cli.app import main

__all__ = ["main"]
