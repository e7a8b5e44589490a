"""The site holds no sources: links to them, which a reader of the repository follows, become text."""

import re


def on_page_markdown(markdown: str, **_: object) -> str:
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?:src|tests|examples)\b[^)]*\)", r"\1", markdown)
