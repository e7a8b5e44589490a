"""The site holds no sources: links to them, for readers of the repository, become text."""

import re


def on_page_markdown(markdown: str, **_: object) -> str:
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?:src|tests|examples)\b[^)]*\)", r"\1", markdown)
