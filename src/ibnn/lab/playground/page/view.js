// Everything the page shows of a comparison: planes, units, numbers, plots.

import { readColors } from "./draw/colors.js";
import { drawEigenvalues } from "./draw/eigenvalues.js";
import { drawEnergy } from "./draw/energy.js";
import { drawLoss } from "./draw/loss.js";
import { drawMap } from "./draw/map.js";
import { drawPlane } from "./draw/plane.js";
import { shortNumber } from "./draw/axes.js";
import { drawUnits, makeUnitPictures } from "./draw/units.js";
import { Field } from "./field.js";
import { lookInto } from "./probe.js";

const element = (id) => document.getElementById(id);
const percent = (fraction) =>
  Number.isNaN(fraction) ? "no points" : `${(100 * fraction).toFixed(1)} %`;
const SIDES = ["standard", "implicit"];

export class View {
  constructor(comparison, settings) {
    this.comparison = comparison;
    this.settings = settings;
    this.layer = 0; // the hidden layer that is looked into
    this.fields = [new Field(), new Field()];
    this.planes = SIDES.map((side) => element(`${side}-plane`));
    this.recolor();
  }

  recolor() {
    this.colors = readColors();
  }

  /** Other networks than before: new pictures of the units. */
  rebuild(chooseLayer) {
    const { networks } = this.comparison;
    this.layer = Math.min(this.layer, networks[0].hidden.length - 1);
    const { style } = document.documentElement;
    style.setProperty("--layers", networks[0].hidden.length);
    style.setProperty("--units", networks[0].hidden[0].outputs);
    this.pictures = SIDES.map((side, i) =>
      makeUnitPictures(element(`${side}-units`), networks[i], `${side} network`, chooseLayer),
    );
  }

  /** One network's plane and units; `budget` in milliseconds decides how fine. */
  drawNetwork(i, budget) {
    const network = this.comparison.networks[i];
    this.fields[i].update(network, budget);
    drawPlane(this.planes[i], this.fields[i], this.comparison.training, this.settings, this.colors);
    drawUnits(this.pictures[i], this.fields[i], network, this.colors);
  }

  drawNumbers() {
    const { networks, heldOut, steps } = this.comparison;
    element("steps").textContent = steps.toLocaleString("en");
    networks.forEach((network, i) => {
      const { accuracy, loss } = network;
      const unseen = heldOut ? percent(network.accuracyOn(heldOut)) : null;
      element(`${SIDES[i]}-accuracy`).textContent = percent(accuracy);
      element(`${SIDES[i]}-detail`).textContent = unseen ? `test ${unseen}` : "";
      this.planes[i].setAttribute(
        "aria-label",
        `Decision of the ${SIDES[i]} network: ${percent(accuracy)} of the points right, ` +
          `loss ${shortNumber(loss || 0)}. Arrow keys move the chosen point.`,
      );
    });
  }

  drawLoss() {
    drawLoss(element("loss-plot"), this.comparison.history, this.colors);
  }

  /** The three plots of the solve at the chosen point. */
  drawSolve() {
    const { hidden } = this.comparison.implicit;
    const seen = lookInto(this.comparison.implicit, this.layer, this.settings);
    element("layer-name").textContent = hidden.length > 1 ? `of layer ${this.layer + 1}` : "";
    for (const box of document.querySelectorAll(".units"))
      [...box.children].forEach((row, i) =>
        row.classList.toggle("chosen", i === this.layer),
      );
    drawMap(element("map-plot"), seen, this.colors);
    drawEnergy(element("energy-plot"), seen.energies, this.colors);
    drawEigenvalues(element("eigenvalues-plot"), seen, this.colors);
    const another = hidden.length > 1 ? " Press a hidden unit for another layer." : "";
    for (const [name, text] of Object.entries(describe(seen, this.settings, another))) {
      element(`${name}-caption`).textContent = text;
      element(`${name}-plot`).setAttribute("aria-label", text);
    }
  }
}

function describe({ energies, residual, values, lam, slope }, { x, y }, another) {
  const steps = energies.length - 1;
  const [least, most] = [values[0], values[values.length - 1]].map(shortNumber);
  const place = `(${shortNumber(x)}, ${shortNumber(y)})`;
  const counted = `${steps} step${steps > 1 ? "s" : ""}`;
  return {
    map: `Units at the chosen point ${place}. Dashed: standard.${another}`,
    energy: steps
      ? `Above its minimum, from z = y: ${counted}, residual ${shortNumber(residual)}.`
      : "Nothing to solve here: z = y already.",
    eigenvalues:
      `From ${least} to ${most}; band: what λ and p allow. ` +
      (lam * slope > 1 ? "It reaches below 0: solutions may split." : "Above 0: one solution."),
  };
}
