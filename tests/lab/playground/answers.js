// What the page's scripts answer to cases.json, and to problems above the threshold.

export async function answers(base, cases) {
  const load = (path) => import(base + path);
  const { ImplicitBias } = await load("math/neuron.js");
  const { Network } = await load("math/network.js");
  const { eigenvalues } = await load("math/symmetric.js");
  const { arrowOutlines, drawShape } = await load("data/shapes.js");

  const neurons = cases.neurons.map(({ y, lam, slope, weights }) => {
    const neuron = new ImplicitBias(y.length);
    const z = new Float64Array(y.length);
    neuron.solve(Float64Array.from(y), z, lam, slope);
    const gradient = Float64Array.from(weights ?? y);
    neuron.pullBack(gradient);
    return {
      z: [...z],
      energy: neuron.energy,
      eigenvalues: [...eigenvalues(neuron.jacobian, y.length)],
      y_gradient: [...gradient],
      lam_gradient: neuron.lamGradient(gradient),
    };
  });

  const networks = cases.networks.map((given) => {
    const network = new Network(given);
    const points = Float64Array.from(given.points);
    network.parameters.set(given.parameters);
    network.evaluate({ points, labels: given.labels });
    return {
      logits: given.labels.map((_, i) => network.forward(points[2 * i], points[2 * i + 1])),
      loss: network.loss,
      gradient: [...network.gradient.subarray(0, network.lamAt)],
      lam_gradient: network.gradient[network.lamAt],
    };
  });

  const shapes = {};
  for (const name of ["arrows", "moons", "circles", "spirals"]) {
    const { points, labels } = drawShape(name, 400, 7);
    shapes[name] = { points: [...points], labels: [...labels] };
  }
  return { neurons, networks, shapes, arrow_outlines: arrowOutlines };
}
