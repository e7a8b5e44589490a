// A small picture of each hidden unit: how active it is, and the line on which it switches.

import { clear } from "./canvas.js";
import { rampIndex } from "./colors.js";
import { paint, traceZero } from "./lattice.js";

/** Makes one canvas a unit inside `box`, a row a layer; returns them as [layer][unit]. */
export function makeUnitPictures(box, { hidden }, name, choose) {
  box.replaceChildren();
  return hidden.map((layer, i) => {
    const row = document.createElement("div");
    row.className = "layer";
    row.setAttribute("role", "group");
    row.setAttribute("aria-label", `Layer ${i + 1}`);
    box.append(row);
    return Array.from({ length: layer.outputs }, (_, k) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "unit";
      button.setAttribute("aria-label", `${name}, layer ${i + 1}, unit ${k + 1}: show this layer`);
      button.addEventListener("click", () => choose(i));
      const canvas = document.createElement("canvas");
      const label = document.createElement("span");
      label.textContent = k + 1;
      button.append(canvas, label);
      row.append(button);
      return canvas;
    });
  });
}

export function drawUnits(pictures, field, network, colors) {
  const { activation, head, hidden, parameters } = network;
  pictures.forEach((layer, i) =>
    layer.forEach((canvas, k) => {
      drawUnit(canvas, field.units[i][k], field.side, activation.value, colors);
      const last = i === hidden.length - 1;
      const vote = last ? parameters[head.weight + k] : 0;
      canvas.style.borderColor = vote > 0 ? colors.one : vote < 0 ? colors.zero : colors.quiet;
    }),
  );
}

function drawUnit(canvas, values, side, activation, colors) {
  const { context, width: size } = clear(canvas);
  let most = 1e-9;
  for (let i = 0; i < side * side; i++) most = Math.max(most, Math.abs(activation(values[i])));
  paint(context, side, size, (i) => colors.activity[rampIndex(activation(values[i]) / most)]);
  context.beginPath();
  traceZero(context, values, side, size);
  context.lineWidth = 1.5;
  context.strokeStyle = colors.ink;
  context.stroke();
}
