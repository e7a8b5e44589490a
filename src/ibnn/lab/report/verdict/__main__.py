"""`python -m ibnn.lab.report.verdict docs`: make the tables of `docs/verdict.md` again."""

import sys
from pathlib import Path

from ibnn.lab import files
from ibnn.lab.report.verdict.page import refresh

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    page = folder / "verdict.md"
    files.write_text(page, refresh(page.read_text(encoding="utf-8"), folder / "results"))
