// Adam (Kingma & Ba 2015) on a flat array of parameters.

const BETA1 = 0.9;
const BETA2 = 0.999;
const EPSILON = 1e-8;

export class Adam {
  constructor(size) {
    this.mean = new Float64Array(size);
    this.square = new Float64Array(size);
    this.steps = 0;
  }

  /** One step on the first `count` parameters. */
  step(parameters, gradient, rate, count) {
    this.steps++;
    const scale = (rate * Math.sqrt(1 - BETA2 ** this.steps)) / (1 - BETA1 ** this.steps);
    const epsilon = EPSILON * Math.sqrt(1 - BETA2 ** this.steps);
    for (let i = 0; i < count; i++) {
      this.mean[i] += (1 - BETA1) * (gradient[i] - this.mean[i]);
      this.square[i] += (1 - BETA2) * (gradient[i] * gradient[i] - this.square[i]);
      parameters[i] -= (scale * this.mean[i]) / (Math.sqrt(this.square[i]) + epsilon);
    }
  }
}
