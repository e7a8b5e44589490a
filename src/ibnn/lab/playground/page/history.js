// The losses of both networks in bounded memory: when it is full, every second value is dropped.

const CAPACITY = 1024;

export class LossHistory {
  constructor() {
    this.standard = new Float32Array(CAPACITY);
    this.implicit = new Float32Array(CAPACITY);
    this.clear();
  }

  clear() {
    this.length = 0;
    this.stride = 1; // steps between two values that are kept
    this.steps = 0;
  }

  add(standard, implicit) {
    if (this.steps++ % this.stride) return;
    if (this.length === CAPACITY) {
      for (let i = 0; i < CAPACITY / 2; i++) {
        this.standard[i] = this.standard[2 * i];
        this.implicit[i] = this.implicit[2 * i];
      }
      this.length = CAPACITY / 2;
      this.stride *= 2;
    }
    this.standard[this.length] = standard;
    this.implicit[this.length++] = implicit;
  }
}
