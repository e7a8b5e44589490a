"""The page as it ships: one small file that asks for nothing, served by `ibnn playground`."""

import re
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from ibnn.lab import playground
from ibnn.lab.cli import main


def test_the_page_is_one_small_file_that_asks_for_nothing_else():
    page = playground.page()
    assert len(page.encode()) < 300_000
    assert "default-src 'none'" in page
    assert not re.search(r"\bsrc=|href=\"(?!data:)|^import |^export |https?://", page, re.MULTILINE)


def test_every_module_of_the_page_is_in_it():
    page = playground.page()
    for module in playground.PAGE.rglob("*.js"):
        assert module.read_text().splitlines()[0] in page, module.name


@contextmanager
def serving(port=0):
    with playground.server(port) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_the_server_gives_the_page_and_nothing_else():
    with serving() as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
            assert answer.read().decode() == playground.page()
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/../bundle.py")
        refused.value.close()


def test_a_port_that_is_taken_is_refused_only_if_it_was_asked_for():
    with serving() as taken:
        with pytest.raises(OSError, match="in use"):
            playground.server(taken)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ibnn.lab.playground.serve.PORT", taken)
            with playground.server() as other:
                assert other.server_port != taken


def test_the_command_has_help_with_an_example(capsys):
    with pytest.raises(SystemExit) as end:
        main(["playground", "--help"])
    assert end.value.code == 0
    assert "Example: ibnn playground" in capsys.readouterr().out


def test_the_command_refuses_a_folder_that_is_not_there_in_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["playground", "--out", str(tmp_path / "none" / "page.html")])
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("ibnn: No such file or directory: ")


def test_the_command_writes_the_page(tmp_path, capsys):
    target = tmp_path / "page.html"
    with pytest.raises(SystemExit) as end:
        main(["playground", "--out", str(target)])
    assert end.value.code == 0
    assert target.read_text(encoding="utf-8") == playground.page()
    assert capsys.readouterr().out == f"{target}\n"


def test_the_command_opens_a_link_on_its_own_server(monkeypatch, capsys):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)

    def stop(self):
        raise KeyboardInterrupt

    monkeypatch.setattr("http.server.ThreadingHTTPServer.serve_forever", stop)
    with pytest.raises(SystemExit) as end:
        main(["playground", "https://example.org/page.html#lam=0.05&units=4", "--port", "0"])
    assert end.value.code == 0
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#lam=0\.05&units=4", opened[0])
    assert opened[0] in capsys.readouterr().out
