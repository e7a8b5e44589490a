// Two classes of points in the plane: the sets of `ibnn.lab.data.plane`, drawn from a seed.

import { normal, randomSource } from "../math/random.js";

/** Corners of an arrow pointing right: where it begins, widens and ends, and two half widths. */
function arrow(tail, neck, tip, shaft, head) {
  const upper = [[tail, shaft], [neck, shaft], [neck, head]];
  const lower = upper.map(([x, y]) => [x, -y]).reverse();
  return [...upper, [tip, 0], ...lower];
}

/** Class 0 is the ring between the first two outlines, class 1 the third. */
export const arrowOutlines = [
  arrow(-0.96, -0.3, 0.96, 0.45, 0.96),
  arrow(-0.8, -0.12, 0.72, 0.2, 0.7),
  arrow(-0.72, -0.04, 0.6, 0.12, 0.54),
];

/** Whether a point lies in a polygon: a ray to the right crosses an odd number of its edges. */
function inside(x, y, corners) {
  let odd = false;
  corners.forEach(([x0, y0], i) => {
    const [x1, y1] = corners[(i + 1) % corners.length];
    if (y0 > y !== y1 > y && x < x0 + ((y - y0) * (x1 - x0)) / (y1 - y0)) odd = !odd;
  });
  return odd;
}

function arrows(label, random) {
  const [ring, hole, inner] = arrowOutlines;
  for (;;) {
    const x = 2 * random() - 1;
    const y = 2 * random() - 1;
    if (label ? inside(x, y, inner) : inside(x, y, ring) && !inside(x, y, hole)) return [x, y];
  }
}

function moons(label, random) {
  const angle = Math.PI * random();
  const side = label ? -0.6 : 0.6;
  return [
    side * (Math.cos(angle) - 0.5) + 0.06 * normal(random),
    side * (Math.sin(angle) - 0.25) + 0.06 * normal(random),
  ];
}

function circles(label, random) {
  const angle = 2 * Math.PI * random();
  const radius = (label ? 0.4 : 0.85) + 0.06 * normal(random);
  return [radius * Math.cos(angle), radius * Math.sin(angle)];
}

function spirals(label, random) {
  const turn = Math.sqrt(0.01 + 0.99 * random()); // the root spreads the points along the arms
  const angle = 3 * Math.PI * turn + Math.PI * label;
  return [
    0.95 * turn * Math.cos(angle) + 0.02 * normal(random),
    0.95 * turn * Math.sin(angle) + 0.02 * normal(random),
  ];
}

export const shapes = { arrows, moons, circles, spirals };

/** `count` points of a shape, the two classes in turn: coordinates x, y in turn, and labels. */
export function drawShape(name, count, seed) {
  const random = randomSource(seed);
  const points = new Float64Array(2 * count);
  const labels = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    labels[i] = i % 2;
    points.set(shapes[name](labels[i], random), 2 * i);
  }
  return { points, labels };
}
