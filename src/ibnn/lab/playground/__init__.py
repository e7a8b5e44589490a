"""A web page that trains a standard and an implicit network side by side, in the browser.

>>> page().startswith("<!doctype html>")
True
"""

from ibnn.lab.playground.bundle import PAGE, page, write
from ibnn.lab.playground.serve import PORT, server

__all__ = ["PAGE", "PORT", "page", "server", "write"]
