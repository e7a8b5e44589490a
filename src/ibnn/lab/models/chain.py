"""A network as a chain of layers, for bounds that multiply from one layer to the next.

The forward pass is traced (torch.fx): a network is a chain if every layer is given the result of
the one before and nothing else. Any network is read this way, whatever its class; what a layer is
worth to a bound is for the bound to know.
"""

import operator
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

_RELU = (torch.relu, torch.relu_, F.relu, Tensor.relu, Tensor.relu_, "relu", "relu_")
_TANH = (torch.tanh, F.tanh, Tensor.tanh, "tanh")
_SIGMOID = (torch.sigmoid, F.sigmoid, Tensor.sigmoid, "sigmoid")
_SAME_VALUES = (Tensor.contiguous, "contiguous", torch.clone, "clone")
_RESHAPE = (torch.reshape, "reshape", "view")
_SHAPE = (getattr, "size", "dim", operator.getitem)  # nodes that hold sizes, not values
_ZERO_PAD = {2: nn.ZeroPad1d, 4: nn.ZeroPad2d, 6: nn.ZeroPad3d}


class NotAChainError(ValueError):
    """The network branches, or calls something that no layer stands for; the message says what."""


class Link(NamedTuple):
    """One layer of a chain: its name in the network (or of the function called) and its module."""

    name: str
    module: nn.Module


def chain(network: nn.Module) -> list[Link]:
    """The layers of a network, first to last; functions as the modules that compute them.

    >>> from ibnn.lab.models import Perceptron
    >>> [link.name for link in chain(Perceptron(2, 3, 1))]
    ['flatten', 'hidden', 'relu', 'norm', 'head']
    """
    tracer = _Tracer()
    if tracer.is_leaf_module(network, ""):
        return [Link("", network)]
    try:
        nodes = list(tracer.trace(network).nodes)
    except Exception as error:  # control flow by values, or an op that takes no traced tensor
        raise NotAChainError(f"its forward pass cannot be traced: {error}") from error
    sizes = _size_nodes(nodes)
    links, last = [], nodes[0]
    for node in nodes[1:]:
        if node in sizes:
            continue
        given = [n for n in node.all_input_nodes if n not in sizes]
        if given != [last]:
            listed = " and ".join(map(_name, given)) or "nothing that was computed before"
            raise NotAChainError(f"it branches: {_name(node)} is given {listed}")
        if node.op == "output":
            break
        links.append(Link(_name(node), _module(node, network)))
        last = node
    return [link for link in links if not isinstance(link.module, _SameValues)]


class _Tracer(fx.Tracer):
    """Stops at layers: implicit ones, those of torch, and modules without parts."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        alone = next(m.children(), None) is None or hasattr(type(m), "effective_lam")
        return alone or super().is_leaf_module(m, module_qualified_name)


class _SameValues(nn.Identity):
    """Another layout of the same numbers."""


def _size_nodes(nodes: list[fx.Node]) -> set[fx.Node]:
    found: set[fx.Node] = set()
    for node in nodes:
        asks = node.target in _SHAPE[:3] and (node.target is not getattr or node.args[1] == "shape")
        of_sizes = bool(node.all_input_nodes) and all(n in found for n in node.all_input_nodes)
        if asks or of_sizes:
            found.add(node)
    return found


def _module(node: fx.Node, network: nn.Module) -> nn.Module:
    """The layer a node stands for."""
    if node.op == "call_module":
        return network.get_submodule(str(node.target))
    arguments: tuple[Any, ...] = node.args[1:]
    called = node.target
    for functions, kind in ((_RELU, nn.ReLU), (_TANH, nn.Tanh), (_SIGMOID, nn.Sigmoid)):
        if called in functions:
            return kind()
    if called in _SAME_VALUES:
        return _SameValues()
    if called in (torch.flatten, "flatten"):
        return nn.Flatten(*(arguments or (0,)), **node.kwargs)  # type: ignore[arg-type]
    if called in _RESHAPE and len(arguments) == 2 and arguments[1] == -1:
        return nn.Flatten(1)
    if called is F.pad:
        return _padding(*arguments, **node.kwargs)
    raise NotAChainError(f"no layer stands for the function {_name(node)}")


def _padding(pad: Any, mode: str = "constant", value: float | None = None) -> nn.Module:
    if mode != "constant" or value or len(pad) not in _ZERO_PAD:
        raise NotAChainError(f"no layer stands for padding {pad} with mode {mode!r}")
    return _ZERO_PAD[len(pad)](tuple(pad))


def _name(node: fx.Node) -> str:
    return node.target if isinstance(node.target, str) else node.target.__name__
