"""Pages over several reports: made from files that may come from anywhere."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ibnn.lab.cli.app import app
from ibnn.lab.experiments import Settings, get
from ibnn.lab.report import ReportError, write_overview
from ibnn.lab.report.entry import read_entries
from ibnn.lab.report.export import export, report_page
from ibnn.lab.report.exported import overview_page
from ibnn.lab.report.page import command

RESULTS = Path(__file__).parents[3] / "docs" / "results"

FINDINGS = {
    "version": 2,
    "experiment": "learning-speed",
    "title": "Learning <script>alert(1)</script> speed",
    "dataset": "<img src=x onerror=alert(1)>",
    "preset": "cpu",
    "lam": None,
    "headline": "<b>Faster</b> [click](javascript:alert(1)) by *much* & more",
    "claims": [{"paper": "<i>a|b</i>", "measured": "`x`\n| y | z |", "agrees": "yes"}],
    "pictures": [{"name": "speed", "caption": "<u>caption</u>"}],
    "tables": [{"title": "<s>T</s>", "columns": ["a|b"], "rows": [["<td>"]]}],
    "settings": [["Data", "<d>"]],
    "reduced": ["<r>"],
    "notes": ["<n>"],
    "runs": 1,
    "missing": 0,
    "seconds": 60.0,
}


def report(root: Path, **changes: object) -> Path:
    """A report folder as 0.1 left it, with some of its findings changed."""
    folder = root / "learning-speed-mine"
    folder.mkdir(parents=True)
    (folder / "experiment.json").write_text("{}")
    (folder / "findings.json").write_text(json.dumps(FINDINGS | changes))
    (folder / "learning-speed.csv").write_text("a\n1\n")
    (folder / "speed.png").write_bytes(b"\x89PNG")
    return folder


def test_text_stays_text_in_markdown(tmp_path):
    report(tmp_path / "results")
    for page in export(tmp_path / "results", tmp_path / "out"):
        text = page.read_text()
        assert not re.search(r"<[a-z/]", text)
        assert "\\[click\\](javascript" in text  # no link
        assert "by \\*much\\* &amp; more" in text
        claims = [line for line in text.splitlines() if "a\\|b&lt;/i&gt;" in line]
        assert claims == ["| &lt;i&gt;a\\|b&lt;/i&gt; | \\`x\\` \\| y \\| z \\| | **yes** |"]


def test_only_the_reports_that_were_asked_for_are_exported(tmp_path):
    report(tmp_path / "results").rename(tmp_path / "results" / "learning-speed-another")
    report(tmp_path / "results")
    export(tmp_path / "results", tmp_path / "out", ["learning-speed-mine"])
    assert [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()] == [
        "learning-speed-mine"
    ]


def test_what_was_exported_before_stays_on_the_page(tmp_path):
    first, second = tmp_path / "results", tmp_path / "later"
    report(first, headline="first")
    export(first, tmp_path / "out")
    report(second, headline="second").rename(second / "learning-speed-another")
    export(second, tmp_path / "out")
    page = (tmp_path / "out" / "README.md").read_text()
    assert page.count("\n## ") == 1
    assert [line for line in page.splitlines() if line in ("first", "second")] == [
        "second",
        "first",
    ]
    report(tmp_path / "again", headline="third")
    export(tmp_path / "again", tmp_path / "out")
    page = (tmp_path / "out" / "README.md").read_text()
    assert "third" in page
    assert "first" not in page


def test_the_page_opens_with_a_line_for_each_report(tmp_path):
    settings = [
        ["Preset", "cpu"],
        ["Data", "mine, 1,000 to 8,000 training and 500 validation examples"],
        ["Training", "20 epochs after 2 of warm-up with standard neurons"],
    ]
    texts = {"title": "Speed", "dataset": "mine", "headline": "Faster: +1.5 epochs. More."}
    report(tmp_path / "results", settings=settings, lam="-0.2", **texts)
    page, *_ = export(tmp_path / "results", tmp_path / "out")
    table = page.read_text().split("\n\n")[2].splitlines()
    assert table[0] == "| Experiment | Dataset | Preset | Epochs | Examples | Headline | Answers |"
    assert table[2:] == [
        "| [Speed](learning-speed-mine/README.md) | mine, lam -0.2 | cpu | 20 | 1,000 to 8,000 "
        "| Faster: +1.5 epochs. More. | 1 yes, 0 no, 0 open |"
    ]


def test_text_stays_text_in_every_column_of_the_page(tmp_path):
    settings = [["Data", "mine, |1|_000_ training and 500 validation examples"]]
    report(tmp_path / "results", preset="c|p|u", settings=settings, headline="At |λ| = 1")
    page, *_ = export(tmp_path / "results", tmp_path / "out")
    line = page.read_text().split("\n\n")[2].splitlines()[2]
    cells = re.split(r"(?<!\\)\|", line)[1:-1]
    assert len(cells) == 7
    assert cells[2:6] == [r" c\|p\|u ", " - ", r" \|1\|\_000\_ ", r" At \|λ\| = 1 "]


def test_what_the_paper_says_and_what_we_ask_are_two_tables(tmp_path):
    claims = [
        {"paper": "said", "measured": "a", "agrees": "yes"},  # as older reports left it
        {"paper": "asked", "measured": "b", "agrees": "not decided", "ours": True},
    ]
    report(tmp_path / "results", claims=claims)
    tables = [
        "| The paper says | Measured here | Agrees |\n| --- | --- | --- |\n| said | a | **yes** |",
        "| Question | Measured here | Answer |\n| --- | --- | --- |\n"
        "| asked | b | **not decided** |",
    ]
    for page in export(tmp_path / "results", tmp_path / "out"):
        assert "\n\n".join(tables) in page.read_text()
    assert "1 yes, 0 no, 1 open" in (tmp_path / "out" / "README.md").read_text()
    html = write_overview(tmp_path / "results").read_text()
    assert html.index("<th>The paper says</th>") < html.index("said")
    assert html.index("said") < html.index("<th>Question</th>") < html.index("asked")


def test_a_report_of_questions_alone_has_no_table_of_the_paper(tmp_path):
    report(tmp_path, claims=[{"paper": "q", "measured": "m", "agrees": "no", "ours": True}])
    pages = [*export(tmp_path, tmp_path / "out"), write_overview(tmp_path)]
    assert not any("The paper says" in page.read_text() for page in pages)


def test_folders_that_are_no_reports_are_passed_over(tmp_path):
    report(tmp_path / "results")
    export(tmp_path / "results", tmp_path / "out")
    (tmp_path / "out" / "notes").mkdir()
    (tmp_path / "out" / "notes" / "README.md").write_text("# Not a report\n")
    assert "Not a report" not in overview_page(tmp_path / "out")


def test_an_export_can_be_exported_again(tmp_path):
    """Nothing a page shows is lost on the way."""
    report(tmp_path / "results")
    first = export(tmp_path / "results", tmp_path / "out")
    second = export(tmp_path / "out", tmp_path / "again")
    assert [page.read_text() for page in first] == [page.read_text() for page in second]


def test_the_results_page_of_the_documents_is_made_from_its_reports():
    assert (RESULTS / "README.md").read_text(encoding="utf-8") == overview_page(RESULTS)


@pytest.mark.parametrize("entry", read_entries(RESULTS)[0], ids=lambda entry: entry.folder)
def test_every_page_of_the_documents_is_made_from_its_findings(entry):
    page = RESULTS / entry.folder / "README.md"
    assert page.read_text(encoding="utf-8") == report_page(entry)


def test_every_folder_of_results_is_a_report():
    found, outdated = read_entries(RESULTS)
    assert not outdated
    assert {entry.folder for entry in found} == {p.name for p in RESULTS.iterdir() if p.is_dir()}


def test_the_command_of_a_report_makes_it_again(tmp_path):
    """Every option that is not as usual is in it, and the command line reads it back."""
    chosen = Settings(
        preset="smoke", dataset="digits", seeds=2, first_seed=3, epochs=1, channels=2, lam="-0.2"
    )
    text = command(get("learning-speed"), chosen)
    program, *words = text.split()
    assert program == "ibnn"
    made = CliRunner().invoke(app, [*words, "--dry-run", "--out", str(tmp_path)])
    assert made.exit_code == 0, made.output
    planned = get("learning-speed").plan(chosen, {})
    assert all(config.identity() in made.output for config in planned)
    assert f"{len(planned)} runs to train" in made.output


def test_text_stays_text_in_the_overview(tmp_path):
    report(tmp_path)
    page = write_overview(tmp_path).read_text()
    assert "<script" not in page
    assert "<img src=x" not in page


@pytest.mark.parametrize("name", ["../secret", "/etc/secret", "..", "a\\b", "", 3, "a/b"])
@pytest.mark.parametrize(
    "act", [write_overview, lambda root: export(root, root.parent / "out")], ids=["page", "export"]
)
def test_only_files_of_the_report_itself_are_read(tmp_path, name, act):
    report(tmp_path / "results", pictures=[{"name": name, "caption": ""}])
    (tmp_path / "results" / "secret.png").write_bytes(b"secret")
    with pytest.raises(ReportError, match="expected the name of a file beside it"):
        act(tmp_path / "results")
    assert not (tmp_path / "out").exists()


def test_a_csv_elsewhere_is_not_copied_either(tmp_path):
    report(tmp_path / "results", experiment="../../secret")
    with pytest.raises(ReportError, match="secret"):
        export(tmp_path / "results", tmp_path / "out")


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2}', "\xff"])
def test_damaged_findings_are_one_line(tmp_path, text):
    (report(tmp_path) / "findings.json").write_text(text, encoding="latin-1")
    with pytest.raises(ReportError, match=r"findings\.json cannot be read") as found:
        write_overview(tmp_path)
    assert "\n" not in str(found.value)


def test_smoke_reports_say_everywhere_that_their_numbers_mean_nothing(tmp_path):
    report(tmp_path / "smoke", preset="smoke")
    report(tmp_path / "real")
    pages = {
        kind: [
            write_overview(tmp_path / kind),
            *export(tmp_path / kind, tmp_path / f"{kind}-exported"),
        ]
        for kind in ("smoke", "real")
    }
    assert all("numbers mean nothing" in page.read_text() for page in pages["smoke"])
    assert not any("numbers mean nothing" in page.read_text() for page in pages["real"])


def test_an_experiment_that_is_not_known_here_is_shown_all_the_same(tmp_path):
    folder = report(tmp_path, experiment="mine", title="My own")
    (folder / "mine.csv").write_text("a\n")
    assert "My own" in write_overview(tmp_path).read_text()
