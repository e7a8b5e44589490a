"""What the measurements say about Jacobians: claims, notes, tables, rows."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ibnn.lab.results import Answer, Claim, Table
from ibnn.lab.stats import decide, paired, percent
from ibnn.lab.theory_checks.jacobians.norms import Factor, product
from ibnn.lab.theory_checks.jacobians.ratios import (
    ALONE,
    NETWORK,
    OWN_MASKS,
    ROUNDING,
    SAME_MASK,
    Ratios,
)

Norms = dict[str, dict[str, Tensor]]  # of each network, of each kind, one per image
_NO_NEGATIVE, _POSITIVE = "No layer has λ ≤ 0.", "Some layer has λ > 0."


class Spectrum(NamedTuple):
    """Eigenvalues of K_inf of one layer, (rows, units), their closed bounds, its largest lam."""

    layer: str
    values: Tensor
    bounds: tuple[float, float]
    lam: float


def claims(
    spectra: Sequence[Spectrum],
    firm: Mapping[str, float],
    ratios: Sequence[Ratios],
    norms: Norms,
) -> list[Claim]:
    """The paper's statements about sensitivity. `firm` is the lowest <dz, dy> / |dz|^2 by layer."""
    return [
        _compression(spectra),
        _proximal(spectra, firm, ratios),
        *(
            _inequality(f"{of}: |D IBNN dx| ≤ |D SM dx| for λ ≤ 0{when}.", what, spectra, ratios)
            for what, of, when in (
                (SAME_MASK, "Layer with ReLU", ", where both neurons have the same units on"),
                (OWN_MASKS, "Layer with ReLU", ", also between two inputs far apart"),
                (NETWORK, "Whole network", ""),
            )
        ),
        _less_sensitive(spectra, norms),
    ]


def _compression(spectra: Sequence[Spectrum]) -> Claim:
    low, high = _ends(spectra)
    measured = f"Eigenvalues at these inputs: {low:.3f} to {high:.3f}"
    negative = [s for s in spectra if s.lam <= 0]
    agrees: Answer = "not decided"
    if not negative:
        measured += "; no layer has λ ≤ 0"
    else:
        low, high = _ends(negative)
        if len(negative) < len(spectra):
            measured += f"; {low:.3f} to {high:.3f} in the layers with λ ≤ 0"
        tolerance = ROUNDING[negative[0].values.dtype]
        agrees = "yes" if low > 0 and high <= 1 + tolerance else "no"
    return Claim("For λ ≤ 0 every eigenvalue of K_inf lies in (0, 1].", f"{measured}.", agrees)


def _ends(spectra: Sequence[Spectrum]) -> tuple[float, float]:
    return min(float(s.values.min()) for s in spectra), max(float(s.values.max()) for s in spectra)


def _proximal(
    spectra: Sequence[Spectrum], firm: Mapping[str, float], ratios: Sequence[Ratios]
) -> Claim:
    paper = "For λ ≤ 0 F is a proximal operator: it brings any two inputs nearer to each other."
    layers = {s.layer for s in spectra if s.lam <= 0}
    alone = [r for r in ratios if r.what == ALONE and r.where in layers]
    if not alone:
        return Claim(paper, _NO_NEGATIVE, "not decided")
    worst = max(float(r.known().max()) for r in alone)
    lowest = min(firm[layer] for layer in layers)
    tolerance = ROUNDING[alone[0].values.dtype]
    holds = all(bool(r.holds().all()) for r in alone) and lowest >= 1 - tolerance
    return Claim(
        paper,
        f"F alone multiplies lengths by at most {worst:.3f}; between two images "
        f"<Fy - Fy', y - y'> is at least {lowest:.3f} times |Fy - Fy'|².",
        "yes" if holds else "no",
    )


def _inequality(
    paper: str, what: str, spectra: Sequence[Spectrum], ratios: Sequence[Ratios]
) -> Claim:
    """Of the layers with lam <= 0; of the network if all are."""
    places = {s.layer for s in spectra if s.lam <= 0}
    if len(places) == len(spectra):
        places.add("network")
    chosen = [r for r in ratios if r.what == what and r.where in places]
    if not chosen:
        return Claim(paper, _POSITIVE if what == NETWORK else _NO_NEGATIVE, "not decided")
    known = torch.cat([r.known() for r in chosen])
    if not len(known):
        return Claim(paper, "Neither network moved in any case.", "not decided")
    holds = float(torch.cat([r.holds() for r in chosen]).double().mean())
    return Claim(
        paper,
        f"Holds in {percent(holds)} of {len(known):,} cases; the largest ratio is "
        f"{float(known.max()):.2f}.",
        "yes" if holds == 1 else "no",
    )


def _less_sensitive(spectra: Sequence[Spectrum], norms: Norms) -> Claim:
    """Both norms smaller than the standard network's, on average over images."""
    parts, answers = [], []
    for kind, ours in norms["implicit"].items():
        theirs = norms["standard"][kind]
        smaller = float((ours <= theirs).double().mean())
        answers.append(
            decide(paired(*(dict(enumerate(v.tolist())) for v in (ours, theirs))), "less")
        )
        parts.append(
            f"The {kind} norm is no larger for {percent(smaller)} of {len(ours)} images (medians "
            f"{float(ours.median()):.3g} implicit, {float(theirs.median()):.3g} standard)."
        )
    agrees: Answer = answers[0] if len(set(answers)) == 1 else "not decided"
    if any(s.lam > 0 for s in spectra):
        parts.append(_POSITIVE)
        agrees = "not decided"
    return Claim(
        "For λ ≤ 0 the implicit network is less sensitive to its input than the standard one.",
        " ".join(parts),
        agrees,
    )


def about_bound(bound: Sequence[Factor] | str, norms: Norms) -> str:
    """The product of norms against what was measured; or why there is none."""
    if isinstance(bound, str):
        return f"There is no product bound for this network: {bound}."
    met = {name: float(kinds["spectral"].max()) for name, kinds in norms.items()}
    return (
        "The product of the layers' norms bounds the spectral norm anywhere: by "
        f"{_large(product(bound, False))} (standard) and {_large(product(bound))} (implicit); the "
        f"largest measured are {met['standard']:.3g} and {met['implicit']:.3g}."
    )


def _large(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def table_of_ratios(ratios: Sequence[Ratios]) -> Table:
    """One line per layer, direction and way to compare."""
    rows = [
        {
            "what": ratio.what,
            "where": ratio.where,
            "change": ratio.direction,
            "holds for": percent(ratio.fraction()),
            "median ratio": f"{float(ratio.known().median()):.3f}",
            "largest": f"{float(ratio.known().max()):.3f}",
            "images": str(len(ratio.known())),
        }
        for ratio in ratios
        if len(ratio.known())
    ]
    return Table.of("How often |D IBNN dx| ≤ |D SM dx|", rows)


def tables_of_bound(bound: Sequence[Factor] | str) -> list[Table]:
    """One line per layer, where there is a bound."""
    if isinstance(bound, str):
        return []
    cells = [(link.name, f"{link.norm:.4g}", f"{link.lateral:.4g}") for link in bound]
    lateral = math.prod(link.lateral for link in bound)
    cells.append(("product", _large(product(bound, False)), f"{lateral:.4g}"))
    return [Table("The product bound", ("layer", "norm", "norm of its F"), cells)]


def rows_of(ratios: Sequence[Ratios], norms: Norms) -> list[dict[str, Any]]:
    """One line of the CSV per image."""
    rows: list[dict[str, Any]] = [
        {
            "kind": "ratio",
            "what": ratio.what,
            "where": ratio.where,
            "direction": ratio.direction,
            "image": image,
            "value": value,
        }
        for ratio in ratios
        for image, value in enumerate(ratio.values.tolist())
    ]
    rows += [
        {"kind": f"{kind} norm", "what": name, "image": image, "value": value}
        for name, parts in norms.items()
        for kind, values in parts.items()
        for image, value in enumerate(values.tolist())
    ]
    return rows
