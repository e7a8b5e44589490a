"""What every page is made of: the templates, figures as bytes, rows as CSV."""

import base64
import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2

DOTS_PER_INCH = 160


def template(name: str) -> jinja2.Template:
    """A template of this package; a name it misses is an error, text is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ibnn.lab.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["kept_together"] = kept_together
    return environment.get_template(name)


def kept_together(text: str) -> str:
    """Numbers stay on one line with their unit: a no-break space before it.

    >>> kept_together("18.0 % (12 to 23)")
    '18.0\\xa0% (12 to 23)'
    """
    return text.replace(" %", "\u00a0%")


def embedded(images: Mapping[str, bytes]) -> dict[str, str]:
    """PNG files as addresses that hold them."""
    return {
        name: "data:image/png;base64," + base64.b64encode(content).decode()
        for name, content in images.items()
        if name.endswith(".png")
    }


def image_bytes(figure: Any, kind: str, **texts: str) -> bytes:
    """A figure as a PNG or PDF file that is the same whenever it is made; `texts` go along in it,
    under their names."""
    buffer = io.BytesIO()
    metadata = {"CreationDate": None} if kind == "pdf" else {"Software": None}
    metadata |= texts
    figure.savefig(buffer, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)
    return buffer.getvalue()


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV, with the columns of all of them."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
