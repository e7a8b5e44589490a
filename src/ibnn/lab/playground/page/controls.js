// The inputs of the page: each shows one setting and reports when a person changes it.

import { shapes } from "./data/shapes.js";
import { activations } from "./math/activation.js";
import { threshold } from "./math/neuron.js";
import { choices } from "./settings.js";
import { shortNumber } from "./draw/axes.js";

const element = (id) => document.getElementById(id);

const three = (value) => Number(value.toPrecision(3));
const logarithmic = (low, high) => ({
  toValue: (at) => three(low * (high / low) ** (at / 100)),
  toPosition: (value) => (100 * Math.log(value / low)) / Math.log(high / low),
});
const same = { toValue: Number, toPosition: Number };

// From the position of a slider to the value, and back.
const scales = {
  // finest around 0, where the threshold of large slopes lies
  lam: {
    toValue: (at) => three((2 * at * Math.abs(at)) / 1e4),
    toPosition: (lam) => Math.sign(lam) * Math.sqrt(Math.abs(lam) / 2) * 100,
  },
  slope: logarithmic(1, 100),
  rate: logarithmic(0.001, 1),
  units: same,
  layers: same,
  points: same,
};

const BRUSHES = { 0: "class 0", 1: "class 1", erase: "erase" };
const DATA = Object.fromEntries([...Object.keys(shapes), "draw"].map((name) => [name, name]));

export class Controls {
  /** `changed(name, value)` is called with what a person chose. */
  constructor(changed) {
    this._data = chips(element("data"), "data", DATA, (value) => changed("data", value));
    this._brush = chips(element("brush"), "brush", BRUSHES, () => {});
    this._brush("1");
    for (const [name, scale] of Object.entries(scales)) {
      const [exact, range] = [element(name), element(`${name}-range`)];
      range.addEventListener("input", () => changed(name, scale.toValue(Number(range.value))));
      exact.addEventListener("change", () => changed(name, choices[name].read(exact.value)));
    }
    const activation = element("activation");
    for (const [name, { label }] of Object.entries(activations))
      activation.append(new Option(label, name));
    activation.addEventListener("change", () => changed("activation", activation.value));
    const learn = element("learnLam");
    learn.addEventListener("change", () => changed("learnLam", learn.checked));
  }

  /** Which brush is chosen: a label, or null to erase. */
  get brush() {
    const { value } = document.querySelector("#brush input:checked");
    return value === "erase" ? null : Number(value);
  }

  /** Shows all settings; `lam` is the one in use, which may be learnt. */
  show(settings, lam) {
    this._data(settings.data);
    for (const [name, scale] of Object.entries(scales)) {
      element(name).value = settings[name];
      element(`${name}-range`).value = scale.toPosition(settings[name]);
      element(`${name}-range`).setAttribute("aria-valuetext", shortNumber(settings[name]));
    }
    element("activation").value = settings.activation;
    element("learnLam").checked = settings.learnLam;
    const drawing = settings.data === "draw";
    element("brushes").hidden = !drawing;
    element("points-control").hidden = drawing;
    document.body.classList.toggle("drawing", drawing);
    this.showLam(lam, settings.slope);
  }

  /** lam against its threshold. */
  showLam(lam, slope) {
    const limit = threshold(slope);
    const mark = (scales.lam.toPosition(limit) + 100) / 200;
    element("lam-track").style.setProperty("--at", mark);
    element("lam-range").value = scales.lam.toPosition(lam);
    const exact = element("lam");
    // not while a person types
    if (document.activeElement !== exact) exact.value = Number(lam.toPrecision(4));
    const state = element("lam-state");
    const text = describeLam(lam, limit);
    state.classList.toggle("warning", lam > limit);
    if (state.textContent !== text) state.textContent = text;
  }
}

function describeLam(lam, limit) {
  const at = `1/p = ${shortNumber(limit)}`;
  if (lam === 0) return "λ = 0: the standard neuron.";
  if (lam < 0) return "λ < 0: units pull each other together. One solution, always.";
  if (lam <= limit) return `Units push each other apart. One solution, up to ${at}.`;
  return `Above ${at}: several solutions are possible; shown is the one downhill from z = y.`;
}

/** Radio buttons; returns the function that checks one. */
function chips(box, name, labels, chosen) {
  for (const [value, text] of Object.entries(labels)) {
    const label = document.createElement("label");
    const input = document.createElement("input");
    const span = document.createElement("span");
    Object.assign(input, { type: "radio", name, value });
    input.addEventListener("change", () => chosen(value));
    span.textContent = text;
    label.append(input, span);
    box.append(label);
  }
  return (value) => {
    box.querySelector(`[value="${value}"]`).checked = true;
  };
}
