"""The page as one file of HTML that needs nothing else: its modules and style sheet put inside.

Browsers load ES modules over HTTP only; as one file the page also opens from disk, and a static
site carries it without knowing its parts.
"""

import re
from pathlib import Path

from ibnn.lab import files

PAGE = Path(__file__).with_name("page")
"""The folder of the page's sources; served over HTTP it works as it is."""

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "(\.[^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:const|function|class) (\w+)", re.MULTILINE)


def page() -> str:
    """The whole page as one HTML document.

    >>> "<script src" in page() or "<link rel=stylesheet" in page()
    False
    """
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    modules = "\n".join(_modules((PAGE / "main.js").resolve(), {}).values())
    for tag, inside in (
        ('<link rel="stylesheet" href="style.css">', f"<style>\n{style}</style>"),
        (
            '<script type="module" src="main.js"></script>',
            f'<script type="module">\n{modules}\n</script>',
        ),
    ):
        before, after = html.split(tag)
        html = before + inside + after
    return html


def write(path: str | Path) -> Path:
    """Writes the page to a file, e.g. into the folder of a static site.

    Args:
        path: The file to write; its folder must exist.
    """
    path = Path(path)
    files.write_text(path, page())
    return path


def _modules(file: Path, known: dict[Path, str]) -> dict[Path, str]:
    """A module and all it imports, each once and after what it imports.

    Every module becomes a function that is called at once and returns its exports, so that names
    stay private to their module: `const $neuron = (() => { ...; return { ImplicitBias }; })();`
    """
    source = file.read_text(encoding="utf-8")

    def bind(statement: re.Match[str]) -> str:
        names, path = statement.groups()
        needed = (file.parent / path).resolve()
        if needed not in known:
            _modules(needed, known)
        return f"const {names} = {_name(needed)};"

    source = _IMPORT.sub(bind, source)
    exports = ", ".join(_EXPORT.findall(source))
    source = _EXPORT.sub(lambda statement: statement[0].removeprefix("export "), source)
    known[file] = f"const {_name(file)} = (() => {{\n{source}return {{ {exports} }};\n}})();"
    return known


def _name(file: Path) -> str:
    """The variable that holds a module's exports: from its path below the page."""
    return "$" + "$".join(file.relative_to(PAGE.resolve()).with_suffix("").parts)
