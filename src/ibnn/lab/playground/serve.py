"""The page over HTTP on this machine alone."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ibnn.lab.playground.bundle import page

PORT = 8617
"""Where the page is served unless told otherwise, so that links to it stay valid."""


def server(port: int | None = None) -> ThreadingHTTPServer:
    """A server of the page on the loopback address; `serve_forever()` runs it.

    Args:
        port: Where to listen; 0 is any free port, None is `PORT`, or any free one if it is taken.
    """
    try:
        return ThreadingHTTPServer(("127.0.0.1", PORT if port is None else port), _Handler)
    except OSError:
        if port is not None:
            raise
        return ThreadingHTTPServer(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    """Answers with the page, and with nothing else."""

    def do_GET(self) -> None:
        if self.path.split("?")[0] not in ("/", "/index.html"):
            self.send_error(404)
            return
        body = page().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are of no interest to the person who opened the page."""
