"""Your own coupling and your own sigma: a class each, and the layers take them.

    python examples/your_coupling_and_sigma.py

Units on a ring listen to their two neighbors, through x / (1 + |x|) in place of tanh.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

import ibnn
from ibnn.sigma import register


class Ring(ibnn.Coupling):
    """w_ik = 1/2 for the two neighbors on a ring: symmetric, non-negative, rows sum to 1.

    The plan of a conversion finds the class by its name, so that `ibnn.load` can rebuild it.
    """

    def weight(
        self, dtype: torch.dtype | None = None, units: Sequence[int] | None = None
    ) -> Tensor:
        assert units is not None
        here = torch.eye(units[0], dtype=dtype)
        return (here.roll(1, 0) + here.roll(-1, 0)) / 2


class Softsign(ibnn.Sigma):
    """x / (1 + |x|): odd, increasing, slope 1 at 0. Derivatives come from autograd."""

    name = "softsign"

    def value(self, x: Tensor) -> Tensor:
        return x / (1 + x.abs())

    def primitive(self, x: Tensor) -> Tensor:
        return x.abs() - torch.log1p(x.abs())


def main() -> None:
    torch.manual_seed(0)
    coupling, sigma = Ring(), register(Softsign())
    threshold = ibnn.uniqueness_threshold(10.0, coupling, sigma)
    print(f"one solution is proven for lam below {float(threshold):.3f}")

    y = torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    z = ibnn.implicit_bias(y, -0.5, coupling=coupling, sigma=sigma)
    print("one unit among zeros pulls its neighbors up:", [round(v, 3) for v in z.tolist()])
    worst = ibnn.residual(z, y, -0.5, coupling=coupling, sigma=sigma).abs().max()
    print(f"the equation holds up to {float(worst):.0e}")

    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    converted = ibnn.convert(model, coupling={"linear": coupling}, sigma="softsign")
    again = ibnn.convert(model, plan=converted.conversion.plan)  # type: ignore[union-attr]
    x = torch.randn(3, 4)
    print("rebuilt from its plan:", torch.equal(again(x), converted(x)))


if __name__ == "__main__":
    main()
