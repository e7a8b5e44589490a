"""`python -m ibnn.lab.report.verdict docs`: make tables and figures of the verdict again."""

import sys
from pathlib import Path

from ibnn.lab import files
from ibnn.lab.report.verdict.figures import write_figures
from ibnn.lab.report.verdict.page import PAGES, refresh

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    results = folder / "results"
    for page in folder.glob(PAGES):
        files.write_text(page, refresh(page.read_text(encoding="utf-8"), results))
    write_figures(folder / "images", results)
