"""A subject small enough for tests: an untrained network on a few digits."""

import torch

import ibnn
from ibnn.lab import data
from ibnn.lab.analysis.section import Section, Subject
from ibnn.lab.models.ucn import UCN


def digits_subject(lam: float = -0.1, examples: int = 24) -> Subject:
    dataset = data.load("digits")
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
    ).eval()
    x = dataset.x_train[:examples].float() / 255
    twin = ibnn.standard(network).eval()
    return Subject(network, twin, dataset, x, dataset.y_train[:examples], 0, True)


def whole(section: Section | None, name: str) -> bool:
    """Whether everything a report shows of it is there, and every picture can be drawn."""
    assert section is not None
    for picture in section.pictures:
        picture.figure.canvas.draw()
        assert picture.caption.endswith(".")
    for table in section.tables:
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert section.rows
    return section.name == name and all(line.endswith(".") for line in section.text)
