"""What each option does, by its numbers, and the figure: every judgment is computed."""

from collections.abc import Sequence
from statistics import median

from matplotlib.figure import Figure

from ibnn.lab.experiments.open_ends.arms import ARMS, FREE, IMPLICIT, OPTIONS, STANDARD
from ibnn.lab.experiments.open_ends.record import Record, Records
from ibnn.lab.experiments.readings import medians
from ibnn.lab.plotting import style
from ibnn.lab.plotting.intervals import draw_intervals
from ibnn.lab.results import Claim, Table
from ibnn.lab.stats import percent, spread
from ibnn.lab.stats.families import EQUIVALENT, Judged, judge

Family = dict[str, Judged]


def family(records: Records, arms: Sequence[str]) -> Family:
    """Each option among these arms minus the arm it changes, as one family."""
    options = [name for name in OPTIONS if name in arms]
    return judge({name: records.gain(name, str(ARMS[name].against)) for name in options})


def claims(records: Records, found: Family) -> list[Claim]:
    """The gain these options start from, then each of them."""
    gain = judge({IMPLICIT: records.gain(IMPLICIT, STANDARD)})[IMPLICIT]
    made = [
        gain.claim(
            "(Where they start) The learnt implicit bias is more accurate than the standard one.",
            "Best accuracy, implicit minus standard",
        )
    ]
    for name, judged in found.items():
        against = ARMS[name].against
        question = f"{name.capitalize()}: more accurate than {against}."
        made.append(judged.claim(question, f"{name} minus {against}"))
    return [*made, passes(records)]


def passes(records: Records) -> Claim:
    """Whether a lam that is free leaves the range in which solutions are proven unique."""
    question = "A lam that is free passes the threshold of uniqueness, 1/p."
    networks = records.of(FREE)
    if not networks:
        return Claim(question, "Not known yet.", "not decided")
    above = sum(_above(record) for record in networks)
    answer = "yes" if above == len(networks) else "no" if above == 0 else "not decided"
    largest = max(max(record.lam) for record in networks)
    measured = (
        f"In {above} of {len(networks)} networks the lam of a layer ends above it; the largest is "
        f"{largest:.3f}. Rows left unsolved: at most "
        f"{100 * max(record.unsolved for record in networks):.2g} %."
    )
    return Claim(question, measured, answer)


def _above(record: Record) -> bool:
    return any(lam * slope > 1 for lam, slope in zip(record.lam, record.slope, strict=True))


def headline(found: Family) -> str:
    """Which options help, which harm, and which are not decided."""
    if all(judged.difference is None for judged in found.values()):
        return "Not known yet."
    parts = [
        f"{word}: {', '.join(names)}"
        for word, names in (
            ("better than what they change", _with(found, "better")),
            ("worse", _with(found, "worse")),
            ("equivalent", _with(found, "equivalent")),
            ("not decided", _with(found, "not decided")),
        )
        if names
    ]
    return f"Of the {len(found)} options, {'; '.join(parts)}."


def _with(found: dict[str, Judged], decision: str) -> list[str]:
    return [name for name, judged in found.items() if judged.decision == decision]


def table(records: Records, judged: Family) -> Table:
    """Every arm in numbers."""
    rows = []
    for arm in records.arms():
        group = records.of(arm)
        over = records.gain(arm, STANDARD) if arm != STANDARD else None
        rows.append(
            {
                "Arm": arm,
                "Networks": str(len(group)),
                "Best epoch": spread([record.best for record in group]),
                "Last epoch": percent(median(record.curve[-1] for record in group)),
                "Minus standard": over.short() if over else "",
                "Minus what it changes": judged[arm].text() if arm in judged else "",
                "It is": judged[arm].decision if arm in judged else "",
            }
        )
    return Table.of("Accuracy: median (range); differences: mean (95 % interval)", rows)


def learnt_table(records: Records) -> Table:
    """Where lam, slope and extent went, and how the equations were solved."""
    rows = []
    for arm in records.arms():
        group = records.of(arm)
        if not group[0].lam:
            continue
        rows.append(
            {
                "Arm": arm,
                "lam": medians((record.lam for record in group), ".3g"),
                "slope": medians((record.slope for record in group), ".3g"),
                "extent, pixels": medians((record.extent for record in group), ".3g"),
                "Rows unsolved, at most": f"{100 * max(r.unsolved for r in group):.2g} %",
                "Training, s": f"{median(record.seconds for record in group):.0f}",
            }
        )
    return Table.of("What was learnt, medians of each layer (lam per channel: its mean)", rows)


def draw(records: Records, note: str) -> Figure:
    """Two columns of intervals."""
    arms = [name for name in ARMS if records.of(name) and name != STANDARD]
    over = {arm: records.gain(arm, STANDARD) for arm in arms}
    changed = {
        f"{name} - {ARMS[name].against}": records.gain(name, str(ARMS[name].against))
        for name in OPTIONS
        if records.of(name)
    }
    title = "The paper's open ends: best accuracy of networks of equal seeds"
    figure, (first, second) = style.figure(2, width=9.6, height=1.9 + 0.32 * len(arms), title=title)
    colors = {IMPLICIT: style.IMPLICIT}
    draw_intervals(first, over, "arm minus standard, points", colors)
    draw_intervals(second, changed, "option minus what it changes, points", colors)
    second.axvspan(-100 * EQUIVALENT, 100 * EQUIVALENT, color=style.QUIET, alpha=0.15, linewidth=0)
    style.footnote(figure, note)
    return figure
