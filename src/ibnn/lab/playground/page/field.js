// A network's logit and its hidden units' z on a square lattice over the plane.

export const REACH = 1.1; // the pictures show [-REACH, REACH] in both directions
const FINEST = 128;
const COARSEST = 24;

export class Field {
  constructor() {
    this.side = 0;
    this.logits = new Float32Array(FINEST * FINEST);
    this.units = []; // [layer][unit]: z on the lattice
    this._cost = 0.002; // milliseconds a point, measured
  }

  /** Evaluates the network on the finest lattice that takes about `budget` milliseconds. */
  update(network, budget) {
    const affordable = Math.sqrt(budget / this._cost);
    const side = Math.max(COARSEST, Math.min(FINEST, 8 * Math.floor(affordable / 8)));
    const began = performance.now();
    this._makeRoom(network);
    this.side = side;
    const step = (2 * REACH) / (side - 1);
    for (let row = 0; row < side; row++)
      for (let column = 0; column < side; column++) this._keep(network, row, column, step);
    const cost = (performance.now() - began) / (side * side);
    this._cost += 0.3 * (Math.max(cost, 1e-5) - this._cost); // clocks may be coarse
  }

  /** Rows run downwards, as pixels do. */
  _keep(network, row, column, step) {
    const at = row * this.side + column;
    this.logits[at] = network.forward(column * step - REACH, REACH - row * step);
    for (let i = 0; i < network.hidden.length; i++) {
      const { z } = network.hidden[i];
      for (let k = 0; k < z.length; k++) this.units[i][k][at] = z[k];
    }
  }

  _makeRoom({ hidden }) {
    const units = hidden[0].outputs;
    if (this.units.length === hidden.length && this.units[0].length === units) return;
    this.units = hidden.map((layer) =>
      Array.from({ length: layer.outputs }, () => new Float32Array(FINEST * FINEST)),
    );
  }
}
