// One hidden layer at one point, looked into: its y and z, the energies along its solve, J.

import { eigenvalues } from "./math/symmetric.js";

export function lookInto(network, layerIndex, { x, y }) {
  const layer = network.hidden[layerIndex];
  const { neuron } = layer;
  network.forward(x, y); // up to the layer and through it
  neuron.trace = [];
  neuron.solve(layer.y, layer.z, network.lam, network.slope);
  const energies = neuron.trace;
  neuron.trace = null;
  return {
    y: Array.from(layer.y),
    z: Array.from(layer.z),
    energies,
    values: eigenvalues(neuron.jacobian, neuron.units),
    residual: Math.max(...neuron.residual.map(Math.abs)),
    lam: network.lam,
    slope: network.slope,
  };
}
