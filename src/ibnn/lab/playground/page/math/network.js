// A fully connected network of standard or implicit neurons on points of the plane: one logit,
// binary cross-entropy, gradients by backpropagation point by point (nothing is allocated).

import { activations } from "./activation.js";
import { ImplicitBias } from "./neuron.js";
import { normal } from "./random.js";

export class Network {
  /** `lam` is null for standard neurons; one lam and slope serve all hidden layers. */
  constructor({ units, layers, activation, lam = null, slope = 10 }) {
    this.activation = activations[activation];
    this.implicit = lam !== null;
    this.slope = slope;
    this.hidden = [];
    let offset = 0;
    for (let i = 0; i < layers; i++) {
      const layer = new Layer(i ? units : 2, units, offset, this.implicit);
      this.hidden.push(layer);
      offset = layer.end;
    }
    this.head = new Layer(units, 1, offset, false);
    this.lamAt = this.head.end; // lam is the last parameter
    this.parameters = new Float64Array(this.lamAt + 1);
    this.gradient = new Float64Array(this.lamAt + 1);
    this.loss = NaN;
    this.accuracy = NaN;
    if (this.implicit) this.lam = lam;
  }

  get lam() {
    return this.parameters[this.lamAt];
  }

  set lam(value) {
    this.parameters[this.lamAt] = value;
  }

  /**
   * Biases zero; the first layer's directions spread evenly around the circle, with some play, and
   * of length 2; later weights normal with variance 1 / inputs. Three units drawn without care
   * often all look the same way, and then neither network learns anything.
   */
  initialize(random) {
    const { parameters, hidden, head } = this;
    const turn = random();
    parameters.fill(0, 0, this.lamAt);
    for (let i = 0; i < hidden[0].outputs; i++) {
      const angle = 2 * Math.PI * (turn + (i + (random() - 0.5) / 2) / hidden[0].outputs);
      parameters[hidden[0].weight + 2 * i] = 2 * Math.cos(angle);
      parameters[hidden[0].weight + 2 * i + 1] = 2 * Math.sin(angle);
    }
    for (const layer of [...hidden.slice(1), head])
      for (let i = layer.weight; i < layer.bias; i++)
        parameters[i] = normal(random) / Math.sqrt(layer.inputs);
  }

  /** The logit of one point; y, z and the activations stay in the layers. */
  forward(x0, x1) {
    const { parameters, activation, hidden, head } = this;
    hidden[0].input[0] = x0;
    hidden[0].input[1] = x1;
    for (let i = 0; i < hidden.length; i++) {
      const layer = hidden[i];
      layer.linear(parameters);
      if (this.implicit) layer.neuron.solve(layer.y, layer.z, this.lam, this.slope);
      const next = i + 1 < hidden.length ? hidden[i + 1].input : head.input;
      for (let k = 0; k < layer.outputs; k++) next[k] = activation.value(layer.z[k]);
    }
    head.linear(parameters);
    return head.y[0];
  }

  /** Adds the gradients of a loss whose derivative by the logit of the last point is given. */
  backward(derivative) {
    const { parameters, gradient, activation, hidden, head } = this;
    head.delta[0] = derivative;
    head.pullBack(parameters, gradient, true);
    for (let i = hidden.length - 1; i >= 0; i--) {
      const layer = hidden[i];
      const next = i + 1 < hidden.length ? hidden[i + 1] : head;
      for (let k = 0; k < layer.outputs; k++)
        layer.delta[k] = next.inputDelta[k] * activation.slope(next.input[k]);
      if (this.implicit) {
        layer.neuron.pullBack(layer.delta);
        gradient[this.lamAt] += layer.neuron.lamGradient(layer.delta);
      }
      layer.pullBack(parameters, gradient, i > 0);
    }
  }

  /** Mean loss, accuracy and gradient over points (x0, x1 in turn) with labels 0 or 1. */
  evaluate({ points, labels }) {
    const count = labels.length;
    let loss = 0;
    let right = 0;
    this.gradient.fill(0);
    for (let i = 0; i < count; i++) {
      const logit = this.forward(points[2 * i], points[2 * i + 1]);
      loss += crossEntropy(logit, labels[i]);
      if (logit > 0 === labels[i] > 0) right++;
      this.backward((1 / (1 + Math.exp(-logit)) - labels[i]) / count);
    }
    this.loss = loss / count;
    this.accuracy = right / count;
  }

  /** Fraction of points on the right side of the boundary. */
  accuracyOn({ points, labels }) {
    let right = 0;
    for (let i = 0; i < labels.length; i++)
      if (this.forward(points[2 * i], points[2 * i + 1]) > 0 === labels[i] > 0) right++;
    return right / labels.length;
  }
}

/** Where one affine map and its neurons keep what backpropagation needs. */
class Layer {
  constructor(inputs, outputs, offset, implicit) {
    this.inputs = inputs;
    this.outputs = outputs;
    this.weight = offset;
    this.bias = offset + inputs * outputs;
    this.end = this.bias + outputs;
    this.input = new Float64Array(inputs);
    this.inputDelta = new Float64Array(inputs);
    this.y = new Float64Array(outputs);
    this.z = implicit ? new Float64Array(outputs) : this.y; // a standard neuron: z = y
    this.delta = new Float64Array(outputs); // dL/dz, then dL/dy
    this.neuron = implicit ? new ImplicitBias(outputs) : null;
  }

  /** y = W input + b. */
  linear(parameters) {
    const { inputs, outputs, weight, bias, input, y } = this;
    for (let i = 0; i < outputs; i++) {
      let sum = parameters[bias + i];
      for (let k = 0; k < inputs; k++) sum += parameters[weight + i * inputs + k] * input[k];
      y[i] = sum;
    }
  }

  /** From dL/dy in `delta`: adds the gradients of W and b, and gives dL/dinput if wanted. */
  pullBack(parameters, gradient, wanted) {
    const { inputs, outputs, weight, bias, input, inputDelta, delta } = this;
    for (let i = 0; i < outputs; i++) {
      gradient[bias + i] += delta[i];
      for (let k = 0; k < inputs; k++) gradient[weight + i * inputs + k] += delta[i] * input[k];
    }
    if (!wanted) return;
    for (let k = 0; k < inputs; k++) {
      let sum = 0;
      for (let i = 0; i < outputs; i++) sum += delta[i] * parameters[weight + i * inputs + k];
      inputDelta[k] = sum;
    }
  }
}

/** -log of the probability that the logit gives to the label, without overflow. */
export function crossEntropy(logit, label) {
  const wrong = label > 0 ? -logit : logit;
  return Math.max(wrong, 0) + Math.log1p(Math.exp(-Math.abs(wrong)));
}
