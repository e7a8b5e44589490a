"""What the site does beside its pages: tutorials are run, links to sources become text, and the
playground is added."""

import hashlib
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parent
RUN = DOCS.parent / "build" / "tutorials"  # what a tutorial made, until it or the package changes


def on_files(files: Files, config: Any, **_: object) -> None:
    """Every script of tutorials/ becomes a page with its output, its figures and a notebook."""
    for script in sorted((DOCS / "tutorials").glob("*.py")):
        folder = _made(script)
        for made in sorted(folder.iterdir()):
            name = f"tutorials/{made.name}"
            files.append(File.generated(config, name, abs_src_path=str(made)))


def _made(script: Path) -> Path:
    """The folder with what a run of this script gives; run now unless it was before."""
    sys.path.insert(0, str(DOCS))
    from tutorial import execute

    package = sorted((DOCS.parent / "src").rglob("*"))
    sources = [path for path in package if path.suffix in (".py", ".cpp", ".h")]
    sources += [script, DOCS / "tutorial.py"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    folder = RUN / f"{script.stem}-{digest.hexdigest()[:12]}"
    if not folder.exists():
        print(f"running docs/tutorials/{script.name}", flush=True)
        done = execute(script)
        notebook = f"{done.name}.ipynb"
        about = (
            f"*This page as a [notebook]({notebook}), or as the script "
            f"`docs/tutorials/{script.name}` that makes it.*"
        )
        made = {
            f"{done.name}.md": f"{done.markdown()}\n---\n\n{about}\n".encode(),
            notebook: done.notebook().encode(),
            **done.images(),
        }
        unfinished = folder.with_suffix(".unfinished")
        unfinished.mkdir(parents=True, exist_ok=True)
        for name, content in made.items():
            (unfinished / name).write_bytes(content)
        unfinished.rename(folder)
    return folder


def on_page_markdown(markdown: str, **_: object) -> str:
    """The site holds no sources: links to them are for readers of the repository. Those to a
    tutorial lead to the page that is made of it."""
    markdown = re.sub(r"(\]\((?:\.\./)*tutorials/\w+)\.py\b", r"\1.md", markdown)
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?:src|tests|examples)\b[^)]*\)", r"\1", markdown)


def on_post_page(output: str, **_: object) -> str:
    """Nothing is fetched from the network: search on pages from a disk has a script of its own."""
    shim = (DOCS / "offline_search.js").read_text(encoding="utf-8")
    theirs = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
    return output.replace(theirs, f"<script>\n{shim}</script>")


def on_post_template(output_content: str, **_: object) -> str:
    return on_post_page(output_content)


def on_post_build(config: Any, **_: object) -> None:
    from ibnn.lab.playground import write

    write(Path(config["site_dir"]) / "playground.html")
