"""The accuracy experiments from plan to report on digits, in seconds: artifacts and arithmetic."""

import csv
import json
from pathlib import Path

import pytest

from ibnn.lab.experiments import Settings, collect, execute, get, plan
from ibnn.lab.experiments.accuracy.memorization import decline_begins, gain_with_noise, widening
from ibnn.lab.experiments.everything import jobs
from ibnn.lab.report import write_overview, write_report

SMOKE = Settings(preset="smoke")
NAMES = ("learning-speed", "data-fraction", "expressivity", "memorization")


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """All four trained and reported in one folder."""
    folder = tmp_path_factory.mktemp("accuracy")
    for name in NAMES:
        assert execute(get(name), SMOKE, folder, engine="inline").ok
        write_report(get(name), SMOKE, folder)
    return folder


def rows(root: Path, name: str) -> list[dict[str, str]]:
    with (root / f"{name}-digits" / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", NAMES)
def test_every_report_is_whole(root, name):
    folder = root / f"{name}-digits"
    for picture in (name, "lam"):
        assert (folder / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / f"{picture}.pdf").read_bytes().startswith(b"%PDF")
    page = (folder / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert "learnt from 0 with the weights, kept below the threshold" in page
    assert "the numbers mean nothing" in page
    findings = json.loads((folder / "findings.json").read_text())
    assert findings["missing"] == 0
    # two pairs can never decide anything
    assert {claim["agrees"] for claim in findings["claims"]} == {"not decided"}


def test_experiments_share_their_runs(root):
    # 4 networks in the middle; each sweep adds one value more for 2 neurons and 2 seeds
    assert len(list((root / "runs").iterdir())) == 4 + 3 * 4
    for name in NAMES:
        finished, left = plan(get(name), SMOKE, root)
        assert not left
        assert len(finished) == (4 if name == "learning-speed" else 8)


def test_both_neurons_get_the_same(root):
    axes = {"data-fraction": "fraction", "expressivity": "channels", "memorization": "wrong_labels"}
    for name, value in axes.items():
        twins: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
        for line in rows(root, name):
            twins.setdefault((line[value], line["seed"]), {})[line["neuron"]] = line
        assert len(twins) == 4
        for pair in twins.values():
            standard, implicit = pair["standard"], pair["implicit"]
            assert int(implicit["parameters"]) == int(standard["parameters"]) + 1  # lam
            assert implicit["n_train"] == standard["n_train"]
            assert implicit["epochs"] == standard["epochs"]


def test_learning_speed_lists_every_epoch(root):
    lines = rows(root, "learning-speed")
    assert len(lines) == 2 * 2 * 2
    for first, second in zip(lines[::2], lines[1::2], strict=True):
        mean = (float(first["accuracy"]) + float(second["accuracy"])) / 2
        # of two epochs the running mean is the same at both
        assert float(first["running_mean"]) == pytest.approx(mean, abs=1e-6)
        assert float(second["running_mean"]) == pytest.approx(mean, abs=1e-6)


def test_fractions_are_fractions_of_the_images_used(root):
    sizes = {line["fraction"]: int(line["n_train"]) for line in rows(root, "data-fraction")}
    assert sizes["1.0"] == 256
    # by class, each rounded on its own: at most half an image per class away from the half
    assert abs(sizes["0.5"] - 128) <= 5


def test_the_gain_with_wrong_labels_is_the_difference_of_two_paired_gains(root):
    experiment = get("memorization")
    runs, _ = collect(experiment, SMOKE, root)
    points = experiment.points(SMOKE, runs)

    def gain(value, seed):
        (point,) = [point for point in points if point.value == value]
        best = [group[seed].result.best_accuracy for group in (point.implicit, point.standard)]
        return best[0] - best[1]

    changes = [gain(0.4, seed) - gain(0.0, seed) for seed in (0, 1)]
    assert gain_with_noise(points).mean == pytest.approx(sum(changes) / 2)
    assert widening(points).mean == pytest.approx(sum(changes) / 2 / 0.4)


def test_what_is_lost_after_the_best_epoch_is_in_the_report(root):
    experiment = get("memorization")
    points = experiment.points(SMOKE, collect(experiment, SMOKE, root)[0])
    table = experiment.tables(points)[-1]
    (row,) = [row for row in table.rows if row[:2] == ("40 % wrong", "implicit bias")]
    results = [run.result for run in points[-1].implicit.values()]
    lost = sum(result.best_accuracy - result.accuracy for result in results) / len(results)
    assert row[3] == f"{100 * lost:.1f}"


def test_a_decline_begins_after_the_last_rise():
    assert decline_begins([0.5, 0.6, 0.7]) == 3
    # running means 0.55, 0.5, 0.433, 0.4, 0.35: falls from the first epoch on
    assert decline_begins([0.6, 0.5, 0.4, 0.4, 0.3]) == 1


def test_frozen_lam_goes_on_from_the_learnt_runs(root):
    settings = Settings(preset="smoke", dataset="digits", lam="frozen")
    experiment = get("learning-speed")
    finished, left = plan(experiment, settings, root)
    assert len(finished) == 4
    assert len(left) == 2  # the second trainings
    learnt = {run.config.seed: run.result.lam for run in collect(experiment, SMOKE, root)[0]}
    assert all(not run.learn_lam and [run.lam] == learnt[run.seed] for run in left)


def test_the_overview_has_every_claim(root):
    page = write_overview(root).read_text()
    for name in NAMES:
        findings = json.loads((root / f"{name}-digits" / "findings.json").read_text())
        assert findings["title"] in page
        assert f'href="{name}-digits/report.html"' in page
    assert page.count("data:image/png;base64,") == len(NAMES)
    assert "Left out" not in page
    assert "http:" not in page
    assert "https:" not in page


def test_the_paper_preset_is_the_published_protocol():
    for name, standard in zip(NAMES, (20, 20, 10, 10), strict=True):
        experiment = get(name)
        settings = Settings(preset="paper", dataset="fashion-mnist")
        runs = experiment.plan(settings, {})
        values = len(experiment.values(settings))
        assert len([run for run in runs if run.neuron == "standard"]) == standard * values
        assert len([run for run in runs if run.neuron == "implicit"]) == 5 * values
        assert {(run.epochs, run.n_train, run.hold_out) for run in runs} == {(80, None, 0.0)}
        assert experiment.preset(settings).reduced == ()
    cifar = Settings(preset="paper", dataset="cifar10")
    assert {(r.layers, r.channels) for r in get("learning-speed").plan(cifar, {})} == {(3, 16)}


def test_all_is_every_experiment_on_what_is_here(tmp_path):
    work, left_out = jobs(Settings(preset="smoke"))
    assert [job.title for job in work][:2] == ["boundary on arrows", "learning-speed on digits"]
    assert not left_out
    from ibnn.lab.experiments import ExperimentError

    with pytest.raises(ExperimentError, match="no dataset of the paper is downloaded"):
        jobs(Settings(preset="cpu"), tmp_path)


def test_reports_are_exported_as_markdown_with_figures_and_data(root, tmp_path):
    from ibnn.lab.report.export import export

    pages = export(root, tmp_path)
    assert pages[0] == tmp_path / "README.md"
    assert len(pages) == 1 + len(NAMES)
    for name in NAMES:
        folder = tmp_path / f"{name}-digits"
        assert {file.name for file in folder.iterdir()} == {
            "README.md",
            f"{name}.csv",
            f"{name}.png",
            "findings.json",
            "lam.png",
        }
        page = (folder / "README.md").read_text()
        assert "| The paper says | Measured here | Agrees |" in page
        assert "| **not decided** |" in page
        assert page in {file.read_text() for file in pages[1:]}
        assert f"({name}-digits/README.md)" in pages[0].read_text()


def test_a_report_of_another_version_is_left_out_and_said_to_be(root, tmp_path):
    import shutil

    for name in NAMES[:2]:
        shutil.copytree(root / f"{name}-digits", tmp_path / f"{name}-digits")
    file = tmp_path / "learning-speed-digits" / "findings.json"
    file.write_text(json.dumps({"version": 1}))
    page = write_overview(tmp_path).read_text()
    assert "another version of ibnn wrote them: learning-speed-digits" in page
    assert "data-fraction-digits/report.html" in page


def test_all_experiments_take_the_choices_they_can():
    work, left_out = jobs(Settings(preset="smoke", seeds=1, first_seed=5, channels=2))
    assert left_out == []
    for job in work:
        job.experiment.check(job.settings)
        assert job.settings.first_seed == (5 if job.experiment.takes_seeds else 0)
        assert job.settings.channels == (2 if job.experiment.takes_channels else None)
