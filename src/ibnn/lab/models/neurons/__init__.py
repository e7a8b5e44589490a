"""The kinds of neuron a network can be made of: one file each, registered here.

To add one: a file with a `NeuronKind` (or, for a map that follows the affine layer, a `MapKind`)
and a line below; or `register_neuron(...)` from anywhere outside the package.
"""

from ibnn.lab.models.neurons.both_signs import ImplicitFirstFixed, ImplicitPerChannel
from ibnn.lab.models.neurons.divisive import Divisive
from ibnn.lab.models.neurons.followed import MapKind
from ibnn.lab.models.neurons.gain import Gain
from ibnn.lab.models.neurons.group_norm import GroupNorm
from ibnn.lab.models.neurons.implicit import Implicit
from ibnn.lab.models.neurons.instance_norm import InstanceNorm, InstanceNormAffine
from ibnn.lab.models.neurons.kind import (
    Neuron,
    NeuronKind,
    neuron_kind,
    neuron_names,
    register_neuron,
)
from ibnn.lab.models.neurons.lite import Lite
from ibnn.lab.models.neurons.local_response_norm import LocalResponseNorm
from ibnn.lab.models.neurons.mean_field import MeanField
from ibnn.lab.models.neurons.own_lam import OwnLam
from ibnn.lab.models.neurons.shrink import Shrink
from ibnn.lab.models.neurons.squeeze_excite import SqueezeExcite
from ibnn.lab.models.neurons.standard import Standard

for _kind in (
    Standard,
    Implicit,
    Gain,
    MeanField,
    Lite,
    InstanceNorm,
    InstanceNormAffine,
    GroupNorm,
    LocalResponseNorm,
    Divisive,
    SqueezeExcite,
    Shrink,
    ImplicitPerChannel,
    ImplicitFirstFixed,
):
    register_neuron(_kind())

__all__ = [
    "MapKind",
    "Neuron",
    "NeuronKind",
    "OwnLam",
    "neuron_kind",
    "neuron_names",
    "register_neuron",
]
