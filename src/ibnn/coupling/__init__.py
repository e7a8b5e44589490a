"""Who listens to whom: the weights w of the lateral sum, and the sums made with them."""

from ibnn.coupling.base import Coupling, Kernel
from ibnn.coupling.dense import Dense, DenseKernel
from ibnn.coupling.uniform import Uniform, UniformKernel
from ibnn.coupling.window import Window, WindowKernel

__all__ = ["Coupling", "Dense", "Kernel", "Uniform", "Window", "kernel"]

_KERNELS: dict[str, Kernel] = {k.name: k for k in (UniformKernel(), WindowKernel(), DenseKernel())}


def kernel(name: str) -> Kernel:
    """The sums behind a coupling, by `Coupling.kernel`."""
    return _KERNELS[name]
