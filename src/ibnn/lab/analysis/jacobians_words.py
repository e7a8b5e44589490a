"""The sentences and tables about Jacobians."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ibnn.lab.analysis.jacobian_bound import Factor, product
from ibnn.lab.analysis.jacobian_ratios import (
    ALONE,
    NETWORK,
    OWN_MASKS,
    SAME_MASK,
    Ratios,
    firmness,
)
from ibnn.lab.results import Table
from ibnn.lab.stats import percent

if TYPE_CHECKING:
    from ibnn.lab.analysis.layers import LayerState

Norms = dict[str, dict[str, Tensor]]  # of each network, of each kind, one per image
Spectrum = tuple[str, Tensor, tuple[float, float]]  # layer, eigenvalues, closed bounds


def table_of_ratios(ratios: Sequence[Ratios]) -> Table:
    cells = []
    for ratio in ratios:
        known = ratio.known()
        if not len(known):
            continue
        cells.append(
            (
                ratio.what,
                ratio.where,
                ratio.direction,
                percent(ratio.share()),
                f"{float(known.median()):.3f}",
                f"{float(known.max()):.3f}",
                str(len(known)),
            )
        )
    columns = ("what", "where", "change", "holds for", "median ratio", "largest", "images")
    return Table("How often |D IBNN dx| <= |D SM dx|", columns, cells)


def tables_of_bound(chain: list[Factor] | None) -> list[Table]:
    if chain is None:
        return []
    cells = [(factor.name, f"{factor.norm:.4g}", f"{factor.lateral:.4g}") for factor in chain]
    cells.append(("product", f"{product(chain, False):,.0f}", f"{_lateral(chain):.4g}"))
    return [Table("The product bound", ("link", "norm", "norm of its F"), cells)]


def rows_of(ratios: Sequence[Ratios], norms: Norms) -> list[dict[str, Any]]:
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


def about(
    states: Sequence[LayerState],
    spectra: Sequence[Spectrum],
    ratios: Sequence[Ratios],
    norms: Norms,
    chain: list[Factor] | None,
) -> list[str]:
    lams = [lam for state in states for lam, _ in state.flat_settings()]
    lowest = min(float(values.min()) for _, values, _ in spectra)
    highest = max(float(values.max()) for _, values, _ in spectra)
    text = [
        f"K_inf has eigenvalues from {lowest:.3f} to {highest:.3f} at these inputs: "
        + (
            "every direction is compressed or kept (lam <= 0)."
            if max(lams) <= 0
            else "every direction is stretched or kept (lam >= 0)."
            if min(lams) >= 0
            else "layers with lam < 0 compress, those with lam > 0 stretch."
        )
    ]
    if max(lams) <= 0:
        worst = max(float(r.known().max()) for r in ratios if r.what == ALONE)
        firm = min(float(firmness(state).min()) for state in states)
        text.append(
            f"F alone never lengthened anything (largest ratio {worst:.3f}), and between images it "
            f"behaves as a proximal operator: <Fy - Fy', y - y'> is at least {firm:.3f} times "
            "|Fy - Fy'|^2."
        )
    for what in (SAME_MASK, OWN_MASKS, NETWORK):
        known = torch.cat([r.known() for r in ratios if r.what == what])
        if not len(known):
            continue
        holds = float(torch.cat([r.holds() for r in ratios if r.what == what]).double().mean())
        text.append(
            f"The paper's inequality for {_named(what)} holds in {percent(holds)} of "
            f"{len(known):,} cases; the largest ratio is {float(known.max()):.2f}."
        )
    for kind in ("Frobenius", "spectral"):
        ours, theirs = norms["implicit"][kind], norms["standard"][kind]
        smaller = float((ours <= theirs).double().mean())
        text.append(
            f"The {kind} norm of the network's Jacobian is smaller than the twin's for "
            f"{percent(smaller)} of the images (medians {float(ours.median()):.3g} and "
            f"{float(theirs.median()):.3g})."
        )
    text.append(_about_bound(chain, norms))
    return text


def _about_bound(chain: list[Factor] | None, norms: Norms) -> str:
    if chain is None:
        return "The product bound is for networks that are a chain; this one is not."
    plain, lateral = product(chain, False), product(chain, True)
    met = {name: float(kinds["spectral"].max()) for name, kinds in norms.items()}
    return (
        f"The product of the layers' norms bounds the spectral norm by {plain:,.0f} (standard) and "
        f"{lateral:,.0f} (implicit), anywhere; the largest measured are {met['standard']:.3g} and "
        f"{met['implicit']:.3g}."
    )


def _lateral(chain: list[Factor]) -> float:
    return math.prod(factor.lateral for factor in chain)


def _named(what: str) -> str:
    return {
        SAME_MASK: "a layer with ReLU and equal masks",
        OWN_MASKS: "a layer with ReLU",
        NETWORK: "the whole network",
    }[what]
