"""What a check is given, small enough for tests: an untrained network on a few digits."""

import torch

import ibnn
from ibnn.lab import data
from ibnn.lab.models import UCN
from ibnn.lab.theory_checks import Context, Section


def digits_context(lam: float = -0.1, examples: int = 24, network=None) -> Context:
    dataset = data.load("digits")
    if network is None:
        network = UCN(
            dataset.image_shape,
            dataset.classes,
            1,
            2,
            "implicit",
            lam=lam,
            learn_lam=False,
            initialisation="torch",
            generator=torch.Generator().manual_seed(0),
        )
    network = network.eval().requires_grad_(False)
    x = dataset.x_train[:examples].float() / 255
    standard = ibnn.standard(network).eval()
    return Context(network, standard, dataset, x, dataset.y_train[:examples], 0, True)


def whole(section: Section, name: str) -> bool:
    """Whether everything a report shows of it is there, and every picture can be drawn."""
    for picture in section.pictures:
        picture.figure.canvas.draw()
        assert picture.caption.endswith(".")
    for table in section.tables:
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert section.rows
    assert section.claims
    for claim in section.claims:
        assert claim.paper.endswith(".")
        assert claim.measured.endswith(".")
        assert claim.agrees in ("yes", "no", "not decided")
    return section.name == name and all(line.endswith(".") for line in section.notes)
