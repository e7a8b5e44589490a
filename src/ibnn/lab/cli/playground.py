"""`ibnn playground`: the page that trains both networks side by side, in the browser."""

from pathlib import Path
from typing import Annotated

import typer

from ibnn.lab.cli.choices import refuse_folder
from ibnn.lab.cli.errors import Debug


def playground(
    link: Annotated[
        str, typer.Argument(help="A link copied from the page: opens with its settings.")
    ] = "",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0 is any free one.")
    ] = None,
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--no-browser", help="Open it in a browser, or only print the address."
        ),
    ] = True,
    out: Annotated[
        Path | None, typer.Option(help="Write the page to this HTML file instead; needs no server.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Train a standard and an implicit network side by side in the browser.

    The page is served on this machine only, until Ctrl-C.
    """
    import webbrowser

    from ibnn.lab import playground as page

    if out is not None:
        if link or port is not None:
            raise typer.BadParameter(
                "--out writes the page to a file: expected no link and no port"
            )
        refuse_folder(out)
        typer.echo(page.write(out))
        return
    with page.server(port) as server:
        settings = link.partition("#")[2] if "#" in link else link
        address = f"http://127.0.0.1:{server.server_port}/" + (f"#{settings}" if settings else "")
        try:  # from the first word on, Ctrl-C is how it ends
            typer.echo(f"{address}  (Ctrl-C ends it)")
            if browser:
                webbrowser.open(address)
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("")
