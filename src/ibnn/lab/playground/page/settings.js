// Everything a person can choose, its limits, and the link that carries it.

import { activations } from "./math/activation.js";
import { shapes } from "./data/shapes.js";

const number = (initial, low, high) => ({
  initial,
  read: (text) => {
    const value = text.trim() === "" ? NaN : Number(text);
    return Number.isFinite(value) ? Math.max(low, Math.min(high, value)) : initial;
  },
});
const whole = (initial, low, high) => {
  const { read } = number(initial, low, high);
  return { initial, read: (text) => Math.round(read(text)) };
};
const choice = (initial, names) => ({
  initial,
  read: (text) => (names.includes(text) ? text : initial),
});
const yes = (initial) => ({ initial, read: (text) => text === "true" });

// With these the standard network comes close to the best of its restarts (see the tests).
export const choices = {
  data: choice("arrows", [...Object.keys(shapes), "draw"]),
  points: whole(500, 100, 1000),
  lam: number(-1, -2, 2),
  slope: number(10, 1, 100),
  learnLam: yes(false),
  units: whole(3, 1, 8),
  layers: whole(1, 1, 3),
  activation: choice("relu", Object.keys(activations)),
  rate: number(0.03, 0.0001, 1),
  seed: whole(8, 0, 999999),
  x: number(-0.1, -1, 1), // the point whose solve is shown
  y: number(0.3, -1, 1),
  drawn: { initial: "", read: (text) => text },
};

export function defaults() {
  return Object.fromEntries(Object.entries(choices).map(([name, { initial }]) => [name, initial]));
}

/** Settings from the part of a link after "#"; what is missing or unknown stays at its default. */
export function fromLink(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const settings = defaults();
  for (const [name, { read }] of Object.entries(choices))
    if (given.has(name)) settings[name] = read(given.get(name));
  return settings;
}

/** The part of a link after "#": only what differs from the defaults. */
export function toLink(settings) {
  const changed = Object.entries(choices)
    .filter(([name, { initial }]) => settings[name] !== initial)
    .map(([name]) => [name, String(settings[name])]);
  return new URLSearchParams(changed).toString();
}
