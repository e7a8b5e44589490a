// Points drawn by hand on a fine lattice, so that a link can carry them exactly.

const MOST = 600;
const LEVELS = 4095; // per axis: two letters of base 64
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const SPREAD = 0.05; // of a dab around the pointer

export class Drawing {
  constructor(text = "") {
    this.points = []; // [x, y, label]
    this.read(text);
  }

  dataset() {
    return {
      points: Float64Array.from(this.points.flatMap(([x, y]) => [x, y])),
      labels: Uint8Array.from(this.points, (point) => point[2]),
    };
  }

  /** A dab of `count` points around a place; says whether there was room. */
  add(x, y, label, count = 1) {
    for (let i = 0; i < count && this.points.length < MOST; i++) {
      const angle = 2 * Math.PI * Math.random();
      const radius = count > 1 ? SPREAD * Math.sqrt(Math.random()) : 0;
      const place = [x + radius * Math.cos(angle), y + radius * Math.sin(angle)];
      this.points.push([...place.map(onLattice), label]);
    }
    return this.points.length < MOST;
  }

  erase(x, y, radius = 0.08) {
    this.points = this.points.filter((point) => Math.hypot(point[0] - x, point[1] - y) > radius);
  }

  clear() {
    this.points = [];
  }

  /** Class 0, a dot, class 1; four letters a point. */
  toString() {
    const word = (label) =>
      this.points
        .filter((point) => point[2] === label)
        .flatMap(([x, y]) => [level(x), level(y)])
        .map((value) => LETTERS[value >> 6] + LETTERS[value & 63])
        .join("");
    return this.points.length ? `${word(0)}.${word(1)}` : "";
  }

  /** Points from such a text; what cannot be read is left out. */
  read(text) {
    this.points = [];
    text.split(".", 2).forEach((word, label) => {
      for (const [four] of word.matchAll(/[\w-]{4}/g)) {
        const [a, b, c, d] = [...four].map((letter) => LETTERS.indexOf(letter));
        if (this.points.length < MOST)
          this.points.push([coordinate(64 * a + b), coordinate(64 * c + d), label]);
      }
    });
  }
}

const level = (x) => Math.round(((Math.max(-1, Math.min(1, x)) + 1) / 2) * LEVELS);
const coordinate = (value) => (2 * value) / LEVELS - 1;
const onLattice = (x) => coordinate(level(x));
