// A standard and an implicit network on the same points, from the same weights, step by step.

import { Adam } from "./math/adam.js";
import { Network } from "./math/network.js";
import { threshold } from "./math/neuron.js";
import { randomSource } from "./math/random.js";
import { drawShape } from "./data/shapes.js";
import { LossHistory } from "./history.js";

const DATA_SEED = 1; // the points stay the same when the weights are drawn anew
const HELD_OUT_SEED = 2;
const MOST_OF_THRESHOLD = 0.95; // a learnt lam stays below it, as in the library's layers

export class Comparison {
  /** `drawing` holds the points drawn by hand, which are used when `settings.data` is "draw". */
  constructor(settings, drawing) {
    this.drawing = drawing;
    this.history = new LossHistory();
    this.restart(settings);
  }

  /** New points and new weights; everything that was learnt is gone. */
  restart(settings) {
    const { data, points, units, layers, activation, seed } = settings;
    const drawn = data === "draw";
    this.training = drawn ? this.drawing.dataset() : drawShape(data, points, DATA_SEED);
    this.heldOut = drawn ? null : drawShape(data, points, HELD_OUT_SEED);
    this.standard = new Network({ units, layers, activation });
    this.implicit = new Network({ units, layers, activation, lam: settings.lam });
    this.networks = [this.standard, this.implicit];
    this.optimizers = this.networks.map((network) => new Adam(network.parameters.length));
    for (const network of this.networks) network.initialize(randomSource(seed));
    this.history.clear();
    this.steps = 0;
    this.adjust(settings);
  }

  /** What may change while training. */
  adjust({ slope, rate, learnLam }) {
    this.rate = rate;
    this.learnLam = learnLam;
    this.implicit.slope = slope;
    this._measure();
  }

  /** Sets lam, also over one that was learnt. */
  setLam(lam) {
    this.implicit.lam = lam;
    this._measure();
  }

  /** Takes up points that were added or erased by hand, and keeps the weights. */
  takePoints() {
    this.training = this.drawing.dataset();
    this._measure();
  }

  /** One step of Adam on all points, in both networks; false if there are no points. */
  step() {
    if (!this.training.labels.length) return false;
    for (let i = 0; i < 2; i++) {
      const network = this.networks[i];
      const learnsLam = network.implicit && this.learnLam;
      const count = network.lamAt + (learnsLam ? 1 : 0);
      this.optimizers[i].step(network.parameters, network.gradient, this.rate, count);
      if (learnsLam)
        network.lam = Math.min(network.lam, MOST_OF_THRESHOLD * threshold(network.slope));
    }
    this.steps++;
    this._measure();
    this.history.add(this.standard.loss, this.implicit.loss);
    return true;
  }

  /** Loss, accuracy and gradient of both networks as they are now. */
  _measure() {
    for (const network of this.networks) network.evaluate(this.training);
  }
}
