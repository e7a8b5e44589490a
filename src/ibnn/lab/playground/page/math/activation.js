// The activation phi after the neuron, and its derivative from the value it gave.

export const activations = {
  relu: { label: "ReLU", value: (z) => (z > 0 ? z : 0), slope: (a) => (a > 0 ? 1 : 0) },
  tanh: { label: "tanh", value: Math.tanh, slope: (a) => 1 - a * a },
  sigmoid: { label: "sigmoid", value: (z) => 1 / (1 + Math.exp(-z)), slope: (a) => a * (1 - a) },
  linear: { label: "linear", value: (z) => z, slope: () => 1 },
};
