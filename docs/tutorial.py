"""A tutorial is a script in percent format; here it is run, cell by cell, as a notebook would be.

    page = execute(Path("docs/tutorials/first_layer.py"))
    page.markdown()   # for the site, with what was printed and drawn
    page.notebook()   # the same as a Jupyter notebook

Cells begin with `# %%`, text with `# %% [markdown]`. Editors and jupytext open the script as it is.
A warning is an error: a newcomer meets none.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARK = "# %%"
DPI = 110


class TutorialError(Exception):
    """A cell failed; the message says where."""


@dataclass
class Cell:
    """Text, or code with what it printed and drew."""

    kind: str  # "markdown" or "code"
    source: str
    line: int  # of the script, on which the source begins
    printed: str = ""
    figures: list[bytes] = field(default_factory=list)  # PNG


@dataclass(frozen=True)
class Tutorial:
    """A script after it was run."""

    name: str
    cells: list[Cell]

    def images(self) -> dict[str, bytes]:
        """Every figure by the name of its file."""
        figures = [figure for cell in self.cells for figure in cell.figures]
        return {f"{self.name}-{number}.png": png for number, png in enumerate(figures, 1)}

    def markdown(self) -> str:
        """The page. Figures are images beside it."""
        parts, names = [], iter(self.images())
        for cell in self.cells:
            if cell.kind == "markdown":
                parts.append(cell.source)
                continue
            parts.append(f"```python\n{cell.source}\n```")
            if cell.printed:
                parts.append(f"```text\n{cell.printed.rstrip()}\n```")
            parts += [f"![what the cell above draws]({next(names)})" for _ in cell.figures]
        return "\n\n".join(parts) + "\n"

    def notebook(self) -> str:
        """As .ipynb, outputs included."""
        cells = [_notebook_cell(number, cell) for number, cell in enumerate(self.cells)]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        about = {"kernelspec": kernel, "language_info": {"name": "python"}}
        return json.dumps(
            {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1
        )


def parse(text: str) -> list[Cell]:
    """The cells of a script in percent format."""
    cells: list[Cell] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(MARK):
            cells.append(Cell("markdown" if "[markdown]" in line else "code", "", number + 1))
        elif cells:
            if cells[-1].kind == "markdown":
                line = line.removeprefix("#").removeprefix(" ")
            cells[-1].source += line + "\n"
        elif line.strip():
            raise TutorialError(f"line {number} stands before the first {MARK}")
    for cell in cells:
        cell.source = cell.source.rstrip()
    return [cell for cell in cells if cell.source]


def execute(script: Path) -> Tutorial:
    """Run every cell in one namespace; what it prints and the figures it leaves open are kept."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    cells = parse(script.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    with pyplot.rc_context({"figure.dpi": DPI, "savefig.bbox": "tight"}):
        for cell in cells:
            if cell.kind == "code":
                _run(cell, names, script)
                for number in pyplot.get_fignums():
                    file = io.BytesIO()
                    pyplot.figure(number).savefig(file, format="png")
                    cell.figures.append(file.getvalue())
                pyplot.close("all")
    return Tutorial(script.stem, cells)


def _run(cell: Cell, names: dict[str, Any], script: Path) -> None:
    told = io.StringIO()
    code = "\n" * (cell.line - 1) + cell.source  # a traceback then names the line of the script
    try:
        with contextlib.redirect_stdout(told), warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(code, str(script), "exec"), names)
    except Exception as error:
        place = f"{script.name}, cell at line {cell.line}"
        raise TutorialError(f"{place}: {type(error).__name__}: {error}") from error
    cell.printed = told.getvalue()


def _notebook_cell(number: int, cell: Cell) -> dict[str, Any]:
    about = {"id": f"cell-{number}", "metadata": {}, "source": cell.source}
    if cell.kind == "markdown":
        return {"cell_type": "markdown", **about}
    outputs: list[dict[str, Any]] = []
    if cell.printed:
        outputs.append({"output_type": "stream", "name": "stdout", "text": cell.printed})
    for figure in cell.figures:
        png = {"image/png": base64.b64encode(figure).decode()}
        outputs.append({"output_type": "display_data", "data": png, "metadata": {}})
    return {"cell_type": "code", "execution_count": None, "outputs": outputs, **about}
