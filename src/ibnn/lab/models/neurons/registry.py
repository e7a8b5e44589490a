"""Neuron kinds by name."""

from ibnn.lab.models.neurons.kind import NeuronKind

_KINDS: dict[str, NeuronKind] = {}


def register_neuron(kind: NeuronKind) -> None:
    """Make a kind known: from then on a run may name it as its `neuron`.

    Raises:
        ValueError: the name is taken by a kind of another class.
    """
    known = _KINDS.get(kind.name)
    # the same class again is a module that was loaded twice, as notebooks do
    if known is not None and type(known).__qualname__ != type(kind).__qualname__:
        raise ValueError(
            f"neuron kind {kind.name!r} is already registered by {type(known).__qualname__}"
        )
    _KINDS[kind.name] = kind


def neuron_kind(name: str) -> NeuronKind:
    """The kind of that name.

    >>> neuron_kind("mean-field").about
    'z = y - lam tanh(p (m - y)), m the mean of the map: every unit hears only the mean, no solve'
    """
    if name not in _KINDS:
        raise ValueError(f"neuron is {name!r}, expected one of {', '.join(_KINDS)}")
    return _KINDS[name]


def neuron_names() -> tuple[str, ...]:
    """Every registered name, in the order of registration."""
    return tuple(_KINDS)
