"""`ibnn convert` and `ibnn analyze` from the command line: files that are read back, one page."""

import html
import json
import re
from copy import copy

import pytest
import torch

import ibnn
from ibnn.lab.cli import main
from ibnn.lab.data import load
from ibnn.lab.results import Claim
from ibnn.lab.theory_checks import (
    DoesNotApply,
    Section,
    context_for,
    register_check,
    registry,
    run_checks,
)
from ibnn.lab.training import RunConfig, all_runs, load_network, open_network, train

SETTINGS = {
    "dataset": "digits",
    "n_train": 300,
    "n_test": 100,
    "channels": 2,
    "epochs": 1,
    "warmup_epochs": 1,
    "initialisation": "torch",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A standard run: (its folder)."""
    root = tmp_path_factory.mktemp("results")
    train(RunConfig(**SETTINGS), root)
    return all_runs(root)[0].path


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    """Run a command in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(line):
        with pytest.raises(SystemExit) as end:
            main(line.split())
        return (end.value.code, *capsys.readouterr())

    return run


def test_a_converted_network_is_the_one_convert_makes(call, trained, tmp_path):
    code, out, err = call(
        f"convert {trained} --lam -0.3 --slope 5 --sigma erf --out new.safetensors"
    )
    assert (code, err) == (0, "")
    assert "converted to lam -0.3" in out
    network = load_network(tmp_path / "new.safetensors")
    expected = ibnn.convert(load_network(trained), -0.3, slope=5.0, sigma="erf").eval()
    x = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(network(x), expected(x), rtol=0, atol=0)
    assert not torch.equal(network(x), load_network(trained)(x))
    assert open_network(tmp_path / "new.safetensors").config.dataset == "digits"


def test_the_way_back_is_the_standard_network(call, trained, tmp_path):
    assert call(f"convert {trained} --lam -0.3 --out there.safetensors")[0] == 0
    assert call("convert there.safetensors --standard --out back.safetensors")[0] == 0
    x = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(load_network(tmp_path / "back.safetensors")(x), load_network(trained)(x))


def test_recalibration_changes_batch_norms_only(call, trained, tmp_path):
    assert call(f"convert {trained} --out plain.safetensors")[0] == 0
    assert call(f"convert {trained} --recalibrate 128 --out fresh.safetensors")[0] == 0
    plain = load_network(tmp_path / "plain.safetensors").state_dict()
    fresh = load_network(tmp_path / "fresh.safetensors").state_dict()
    changed = {name for name in plain if not torch.equal(plain[name], fresh[name])}
    assert changed
    assert all("running" in name or "num_batches" in name for name in changed)


def test_a_damaged_file_is_refused(call, trained, tmp_path):
    call(f"convert {trained} --out new.safetensors")
    file = tmp_path / "new.safetensors"
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    code, _, err = call("analyze new.safetensors")
    assert code == 2
    assert "its checksum does not fit" in err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("analyze RUN", "is a standard network; --lam -0.1 converts it"),
        ("analyze RUN --lam -0.1 --sections soltions", "'soltions' is not known, expected one of"),
        ("analyze RUN --lam -0.1 --dataset arrows", "the network expects (1, 8, 8)"),
        ("analyze RUN --lam -0.1 --images 1", "images is 1, expected at least 2"),
        ("analyze RUN --lam -0.1 --images 0", "images is 0, expected at least 2"),
        ("analyze nowhere --lam -0.1", "nowhere does not exist, expected a run's folder"),
        ("convert RUN --sigma tan --out x.safetensors", "sigma='tan' is not known"),
        ("convert RUN --recalibrate -1 --out x.safetensors", "--recalibrate is -1"),
    ],
)
def test_what_cannot_be_done_is_one_line(call, trained, line, words):
    code, _, err = call(line.replace("RUN", str(trained)))
    assert code == 2
    assert err.count("\n") == 1
    assert words in err


def test_an_implicit_network_is_not_converted_again(call, trained):
    call(f"convert {trained} --out new.safetensors")
    code, _, err = call("convert new.safetensors --out again.safetensors")
    assert code == 2
    assert "nothing to convert" in err


def test_both_commands_have_help_with_an_example(call):
    for command in ("analyze", "convert"):
        code, out, _ = call(f"{command} --help")
        assert code == 0
        assert f"Example: ibnn {command}" in out


@pytest.mark.parametrize("chosen", ["", "--float64 --sections jacobians"])
def test_one_page_with_everything_in_it(call, trained, tmp_path, chosen):
    code, out, _ = call(f"analyze {trained} --lam -0.1 --quick --images 8 --out page {chosen}")
    sections = chosen.split()[-1].split(",") if chosen else list(registry.names())
    assert code == 0
    assert "report: page/report.html" in out
    folder = tmp_path / "page"
    page = (folder / "report.html").read_text()
    numbers = json.loads((folder / "analysis.json").read_text())
    assert list(numbers["sections"]) == sections
    assert not numbers["failed"]
    assert not numbers["skipped"]
    assert "drawn at random" not in page  # rows of 64 units are looked at whole
    assert ("float64" in page) == ("--float64" in chosen)
    for name, section in numbers["sections"].items():
        assert f'<section id="{name}">' in page
        assert (folder / f"{name}.csv").read_text().count("\n") == len(section["rows"]) + 1
        told = [claim[part] for claim in section["claims"] for part in ("paper", "measured")]
        # a number and its per cent sign stay on one line of the page
        shown = html.unescape(page).replace("\u00a0", " ")
        assert all(line in shown for line in (*told, *section["notes"]))
    pictures = sorted(file.name for file in folder.glob("*.png"))
    assert page.count("data:image/png;base64,") == len(pictures) >= 2 * len(sections) - 1
    # nothing is fetched: no address but those of the files beside it
    assert not re.search(r'(src|href)="https?:', page)


def test_a_section_that_fails_leaves_the_others(call, trained, monkeypatch, tmp_path):
    def broken(context, progress):
        raise ArithmeticError("no luck")

    def other(context, progress):
        return Section(name="transfer", title="Fine", claims=[], rows=[{"a": float("inf")}])

    def unfit(context, progress):
        raise DoesNotApply("not for digits")

    chosen = {"solutions": broken, "jacobians": unfit, "transfer": other}
    monkeypatch.setattr("ibnn.lab.theory_checks.registry.load", chosen.__getitem__)
    code, out, err = call(f"analyze {trained} --lam -0.1 --sections {','.join(chosen)} --out page")
    assert code == 1
    assert "solutions (ArithmeticError: no luck)" in err
    assert "jacobians: not measured, not for digits" in out
    numbers = json.loads((tmp_path / "page" / "analysis.json").read_text())
    assert numbers["sections"]["transfer"]["rows"] == [{"a": None}]
    assert "no luck" in numbers["failed"]["solutions"]
    assert "not for digits" in (tmp_path / "page" / "report.html").read_text()


def test_the_sample_is_of_the_training_data_and_follows_the_seed(trained):
    network, digits = ibnn.convert(load_network(trained)), load("digits")
    first, same, other = (
        context_for(network, digits, images=20, seed=seed, quick=True) for seed in (0, 0, 1)
    )
    assert torch.equal(first.x, same.x)
    assert not torch.equal(first.x, other.x)
    known = {bytes(image.numpy().tobytes()) for image in digits.x_train}
    for image in (first.x * 255).round().to(torch.uint8):
        assert image.numpy().tobytes() in known


@pytest.mark.parametrize("name", registry.names())
def test_every_section_of_the_registry_is_there(name):
    assert callable(registry.load(name))


@pytest.fixture
def brightness(monkeypatch):
    """A check from outside the package: one function and one line."""

    def section(context, progress):
        mean = float(context.x.mean())
        answer = "yes" if mean < 0.5 else "no"
        claim = Claim("Images are dark.", f"Their mean is {mean:.2f}.", answer)
        return Section(name="brightness", title="Brightness", claims=[claim], rows=[{"mean": mean}])

    monkeypatch.setattr(registry, "_CHECKS", copy(registry._CHECKS))  # taken out again afterwards
    register_check("brightness", section)


def test_a_check_from_outside_is_a_section_of_the_page(call, trained, tmp_path, brightness):
    code, _, _ = call(f"analyze {trained} --lam -0.1 --sections brightness --out page")
    assert code == 0
    page = (tmp_path / "page" / "report.html").read_text()
    assert '<section id="brightness">' in page
    assert "Images are dark." in page
    assert (tmp_path / "page" / "brightness.csv").read_text().startswith("mean\n0.")
    with pytest.raises(ValueError, match="check 'brightness' is registered already"):
        register_check("brightness", lambda context, progress: None)


def test_nothing_asked_for_is_nothing_done(trained):
    network, digits = ibnn.convert(load_network(trained)), load("digits")
    context = context_for(network, digits, images=4, seed=0, quick=True)
    assert run_checks(context, []).sections == []
