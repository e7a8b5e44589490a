"""What the site does beside its pages: links to sources become text; the playground is added."""

import re
from pathlib import Path
from typing import Any


def on_page_markdown(markdown: str, **_: object) -> str:
    """The site holds no sources: links to them are for readers of the repository."""
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?:src|tests|examples)\b[^)]*\)", r"\1", markdown)


def on_post_build(config: Any, **_: object) -> None:
    from ibnn.lab.playground import write

    write(Path(config["site_dir"]) / "playground.html")
