"""Section: what the implicit bias does to derivatives, layer by layer and for the whole network."""

from __future__ import annotations

import torch
from torch import Tensor

from ibnn import theory
from ibnn.lab.analysis import jacobians_words as words
from ibnn.lab.analysis.jacobian_bound import factors, is_chain
from ibnn.lab.analysis.jacobian_norms import frobenius_norms, spectral_norms
from ibnn.lab.analysis.jacobian_ratios import (
    Ratios,
    directions,
    finite_ratios,
    layer_ratios,
    network_ratios,
)
from ibnn.lab.analysis.jacobians_figures import draw_norms, draw_ratios, draw_spectrum
from ibnn.lab.analysis.lanczos import extreme_eigenvalues
from ibnn.lab.analysis.layers import LayerState, capture
from ibnn.lab.analysis.operator import DENSE_UNITS, BiasOperator
from ibnn.lab.analysis.section import Progress, Section, Subject
from ibnn.lab.results import Picture

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
    chain = factors(subject.network, near, generator) if is_chain(subject.network) else None
    norms: words.Norms = {}
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
        words.about(states, spectra, ratios, norms, chain),
        _pictures(spectra, stretches, ratios, norms, len(x)),
        [words.table_of_ratios(ratios), *words.tables_of_bound(chain)],
        words.rows_of(ratios, norms),
    )


def _spectrum(state: LayerState, generator: torch.Generator) -> words.Spectrum:
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
