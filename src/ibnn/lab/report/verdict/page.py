"""The tables of the verdict's pages, written between markers; the text around them is not ours.

A marker is `<!-- table: NAME -->` before a table and `<!-- end -->` after it.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ibnn.lab.experiments import Settings
from ibnn.lab.experiments.controls import claims as control_claims
from ibnn.lab.experiments.controls.arms import IMPLICIT, NEGATIVE
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.experiments.controls.tables import accuracy_table
from ibnn.lab.experiments.controls.tuned import ControlsTuned
from ibnn.lab.experiments.controls.variant import ControlsTorch
from ibnn.lab.experiments.open_ends import claims as open_claims
from ibnn.lab.experiments.open_ends.experiment import OpenEnds
from ibnn.lab.experiments.open_ends.record import Record as OpenRecord
from ibnn.lab.experiments.open_ends.record import Records as OpenRecords
from ibnn.lab.experiments.overfitting import claims as noisy_claims
from ibnn.lab.experiments.overfitting.record import Record as NoisyRecord
from ibnn.lab.experiments.overfitting.record import Records as NoisyRecords
from ibnn.lab.experiments.pareto import Pareto
from ibnn.lab.experiments.registry import names
from ibnn.lab.experiments.robustness.adversarial_training import AdversarialTraining
from ibnn.lab.experiments.robustness.suite import AttackSuite
from ibnn.lab.experiments.robustness.suite_claims import SuiteRecord
from ibnn.lab.report.verdict.effects import REDUCED, claim_rows
from ibnn.lab.report.verdict.source import DATASETS, NAMES, Row, Source, Sources
from ibnn.lab.results import Claim
from ibnn.lab.stats import paired, percent

PAGES = "verdict*.md"
_MARKED = re.compile(r"(<!-- table: ([a-z-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_ANSWERS = ("where", "question", "answer", "numbers")


def refresh(page: str, results: Path) -> str:
    """The page with every marked table made again from the CSV files.

    Raises:
        ValueError: a marker names a table that does not exist.
    """
    sources = Sources(results)

    def table(match: re.Match[str]) -> str:
        name = match[2]
        if name not in TABLES:
            raise ValueError(f"table is {name!r}, expected one of {', '.join(TABLES)}")
        return f"{match[1]}\n{TABLES[name](sources)}\n\n{match[4]}"

    return _MARKED.sub(table, page)


def claims_table(sources: Sources) -> str:
    """Claim by claim, dataset by dataset."""
    return markdown(
        ["the implicit-bias network is / does", *(NAMES[name] for name in DATASETS)],
        claim_rows(sources, DATASETS),
    )


def controls_table(sources: Sources) -> str:
    """What the controls say, for every dataset that has them; of the variants also whether the
    gain of the published settings remains."""
    rows = []
    for experiment, answers in _CONTROLS.items():
        for dataset in DATASETS:
            published = _records(sources.get("controls", dataset))
            for source in sources.each(experiment, dataset):
                where, records = _where(source, experiment), _records(source)
                rows += [[where, *_cells(claim)] for claim in answers(records, published)]
    return markdown(_ANSWERS, rows) if rows else "No run of the controls has finished."


def _published(records: Records, _: Records) -> list[Claim]:
    accuracy = control_claims.accuracy_claims(records)[:2]
    learnt, *negative = control_claims.robust_claims(records)
    attacked = [learnt] if any(record.attacked for record in records) else []
    return [*accuracy, *attacked, *(negative if records.of(NEGATIVE) else ())]


def _variant(change: str) -> Callable[[Records, Records], list[Claim]]:
    def answers(records: Records, published: Records) -> list[Claim]:
        remains = control_claims.remains(published, records, change)
        return [remains, *control_claims.accuracy_claims(records)[:2]]

    return answers


_CONTROLS = {
    "controls": _published,
    **{kind.name: _variant(kind.change) for kind in (ControlsTorch, ControlsTuned)},
}


def instead_table(sources: Sources) -> str:
    """What simpler maps keep of the gain, wherever a gain in full is shown."""
    shown = [
        (heading, _records(source))
        for experiment, dataset, heading in _SETTINGS
        for source in _judged_in_full(sources.each(experiment, dataset))
    ]
    rows = [
        [name, *(_kept(records, arm) for _, records in shown)] for arm, name in _INSTEAD.items()
    ]
    return markdown(["in place of the solve", *(heading for heading, _ in shown)], rows)


def _judged_in_full(found: Sequence[Source]) -> Sequence[Source]:
    """The one in full that counts: that of fresh pairs, where there are any; perhaps none."""
    return [source for source in found if source.entry.is_full][-1:]


_SETTINGS = (
    ("controls", "svhn-resplit", "SVHN re-split"),
    (ControlsTuned.name, "svhn-resplit", "... tuned learning rates"),
    (ControlsTorch.name, "svhn-resplit", "... PyTorch's initialization"),
    ("controls", "fashion-mnist", "Fashion-MNIST"),
)
_INSTEAD = {
    "lite": "one explicit step, `z = y - lam B(y)`",
    "mean-field": "tanh of the difference from the mean",
    "gain": "a linear gain about the mean",
    "instance-norm": "instance normalization",
}


def _kept(records: Records, arm: str) -> str:
    fraction = control_claims.kept(records, arm)
    ahead = paired(records.best(IMPLICIT), records.best(arm))
    if fraction is None or ahead is None:
        return "not run"
    return f"{100 * fraction:.0f} %; {ahead.short()}"


def _records(source: Source | None) -> Records:
    """The networks of the controls; none where they were not run."""
    return Records.from_rows(source.rows if source else ())


@dataclass(frozen=True)
class JudgedExperiment:
    """An experiment whose CSV is judged row by row: how it is read, and what is said of it."""

    name: str
    record: Callable[[Row], Any]  # of one row
    records: Callable[[Iterable[Any]], Any]
    claims: Callable[[Settings, Any], Sequence[Claim]]


def judged_table(what: str, *experiments: JudgedExperiment) -> Callable[[Sources], str]:
    """The questions of these experiments for every dataset that has them."""

    def table(sources: Sources) -> str:
        rows = []
        for experiment in experiments:
            for dataset in NAMES:
                source = sources.get(experiment.name, dataset)
                if source is not None:
                    records = experiment.records(map(experiment.record, source.rows))
                    where = _where(source, experiment.name if len(experiments) > 1 else "")
                    said = experiment.claims(Settings(dataset=dataset), records)
                    rows += [[where, *_cells(claim)] for claim in said]
        return markdown(_ANSWERS, rows) if rows else f"No run of {what} has finished."

    return table


def _where(source: Source, experiment: str) -> str:
    """Dataset and experiment, what is unusual, marked where they were not trained in full."""
    entry = source.entry
    fewer = f"{entry.epochs} epochs" if entry.completeness == 1 else ""
    parts = (NAMES[source.dataset], experiment, *entry.unusual, fewer)
    named = ", ".join(part for part in parts if part)
    return named if entry.is_full else f"{named} {REDUCED}"


def arms_table(sources: Sources) -> str:
    """Every arm of the controls, with the published settings and with others."""
    parts = []
    for experiment in _CONTROLS:
        for dataset in DATASETS:
            for source in sources.each(experiment, dataset):
                table = accuracy_table(_records(source))
                title = f"**{_where(source, experiment)}**"
                parts.append(f"{title}\n\n{markdown(table.columns, table.rows)}")
    return "\n\n".join(parts) or "No run of the controls has finished."


def pareto_table(sources: Sources) -> str:
    """For every dataset the answer, then its arms in numbers."""
    parts, experiment = [], Pareto()
    for dataset in DATASETS:
        source = sources.get(experiment.name, dataset)
        if source is not None:
            settings, records = Settings(dataset=dataset), _records(source)
            claim, *_ = experiment.claims(settings, records)
            (table,) = experiment.tables(settings, records)
            answer = f"{claim.paper} **{claim.agrees.capitalize()}.** {claim.measured}"
            rows = markdown(table.columns, table.rows)
            parts.append(f"**{_where(source, '')}**: {answer}\n\n{rows}")
    return "\n\n".join(parts) or "No run of the map of accuracy and robustness has finished."


def capacity_table(sources: Sources) -> str:
    """Training accuracy over restarts of every network of the boundary figure."""
    source = sources.get("capacity", "arrows")
    if source is None:
        return "The search has not been run."
    groups: dict[str, list[float]] = {}
    for row in source.rows:
        neuron = f"lam = {float(row['lam']):g}, slope {float(row['slope']):g}" if row["lam"] else ""
        name = f"{row['hidden']} units, {neuron or 'standard'}"
        groups.setdefault(name, []).append(float(row["train_accuracy"]))
    rows = [
        [
            name,
            percent(max(values)),
            f"{sum(v >= max(values) - 0.002 for v in values)} of {len(values)}",
            percent(median(values)),
        ]
        for name, values in groups.items()
    ]
    return markdown(["network", "best of the restarts", "within 0.2 points", "median"], rows)


def coverage_table(sources: Sources) -> str:
    """What was trained in full, what reduced, and what not at all."""
    rows = []
    for name in names():
        cells = ["; ".join(map(_extent, sources.each(name, dataset))) for dataset in DATASETS]
        rows += [[f"`{name}`", *(cell or "-" for cell in cells)]] if any(cells) else []
    return markdown(["experiment", *(NAMES[name] for name in DATASETS)], rows)


def _extent(source: Source) -> str:
    entry = source.entry
    link = f"(results/{entry.folder}/README.md)"
    text = f"[**in full**]{link}, {source.networks}" if entry.is_full else f"[{source.scope}]{link}"
    return ", ".join((text, *entry.unusual))


def sources_table(sources: Sources) -> str:
    """Where each number comes from: the file, how much was trained, the command."""
    rows = [
        [
            f"[{source.entry.folder}](results/{source.entry.folder}/README.md)",
            source.scope,
            f"`{source.entry.findings['command']}`",
        ]
        for source in sources.all()
    ]
    return markdown(["file", "trained", "command"], rows)


def _open_claims(settings: Settings, records: OpenRecords) -> Sequence[Claim]:
    family = open_claims.family(records, OpenEnds().arms(settings))
    return open_claims.claims(records, family)


TABLES: dict[str, Callable[[Sources], str]] = {
    "claims": claims_table,
    "instead": instead_table,
    "controls": controls_table,
    "arms": arms_table,
    "robustness": judged_table(
        "the attack suite",
        JudgedExperiment("attack-suite", SuiteRecord.from_row, Records, AttackSuite().claims),
        JudgedExperiment(
            "adversarial-training", SuiteRecord.from_row, Records, AdversarialTraining().claims
        ),
    ),
    "pareto": pareto_table,
    "overfitting": judged_table(
        "overfitting",
        JudgedExperiment(
            "overfitting",
            NoisyRecord.from_row,
            NoisyRecords,
            lambda settings, records: noisy_claims.claims(records),
        ),
    ),
    "capacity": capacity_table,
    "open-ends": judged_table(
        "the open ends",
        JudgedExperiment("open-ends", OpenRecord.from_row, OpenRecords, _open_claims),
    ),
    "coverage": coverage_table,
    "sources": sources_table,
}


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cells(claim: Claim) -> list[str]:
    return [claim.paper, f"**{claim.agrees}**", claim.measured]
