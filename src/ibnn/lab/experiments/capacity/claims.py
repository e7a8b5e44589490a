"""What the searches say about the paper's sentences: computed, and free to come out otherwise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ibnn.lab.experiments.capacity.search import Search
from ibnn.lab.experiments.plane import Condition
from ibnn.lab.experiments.readings import NOT_YET
from ibnn.lab.results import Answer, Claim, Table
from ibnn.lab.stats import UNKNOWN, percent
from ibnn.lab.stats.families import SIGNIFICANT, p_text

SETTLED = (3, 0.2)  # restarts within so many points of the best
MARGIN = 0.005  # a difference of best accuracies that counts
CONVEX = 0.97  # area over hull from which a region counts as convex
RULE = (
    "There are no pairs of seeds here: the best of many restarts is compared. Three units of one "
    f"kind are better when that is higher by more than {100 * MARGIN:g} points and at least "
    f"{SETTLED[0]} restarts of the other kind are within {SETTLED[1]:g} points of its best. A "
    f"region is convex from {CONVEX:g} of the area of its hull. A trend needs a rank correlation "
    f"(Spearman) with p below {SIGNIFICANT:g}, whichever single value is left out. Otherwise a "
    "claim is not decided here."
)


@dataclass(frozen=True)
class Parts:
    """The searches by their place in the figure."""

    standard: Search | None  # three units
    by_lam: Mapping[float, Search]  # at p = 10
    by_slope: Mapping[float, Search]
    by_units: Mapping[int, Search]  # standard

    @property
    def implicit(self) -> Search | None:
        """Three implicit units at the lam with the best training accuracy."""
        return max(self.by_lam.values(), key=lambda search: search.best, default=None)


def headline(parts: Parts) -> str:
    """Best against best, and how many units that is worth."""
    standard, implicit = parts.standard, parts.implicit
    if standard is None or implicit is None:
        return NOT_YET
    return (
        f"Three standard hidden units classify at best {percent(standard.best)} of the training "
        f"points, three implicit ones {percent(implicit.best)} (λ = {implicit.run.config.lam:g}; "
        f"best of {len(implicit.train)} restarts each). {_units_sentence(parts)}"
    )


def claims(parts: Parts) -> list[Claim]:
    """The paper's statements about its figure, and how many standard units are equivalent."""
    return [
        expressive(parts),
        non_convex(parts),
        trend(
            "The boundary becomes more curved as the magnitude of λ increases.",
            {abs(lam): search for lam, search in parts.by_lam.items() if lam < 0},
            "|λ|",
            "more",
        ),
        trend(
            "p controls how sharp the transitions between the arcs of the boundary are: the "
            "larger, the sharper.",
            parts.by_slope,
            "p",
            "less",
        ),
        Claim(
            "Three implicit units are worth more than three standard ones.",
            _units_sentence(parts),
            _units_answer(parts),
            ours=True,
        ),
    ]


def settled(search: Search) -> bool:
    """Whether several restarts agree on the best."""
    count, points = SETTLED
    return search.near(points) >= count


def expressive(parts: Parts) -> Claim:
    """Yes when an implicit network is better than a settled standard best, no when the other way
    round."""
    question = "The implicit-bias network is more expressive than the standard one."
    standard, implicit = parts.standard, parts.implicit
    if standard is None or implicit is None:
        return Claim(question, f"{UNKNOWN.capitalize()}.", "not decided")
    answer: Answer = "not decided"
    if implicit.best > standard.best + MARGIN and settled(standard):
        answer = "yes"
    elif implicit.best < standard.best - MARGIN and settled(implicit):
        answer = "no"
    text = (
        f"Best training accuracy of three units: standard {_best(standard)}, implicit "
        f"{_best(implicit)} at λ = {implicit.run.config.lam:g}; medians "
        f"{percent(standard.median)} and {percent(implicit.median)}."
    )
    return Claim(question, text, answer)


def non_convex(parts: Parts) -> Claim:
    """Yes when the implicit region is not convex and the standard one is."""
    question = (
        "It approximates the non-convex boundary; the standard network only produces a convex "
        "polygon."
    )
    standard, implicit = (s.solidity() if s else None for s in (parts.standard, parts.implicit))
    if standard is None or implicit is None:
        return Claim(question, f"{UNKNOWN.capitalize()}.", "not decided")
    text = (
        f"Area of the inner region over that of its convex hull (1 is convex), best networks: "
        f"standard {standard:.2f}, implicit {implicit:.2f}."
    )
    return Claim(question, text, "yes" if implicit < CONVEX <= standard else "no")


def trend(question: str, searches: Mapping[float, Search], name: str, expected: str) -> Claim:
    """Whether the best networks bend more (or less) with something: Spearman's rank test, which
    must hold whichever single value is left out."""
    bends = {value: s.curved() for value, s in sorted(searches.items())}
    pairs = [(value, bend) for value, found in bends.items() for bend in found]
    values = sorted({value for value, _ in pairs})
    if len(values) < 3:
        return Claim(question, f"{UNKNOWN.capitalize()}.", "not decided")
    rho, p = rank_correlation(pairs)
    wanted = 1 if expected == "more" else -1
    parts = [f"{value:g}: {fmean(found):.2f}" for value, found in bends.items() if found]
    text = (
        f"Fraction of the boundary that bends, mean of the best networks of each {name}: "
        f"{', '.join(parts)}; rank correlation {rho:+.2f}, p {p_text(p)} ({len(pairs)} networks)."
    )
    answer: Answer = "not decided"
    if p < SIGNIFICANT:
        without = [
            rank_correlation([pair for pair in pairs if pair[0] != value]) for value in values
        ]
        if all(p < SIGNIFICANT and other * rho > 0 for other, p in without):
            answer = "yes" if rho * wanted > 0 else "no"
        else:
            text += f" It rests on a single {name}: without that one it is not decided."
    return Claim(question, text, answer)


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Spearman's rho and its p; (0, 1) where nothing varies.

    >>> rank_correlation([(1, 0.1), (2, 0.2), (3, 0.3)])[0]
    1.0
    """
    from scipy.stats import spearmanr

    if min(len({pair[k] for pair in pairs}) for k in (0, 1)) < 2:
        return 0.0, 1.0
    ranked: Any = spearmanr([value for value, _ in pairs], [bend for _, bend in pairs])
    return float(round(ranked.statistic, 12)), float(ranked.pvalue)


def units_needed(parts: Parts) -> int | None:
    """The fewest standard units whose best matches three implicit ones; None if none does."""
    implicit = parts.implicit
    if implicit is None:
        return None
    enough = [units for units, s in parts.by_units.items() if s.best >= implicit.best]
    return min(enough, default=None)


def _units_sentence(parts: Parts) -> str:
    if parts.implicit is None or not parts.by_units:
        return "How many standard units match three implicit ones is not known yet."
    listed = ", ".join(f"{u}: {percent(s.best)}" for u, s in sorted(parts.by_units.items()))
    needed = units_needed(parts)
    most = max(parts.by_units)
    match = f"{needed} standard units match" if needed else f"not even {most} standard units match"
    return f"By best training accuracy {match} three implicit ones (standard units, {listed})."


def _units_answer(parts: Parts) -> Answer:
    if parts.implicit is None or not parts.by_units:
        return "not decided"
    needed = units_needed(parts)
    return "no" if needed is not None and needed <= 3 else expressive(parts).agrees


def table(searches: Mapping[Condition, Search]) -> Table:
    rows = []
    for condition, search in searches.items():
        shape, bends = search.solidity(), search.curved()
        units = f", {condition.hidden} units" if condition.lam is None else ""
        rows.append(
            {
                "Network": condition.label + units,
                "Best": percent(search.best),
                f"Within {SETTLED[1]:g} points": str(search.near(SETTLED[1])),
                "Its validation": percent(search.kept[0]["validation"]),
                "Median": percent(search.median),
                "SGD": percent(search.run.result.train_accuracy),
                "Area / hull": "none" if shape is None else f"{shape:.2f}",
                "Bends": f"{fmean(bends):.2f}" if bends else "none",
            }
        )
    return Table.of("Every setting: training accuracy over restarts", rows)


def footnote(parts: Parts) -> str:
    """Restarts and points used."""
    some = parts.standard or parts.implicit
    if some is None:
        return ""
    return f"{len(some.train)} restarts of each network, {some.run.result.n_train:,} points"


def _best(search: Search) -> str:
    count = search.near(SETTLED[1])
    return f"{percent(search.best)} ({count} of {len(search.train)} within {SETTLED[1]:g} points)"
