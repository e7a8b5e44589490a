"""Section: what the implicit bias does to derivatives, layer by layer and for the whole network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ibnn import theory
from ibnn.lab.analysis.jacobian_bound import Factor, factors, is_chain, product
from ibnn.lab.analysis.jacobian_norms import frobenius_norms, spectral_norms
from ibnn.lab.analysis.jacobian_ratios import (
    ALONE,
    NETWORK,
    OWN_MASKS,
    SAME_MASK,
    Ratios,
    directions,
    finite_ratios,
    firmness,
    layer_ratios,
    network_ratios,
)
from ibnn.lab.analysis.jacobians_figures import draw_norms, draw_ratios, draw_spectrum
from ibnn.lab.analysis.lanczos import extreme_eigenvalues
from ibnn.lab.analysis.layers import LayerState, capture
from ibnn.lab.analysis.operator import DENSE_UNITS, BiasOperator
from ibnn.lab.analysis.section import Progress, Section, Subject
from ibnn.lab.experiments.experiment import Picture, Table
from ibnn.lab.report.statistics import percent

BATCH = 64
SPECTRUM_ROWS = 12


def section(subject: Subject, progress: Progress) -> Section | None:
    """K_inf, the paper's inequality and its product bound, and norms over images."""
    generator = torch.Generator().manual_seed(subject.seed)
    x = subject.x[: 32 if subject.quick else len(subject.x)]
    near = x[:BATCH]
    batches = list(x.split(BATCH))
    total = 3 + 2 * len(batches)
    progress(0, total, "spectrum of K_inf")
    states = capture(subject.network, subject.twin, near)
    spectra = [_spectrum(state, generator) for state in states]
    stretches = _stretches(states[0], generator)
    progress(1, total, "the paper's inequality")
    ratios: list[Ratios] = []
    for state in states:
        ratios += layer_ratios(state, directions(state.x, generator))
        ratios += finite_ratios(state)
    moves = directions(near, generator)
    ratios += network_ratios(subject.network, subject.twin, near, moves)
    progress(2, total, "norms of layers")
    chains = _chains(subject, near, generator)
    norms: dict[str, dict[str, Tensor]] = {}
    for number, (name, network) in enumerate(
        (("standard", subject.twin), ("implicit", subject.network))
    ):
        parts: dict[str, list[Tensor]] = {"Frobenius": [], "spectral": []}
        for done, batch in enumerate(batches):
            progress(3 + number * len(batches) + done, total, f"norms, {name} network")
            parts["Frobenius"].append(frobenius_norms(network, batch, generator=generator))
            parts["spectral"].append(spectral_norms(network, batch, generator=generator).norms)
        norms[name] = {kind: torch.cat(values) for kind, values in parts.items()}
    progress(total, total, "jacobians")
    return Section(
        "jacobians",
        "Jacobians: compression, the paper's inequality, norms",
        _words(states, spectra, ratios, norms, chains),
        _pictures(spectra, stretches, ratios, norms, len(x)),
        [_inequality_table(ratios), *_bound_tables(chains, norms)],
        _csv(ratios, norms),
    )


def _spectrum(
    state: LayerState, generator: torch.Generator
) -> tuple[str, Tensor, tuple[float, float]]:
    """Eigenvalues of K_inf of some rows; of long rows only the two ends."""
    operator = state.operator()
    chosen = torch.linspace(0, operator.rows - 1, min(SPECTRUM_ROWS, operator.rows)).long()
    part = operator.select(chosen)
    if part.units <= DENSE_UNITS // 2:
        values = part.spectrum()
    else:
        ends = extreme_eigenvalues(
            part.jacobian, part.rows, part.units, generator=generator, dtype=part.z.dtype
        )
        values = 1 / torch.stack([ends.high, ends.low], 1)
    layer = state.layer
    ranges = [
        theory.jacobian_range(lam, slope, layer.coupling, layer.sigma)
        for lam, slope in state.flat_settings()
    ]
    bounds = min(low for low, _ in ranges), max(high for _, high in ranges)
    return state.name, values, bounds


def _stretches(state: LayerState, generator: torch.Generator) -> dict[str, Tensor]:
    """|K_inf dy| / |dy| of single rows, at random and along differences of the layer's own y."""
    operator = state.operator()
    random = torch.randn(operator.z.shape, generator=generator, dtype=torch.float64)
    own = operator.flatten(state.y - state.y.roll(1, 0))
    return {
        "random direction": _stretch(operator, random.to(operator.z.dtype)),
        "towards another image": _stretch(operator, own),
    }


def _stretch(operator: BiasOperator, v: Tensor) -> Tensor:
    ratio = operator.inverse(v).norm(dim=-1) / v.norm(dim=-1)
    return ratio[ratio.isfinite()]


def _chains(
    subject: Subject, x: Tensor, generator: torch.Generator
) -> dict[str, list[Factor]] | None:
    if not is_chain(subject.network):
        return None
    return {"chain": factors(subject.network, x, generator)}


def _pictures(spectra, stretches, ratios, norms, images: int) -> list[Picture]:
    return [
        Picture(
            "jacobians-spectrum",
            draw_spectrum(spectra, stretches),
            "Left: every eigenvalue of K_inf = dz/dy at real inputs (line: median row, band: all), "
            "dotted: the closed bounds 1 and 1/(1 - lam/T). Right: how much of a change of the "
            "first layer's y is left in its z.",
        ),
        Picture(
            "jacobians-inequality",
            draw_ratios(ratios),
            "|D IBNN dx| over |D SM dx|, one point per image. Without an activation the ratio "
            "cannot exceed 1 for lam <= 0. ReLU is not a similarity: it may hide from one network "
            "what it shows of the other, and then the inequality fails.",
        ),
        Picture(
            "jacobians-norms",
            draw_norms(norms["standard"], norms["implicit"]),
            f"Norms of the derivative of the logits by the image, over {images} images. Same "
            "weights, with and without the implicit bias.",
        ),
    ]


def _inequality_table(ratios: Sequence[Ratios]) -> Table:
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


def _bound_tables(chains, norms) -> list[Table]:
    if chains is None:
        return []
    chain = chains["chain"]
    cells = [(factor.name, f"{factor.norm:.4g}", f"{factor.lateral:.4g}") for factor in chain]
    for name, lateral in (("standard", False), ("implicit", True)):
        bound, met = product(chain, lateral), float(norms[name]["spectral"].max())
        text = f"largest norm measured {met:.4g}, {met / bound:.2g} of it"
        cells.append((f"product, {name} network", f"{bound:.4g}", text))
    return [Table("The product bound", ("link", "norm", "of the F behind it"), cells)]


def _csv(ratios: Sequence[Ratios], norms: dict[str, dict[str, Tensor]]) -> list[dict[str, Any]]:
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


def _words(states, spectra, ratios, norms, chains) -> list[str]:
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
            f"F alone never lengthened anything (largest ratio {worst:.6f}), and between images it "
            f"behaves as a proximal operator: <Fy - Fy', y - y'> is at least {firm:.4f} times "
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
    if chains is None:
        text.append("The product bound is for networks that are a chain; this one is not.")
    return text


def _named(what: str) -> str:
    return {
        SAME_MASK: "a layer with ReLU and equal masks",
        OWN_MASKS: "a layer with ReLU",
        NETWORK: "the whole network",
    }[what]
