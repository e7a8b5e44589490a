"""Section: what the implicit bias does to derivatives, layer by layer and for the whole network."""

import torch
from torch import Tensor

from ibnn import theory
from ibnn.lab.models.chain import NotAChainError
from ibnn.lab.results import Picture
from ibnn.lab.theory_checks.check import Context, Progress, Section
from ibnn.lab.theory_checks.jacobians import claims
from ibnn.lab.theory_checks.jacobians.claims import Norms, Spectrum
from ibnn.lab.theory_checks.jacobians.figures import draw_norms, draw_ratios, draw_spectrum
from ibnn.lab.theory_checks.jacobians.norms import Factor, factors, frobenius_norms, spectral_norms
from ibnn.lab.theory_checks.jacobians.ratios import (
    Ratios,
    directions,
    finite_ratios,
    firmness,
    layer_ratios,
    network_ratios,
)
from ibnn.lab.theory_checks.layers import LayerState, calls_relu, capture
from ibnn.lab.theory_checks.numerics.lanczos import extreme_eigenvalues
from ibnn.lab.theory_checks.numerics.operator import DENSE_UNITS, BiasOperator

BATCH = 64
WITHOUT_RELU = (
    "The network calls no ReLU: a layer with ReLU is here each layer with a ReLU put behind it."
)
SPECTRUM_ROWS = 12


def section(context: Context, progress: Progress) -> Section:
    """K_inf, the paper's inequality and its product bound, and norms over images."""
    generator = torch.Generator().manual_seed(context.seed)
    x = context.x[: 32 if context.quick else len(context.x)]
    near = x[:BATCH]
    batches = list(x.split(BATCH))
    total = 3 + 2 * len(batches)
    progress(0, total, "spectrum of K_inf")
    states = capture(context.network, context.standard, near)
    spectra = [_spectrum(state, generator) for state in states]
    stretches = _stretches(states[0], generator)
    progress(1, total, "the paper's inequality")
    ratios: list[Ratios] = []
    for state in states:
        ratios += layer_ratios(state, directions(state.x, generator))
        ratios += finite_ratios(state)
    moves = directions(near, generator)
    ratios += network_ratios(context.network, context.standard, near, moves)
    progress(2, total, "norms of layers")
    bound: list[Factor] | str
    try:
        bound = factors(context.network, near, generator)
    except NotAChainError as reason:
        bound = str(reason)
    norms: Norms = {}
    for number, (name, network) in enumerate(
        (("standard", context.standard), ("implicit", context.network))
    ):
        parts: dict[str, list[Tensor]] = {"Frobenius": [], "spectral": []}
        for done, batch in enumerate(batches):
            progress(3 + number * len(batches) + done, total, f"norms, {name} network")
            parts["Frobenius"].append(frobenius_norms(network, batch, generator=generator))
            parts["spectral"].append(spectral_norms(network, batch, generator=generator).norms)
        norms[name] = {kind: torch.cat(values).cpu() for kind, values in parts.items()}
    progress(total, total, "done")
    firm = {state.name: float(firmness(state).min()) for state in states}
    return Section(
        name="jacobians",
        title="Jacobians: compression, the paper's inequality, norms",
        claims=claims.claims(spectra, firm, ratios, norms),
        notes=[
            claims.about_bound(bound, norms),
            *([] if calls_relu(context.network, near[:1]) else [WITHOUT_RELU]),
        ],
        pictures=[
            Picture(
                "jacobians-spectrum",
                draw_spectrum(spectra, stretches),
                "Left: every eigenvalue of K_inf = dz/dy at real inputs (line: median row, band: "
                "all), dotted: the closed bounds 1 and 1/(1 - λ/T). Right: how much of a change of "
                f"y is left in z, for single rows of {states[0].name}.",
            ),
            Picture(
                "jacobians-inequality",
                draw_ratios(ratios),
                "|D IBNN dx| over |D SM dx|, one point per image; the inequality holds below the "
                "line. F alone: without an activation. Same mask: ReLU switches off the same units "
                "in both.",
            ),
            Picture(
                "jacobians-norms",
                draw_norms(norms["standard"], norms["implicit"]),
                f"Norms of the derivative of the logits by the image, over {len(x)} images. Same "
                "weights, with and without the implicit bias.",
            ),
        ],
        tables=[claims.table_of_ratios(ratios), *claims.tables_of_bound(bound)],
        rows=claims.rows_of(ratios, norms),
    )


def _spectrum(state: LayerState, generator: torch.Generator) -> Spectrum:
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
    ranges = [
        theory.jacobian_range(lam, slope, state.coupling, state.sigma)
        for lam, slope in state.lam_and_slope
    ]
    bounds = min(low for low, _ in ranges), max(high for _, high in ranges)
    return Spectrum(state.name, values, bounds, max(lam for lam, _ in state.lam_and_slope))


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
