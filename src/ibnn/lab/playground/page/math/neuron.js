// The implicit bias of one layer: z_i = y_i - lam * mean_k tanh(slope * (z_k - z_i)).
//
// z is a minimum of the energy E(z) = |z - y|^2 / 2 - lam / (2 D) sum_ik S(z_k - z_i), where S is
// the primitive of tanh(slope x). Its gradient is the residual z - y + lam B(z), its Hessian is
// J = I + lam DB(z): symmetric, so the same factor serves Newton's steps and the gradients.

import { cholesky, choleskySolve } from "./symmetric.js";

const MAX_STEPS = 100;
const ACCURACY = 1e-13; // of the residual, for |y| of order one: a few hundred roundings
const ARMIJO = 1e-4; // fraction of the predicted decrease a step must give (Nocedal & Wright)
const SMALLEST_STEP = 2 ** -40;

/** Largest lam with one solution for every y: J has no eigenvalue below 1 - lam * slope. */
export const threshold = (slope) => 1 / slope;

/** Finds z and carries gradients back through it, for one row of `units` units at a time. */
export class ImplicitBias {
  constructor(units) {
    this.units = units;
    this.bias = new Float64Array(units); // B(z)
    this.residual = new Float64Array(units);
    this.jacobian = new Float64Array(units * units);
    this.energy = 0;
    this.steps = 0;
    this.isMinimum = true; // J positive definite at z: fails only at a saddle, above the threshold
    this.trace = null; // an array to collect the energy of every iterate in
    this._lower = new Float64Array(units * units);
    this._direction = new Float64Array(units);
    this._trial = new Float64Array(units);
  }

  /** Writes the solution into `z`: Newton from z = y, damped on the energy. */
  solve(y, z, lam, slope) {
    const { units, residual, _direction: direction, _trial: trial } = this;
    let size = 1;
    for (let i = 0; i < units; i++) {
      z[i] = y[i];
      size = Math.max(size, Math.abs(y[i]));
    }
    this.evaluate(z, y, lam, slope);
    this.steps = 0;
    this.trace?.push(this.energy);
    while (this.steps < MAX_STEPS && largest(residual, units) > ACCURACY * size) {
      this._factor(lam, slope);
      for (let i = 0; i < units; i++) direction[i] = -residual[i];
      choleskySolve(this._lower, direction, units);
      let descent = 0;
      for (let i = 0; i < units; i++) descent += residual[i] * direction[i];
      // energies that differ by less than their own rounding say nothing: then the step is taken
      const before = this.energy + 1e-15 * units * size * size;
      let step = 1;
      for (; step >= SMALLEST_STEP; step /= 2) {
        for (let i = 0; i < units; i++) trial[i] = z[i] + step * direction[i];
        this.evaluate(trial, y, lam, slope);
        if (this.energy <= before + ARMIJO * step * descent) break;
      }
      if (step < SMALLEST_STEP) break;
      for (let i = 0; i < units; i++) z[i] = trial[i];
      this.steps++;
      this.trace?.push(this.energy);
    }
    this.isMinimum = this._factor(lam, slope);
  }

  /** Replaces dL/dz by dL/dy = J^-1 dL/dz (J is symmetric), at the z of the last solve. */
  pullBack(gradient) {
    choleskySolve(this._lower, gradient, this.units);
  }

  /** dL/dlam from dL/dy. */
  lamGradient(gradient) {
    let sum = 0;
    for (let i = 0; i < this.units; i++) sum += gradient[i] * this.bias[i];
    return -sum;
  }

  /** Energy, residual, B and J at z. */
  evaluate(z, y, lam, slope) {
    const { units, bias, residual, jacobian } = this;
    const weight = 1 / units;
    for (let i = 0; i < units; i++) {
      bias[i] = 0;
      jacobian[i * units + i] = 1;
    }
    // S(x) = (|u| + log(1 + exp(-2 |u|)) - log 2) / slope with u = slope * x; the logarithms of all
    // pairs are taken as one of their product
    let distances = 0;
    let product = 1;
    for (let i = 0; i < units; i++) {
      for (let k = i + 1; k < units; k++) {
        const x = slope * (z[k] - z[i]);
        const size = Math.abs(x);
        const decay = Math.exp(-2 * size);
        const inverse = 1 / (1 + decay);
        distances += size;
        product *= (1 + decay) / 2;
        const tanh = (1 - decay) * inverse * weight;
        const signed = x < 0 ? -tanh : tanh;
        bias[i] += signed;
        bias[k] -= signed;
        const pull = lam * slope * weight * 4 * decay * inverse * inverse; // tanh' = 1/cosh^2
        jacobian[i * units + k] = jacobian[k * units + i] = pull;
        jacobian[i * units + i] -= pull;
        jacobian[k * units + k] -= pull;
      }
    }
    let square = 0;
    for (let i = 0; i < units; i++) {
      const moved = z[i] - y[i];
      square += moved * moved;
      residual[i] = moved + lam * bias[i];
    }
    this.energy = square / 2 - (lam * weight * (distances + Math.log(product))) / slope;
  }

  /** Factor of J, or of J shifted just enough to be positive definite; says whether J was. */
  _factor(lam, slope) {
    // no eigenvalue lies below 1 - lam * slope, so the last shift suffices unless J is not finite
    const most = Math.max(lam * slope - 1, 1e-9);
    let shift = 0;
    while (!cholesky(this.jacobian, this._lower, this.units, shift) && shift <= most)
      shift = shift === 0 ? most / 256 : 2 * shift;
    return shift === 0;
  }
}

function largest(vector, size) {
  let most = 0;
  for (let i = 0; i < size; i++) most = Math.max(most, Math.abs(vector[i]));
  return most;
}
