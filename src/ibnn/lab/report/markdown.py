"""Texts of a report as Markdown: whatever is in them stays text."""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def plain(text: str) -> str:
    """Text that stays text: neither HTML nor Markdown, on one line.

    >>> plain("<b>5 * 3</b> of |x|")
    '&lt;b&gt;5 \\\\* 3&lt;/b&gt; of \\\\|x\\\\|'
    """
    return html.escape(re.sub(r"([\\`*_\[\]|])", r"\\\1", " ".join(text.split())), quote=False)


class Marked(str):
    """Text that is Markdown already, a link or emphasis: a table leaves it as it is."""


def claim_tables(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    """One table of the paper's statements, one of our questions; an empty one is left out."""
    lines = []
    for head, ours in (("The paper says", "Agrees"), False), (("Question", "Answer"), True):
        rows = [
            (claim["paper"], claim["measured"], Marked(f"**{plain(claim['agrees'])}**"))
            for claim in claims
            if claim.get("ours", False) == ours
        ]
        if rows:
            lines += [*table((head[0], "Measured here", head[1]), rows), ""]
    return lines


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; cells stay text unless they are `Marked`.

    >>> table(["a"], [["|x|"], [Marked("**y**")]])
    ['| a |', '| --- |', '| \\\\|x\\\\| |', '| **y** |']
    """
    return [_row(columns), "| " + " | ".join(["---"] * len(columns)) + " |", *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    texts = (cell if isinstance(cell, Marked) else plain(cell) for cell in cells)
    return "| " + " | ".join(texts) + " |"


def bullets(lines: Iterable[str]) -> list[str]:
    return [f"- {plain(line)}" for line in lines]
