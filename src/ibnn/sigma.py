"""The dendritic nonlinearity sigma: value, derivatives, primitive and slope bound.

Every sigma here has slope 1 at 0 and values in [-1, 1]; the neuron uses `sigma(slope * x)`.
"""

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ibnn._registry import Registry

_STEP = 1e-4  # of differences that check a sigma
# of the table of Peaked's primitive
_NODES = 8  # of Gauss and Legendre in a cell
_CELLS = 4096  # polynomials of degree 5 are right to 1e-12 on them for a from 0.1 to 2
_FAR = 8.0  # standard deviations after which the Gaussian is 0 in double precision


class Sigma:
    """An odd, non-decreasing function, of slope 1 at 0 by convention: `slope` then means the same
    for every sigma.

    `slope_bound` is the largest absolute slope, `bound` the largest absolute value. Set
    `certified = False` to use a sigma that is not monotonic. It can be solved, but nothing is
    proven about it: `uniqueness_threshold` raises an error, and a learnt lam needs `bounded=False`.

    Examples:
        To use one of your own, define `value` and `primitive`, and pass an instance:

        >>> import ibnn
        >>> class Softsign(Sigma):
        ...     name = "softsign"
        ...     def value(self, x):
        ...         return x / (1 + x.abs())
        ...     def primitive(self, x):
        ...         return x.abs() - torch.log1p(x.abs())
        >>> ibnn.implicit_bias(torch.tensor([0.0, 0.1, 0.3]), -0.2, sigma=Softsign())
        tensor([0.0632, 0.1129, 0.2239])
    """

    name = "sigma"
    slope_bound = 1.0
    bound = 1.0
    certified = True

    def value(self, x: Tensor) -> Tensor:
        """sigma(x), elementwise.

        Args:
            x: any tensor.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method value(x)")

    def primitive(self, x: Tensor) -> Tensor:
        """The even function S with S' = sigma and S(0) = 0, behind the energy.

        Args:
            x: any tensor.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method primitive(x)")

    def derivative(self, x: Tensor, order: int) -> Tensor:
        """The derivative of any order, by autograd unless a subclass has formulas.

        Args:
            x: any tensor.
            order: 0 is the value, -1 the primitive.
        """
        if order < 0:
            return self.primitive(x)
        # inference mode would record nothing, and its tensors cannot be differentiated by
        with torch.inference_mode(False), torch.enable_grad():
            point = (x.clone() if x.is_inference() else x).detach().requires_grad_()
            result = self.value(point)
            for _ in range(order):
                if not result.requires_grad:
                    return torch.zeros_like(x)
                (result,) = torch.autograd.grad(result.sum(), point, create_graph=True)
        return result.detach()

    def __reduce__(self) -> "str | tuple[object, ...]":
        # copies of a registered sigma are that sigma
        known = REGISTRY.key(self) == self.name
        return (resolve, (self.name,)) if known else super().__reduce__()

    def __repr__(self) -> str:
        return self.name


class Tanh(Sigma):
    name = "tanh"

    def value(self, x: Tensor) -> Tensor:
        return torch.tanh(x)

    def primitive(self, x: Tensor) -> Tensor:
        return x.abs() + torch.nn.functional.softplus(-2 * x.abs()) - math.log(2)

    def derivative(self, x: Tensor, order: int) -> Tensor:
        if order < 0:
            return self.primitive(x)
        t = torch.tanh(x)
        return t if order == 0 else _polynomial(_tanh_polynomial(order), t)


class Hardtanh(Sigma):
    """Piecewise linear: the derivative jumps at -1 and 1, and higher ones are zero elsewhere."""

    name = "hardtanh"

    def value(self, x: Tensor) -> Tensor:
        return x.clamp(-1, 1)

    def primitive(self, x: Tensor) -> Tensor:
        inside = x.clamp(-1, 1)
        return inside * inside / 2 + (x.abs() - 1).clamp(min=0)

    def derivative(self, x: Tensor, order: int) -> Tensor:
        if order <= 0:
            return self.value(x) if order == 0 else self.primitive(x)
        return (x.abs() < 1).to(x.dtype) if order == 1 else torch.zeros_like(x)


class Arctan(Sigma):
    """(2/pi) arctan(pi x / 2): long tails, never quite 1."""

    name = "arctan"

    def value(self, x: Tensor) -> Tensor:
        return torch.atan(x * (math.pi / 2)) * (2 / math.pi)

    def primitive(self, x: Tensor) -> Tensor:
        u = x * (math.pi / 2)
        return (u * torch.atan(u) - torch.log1p(u * u) / 2) * (2 / math.pi) ** 2

    def derivative(self, x: Tensor, order: int) -> Tensor:
        if order <= 0:
            return self.value(x) if order == 0 else self.primitive(x)
        # arctan^(n)(u) = (n-1)! cos(t)^n sin(n (t + pi/2)) with t = arctan(u)
        t = torch.atan(x * (math.pi / 2))
        scale = math.factorial(order - 1) * (math.pi / 2) ** (order - 1)
        return scale * torch.cos(t) ** order * torch.sin(order * (t + math.pi / 2))


class Erf(Sigma):
    """erf(sqrt(pi) x / 2): Gaussian derivative."""

    name = "erf"

    def value(self, x: Tensor) -> Tensor:
        return torch.erf(x * (math.sqrt(math.pi) / 2))

    def primitive(self, x: Tensor) -> Tensor:
        return x * self.value(x) + torch.expm1(-(math.pi / 4) * x * x) * (2 / math.pi)

    def derivative(self, x: Tensor, order: int) -> Tensor:
        if order <= 0:
            return self.value(x) if order == 0 else self.primitive(x)
        return _polynomial(_erf_polynomial(order), x) * torch.exp(-(math.pi / 4) * x * x)


class Peaked(Sigma):
    """tanh(x) exp(-(a x)^2 / 2): not monotonic, and nothing is proven about it.

    The neuron's equation comes from a model of V1 (Rentzeperis, Prandi and Bertalmio 2025) with a
    further term, left out by the paper, in which a dendrite responds most to differences of medium
    size. Its formula is not in the paper; this family has its shape, and tanh as the case a = 0.

    >>> Peaked(0.5).value(torch.tensor([0.5, 1.3, 5.0]))
    tensor([0.4479, 0.6976, 0.0439])
    """

    certified = False

    def __init__(self, a: float, name: str | None = None):
        if not (math.isfinite(a) and a > 0):
            raise ValueError(f"a is {a}, expected a positive number (a = 0 is tanh)")
        self.a, self.name = a, name or f"peaked-{a:g}"

    def value(self, x: Tensor) -> Tensor:
        return torch.tanh(x) * torch.exp(-0.5 * (self.a * x).square())

    def primitive(self, x: Tensor) -> Tensor:
        """From a table, as there is no closed form: quadrature at every pair of units took a
        hundred times as long as all the rest of a solve."""
        table = _peaked_table(self.a).to(x)
        place = x.abs().clamp(max=_FAR / self.a) * (_CELLS * self.a / _FAR)
        cell = place.detach().floor().clamp(max=_CELLS - 1)
        t, terms = place - cell, table[cell.long()].unbind(-1)
        value = terms[-1]
        for term in terms[-2::-1]:
            value = value * t + term
        return value

    def derivative(self, x: Tensor, order: int) -> Tensor:
        if order not in (0, 1):
            return super().derivative(x, order)
        t, fall = torch.tanh(x), torch.exp(-0.5 * (self.a * x).square())
        return t * fall if order == 0 else ((1 - t * t) - self.a**2 * x * t) * fall


REGISTRY: Registry[Sigma] = Registry("sigma", Sigma)
TANH, HARDTANH, ARCTAN, ERF = map(REGISTRY.register, (Tanh(), Hardtanh(), Arctan(), Erf()))
# (the compiled engine has a = 1/2, for solves)
PEAKED = REGISTRY.register(Peaked(0.5, "peaked"))
# certified, and what an engine may have formulas of; Triton has none of hardtanh
BUILT_IN = frozenset((TANH, HARDTANH, ARCTAN, ERF))
_BUILT_IN_BY_NAME = {sigma.name: sigma for sigma in BUILT_IN}


def register(sigma: Sigma) -> Sigma:
    """Register a sigma of your own, so that `sigma=` accepts its name as it does built-in ones.

    Args:
        sigma: an instance; must be odd, and non-decreasing unless it has `certified = False`.
    """
    return REGISTRY.register(resolve(sigma))


def resolve(sigma: "str | Sigma") -> Sigma:
    """The sigma meant by a name or an object, checked to be one the theory allows."""
    found = REGISTRY.resolve(sigma)
    if type(found).__hash__ is None:
        raise TypeError(
            f"sigma {found.name} cannot be hashed; make its class a dataclass(frozen=True), or one "
            "with eq=False"
        )
    if found not in BUILT_IN and not getattr(found, "_checked", False):
        _check(found)
        object.__setattr__(found, "_checked", True)  # (a frozen dataclass, too)
    return found


def built_in(name: str) -> Sigma:
    """The built-in sigma of this name, also where a user has registered another one by it."""
    return _BUILT_IN_BY_NAME[name]


def names() -> list[str]:
    return sorted(REGISTRY.names())


def _check(sigma: Sigma) -> None:
    x = torch.linspace(-8, 8, 321, dtype=torch.float64)
    value, slope = sigma.value(x), sigma.derivative(x, 1)
    if not (value.isfinite().all() and slope.isfinite().all()):
        raise ValueError(f"sigma {sigma.name} has values or slopes that are not finite")
    if not torch.allclose(value, -value.flip(0), atol=1e-9):
        raise ValueError(f"sigma {sigma.name} must be odd: sigma(-x) = -sigma(x)")
    if sigma.certified and (slope < -1e-9).any():
        raise ValueError(
            f"sigma {sigma.name} decreases somewhere, so its equation has no proven solution; "
            "set certified = False on it to use it without certificates"
        )
    # equal units meet at 0: autograd gives a slope of 0 to sign(x) and |x| there
    zero, step = x.new_zeros(1), x.new_full((1,), _STEP)
    at_zero, measured = float(sigma.derivative(zero, 1)), float(sigma.value(step) / step)
    if abs(at_zero - measured) > 1e-3 * max(1.0, abs(measured)):
        raise ValueError(
            f"sigma {sigma.name} has derivative {at_zero:.4g} at 0, but rises there with slope "
            f"{measured:.4g}; write its derivative, where autograd has another"
        )
    if (slope.abs() > sigma.slope_bound * (1 + 1e-9)).any():
        raise ValueError(
            f"sigma {sigma.name} has slope {slope[slope.abs().argmax()]:.4g}, "
            f"above its slope_bound={sigma.slope_bound:.4g}"
        )
    # now, although not every solve needs it: a wrong one would lead a descent astray
    rises = (sigma.primitive(x + _STEP) - sigma.primitive(x - _STEP)) / (2 * _STEP)
    worst = (rises - value).abs().argmax()
    if abs(float(rises[worst] - value[worst])) > 1e-3 * max(1.0, float(value.abs().max())):
        raise ValueError(
            f"sigma {sigma.name} has value {value[worst]:.4g} at {x[worst]:.4g}, where its "
            f"primitive rises with slope {rises[worst]:.4g}"
        )


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    result = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


@lru_cache
def _tanh_polynomial(order: int) -> tuple[float, ...]:
    """Coefficients, in t = tanh(x), of the derivative of tanh: q -> q' (1 - t^2)."""
    if order == 0:
        return (0.0, 1.0)
    previous = _tanh_polynomial(order - 1)
    result = [0.0] * (len(previous) + 1)
    for power, coefficient in enumerate(previous):
        if power:
            result[power - 1] += power * coefficient
            result[power + 1] -= power * coefficient
    return tuple(result)


@lru_cache
def _erf_polynomial(order: int) -> tuple[float, ...]:
    """The polynomial before exp(-pi x^2 / 4) in the derivative of erf: q -> q' - (pi/2) x q."""
    if order == 1:
        return (1.0,)
    previous = _erf_polynomial(order - 1)
    result = [0.0] * (len(previous) + 1)
    for power, coefficient in enumerate(previous):
        result[power + 1] -= coefficient * math.pi / 2
        if power:
            result[power - 1] += power * coefficient
    return tuple(result)


@lru_cache(maxsize=8)
def _peaked_table(a: float) -> Tensor:
    """Of each cell the polynomial, in the fraction of the cell, that has the primitive's values and
    two derivatives at both ends; (cells, 6), constant first."""
    sigma, width = Peaked(a), _FAR / a / _CELLS
    ends = torch.arange(_CELLS + 1, dtype=torch.float64) * width
    points, weights = (torch.from_numpy(x) for x in np.polynomial.legendre.leggauss(_NODES))
    inside = ends[:-1, None] + width * (points + 1) / 2
    areas = (sigma.value(inside) * weights).sum(1) * width / 2
    value = torch.cat([areas.new_zeros(1), areas.cumsum(0)])
    slope, bend = sigma.value(ends) * width, sigma.derivative(ends, 1) * width**2
    (d0, d1), (s0, s1) = ((v[:-1], v[1:]) for v in (slope, bend))
    return torch.stack(
        [
            value[:-1],
            d0,
            s0 / 2,
            10 * areas - 6 * d0 - 4 * d1 - (3 * s0 - s1) / 2,
            -15 * areas + 8 * d0 + 7 * d1 + (3 * s0 - 2 * s1) / 2,
            6 * areas - 3 * (d0 + d1) - (s0 - s1) / 2,
        ],
        dim=1,
    )
