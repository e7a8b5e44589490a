// What a network says everywhere in the plane: probabilities, boundary, points, the chosen point.

import { REACH } from "../field.js";
import { clear } from "./canvas.js";
import { rampIndex } from "./colors.js";
import { paint, traceZero } from "./lattice.js";

export function drawPlane(canvas, field, data, chosen, colors) {
  const { context, width: size } = clear(canvas);
  const { side, logits } = field;
  // tanh(logit / 2) = 2 * probability - 1
  paint(context, side, size, (i) => colors.classes[rampIndex(Math.tanh(logits[i] / 2))]);
  if (data.labels.length) drawPoints(context, size, data, colors);
  else invite(context, size, colors);
  context.beginPath();
  traceZero(context, logits, side, size);
  context.lineWidth = 2;
  context.lineCap = "round";
  context.strokeStyle = colors.ink;
  context.stroke();
  drawChosen(context, size, chosen, colors);
}

/** Pixels of a coordinate, and back. */
const across = (x, size) => ((x + REACH) / (2 * REACH)) * size;
const down = (y, size) => ((REACH - y) / (2 * REACH)) * size;

/** The place in the plane under a pointer. */
export function placeOf(event, canvas) {
  const box = canvas.getBoundingClientRect();
  const limit = (value) => Math.max(-1, Math.min(1, value));
  return [
    limit(((event.clientX - box.left) / box.width) * 2 * REACH - REACH),
    limit(REACH - ((event.clientY - box.top) / box.height) * 2 * REACH),
  ];
}

function invite(context, size, colors) {
  context.font = "15px system-ui, sans-serif";
  context.textAlign = "center";
  context.fillStyle = colors.ink;
  context.fillText("Draw points here", size / 2, size * 0.8);
}

function drawPoints(context, size, { points, labels }, colors) {
  const radius = Math.max(1.4, size / 150);
  for (const label of [0, 1]) {
    context.beginPath();
    for (let i = 0; i < labels.length; i++) {
      if (labels[i] !== label) continue;
      const x = across(points[2 * i], size);
      const y = down(points[2 * i + 1], size);
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
    }
    context.fillStyle = label ? colors.one : colors.zero;
    context.strokeStyle = colors.paper;
    context.lineWidth = 0.6;
    context.stroke();
    context.fill();
  }
}

function drawChosen(context, size, { x, y }, colors) {
  const [left, top] = [across(x, size), down(y, size)];
  for (const [width, color] of [[5, colors.paper], [2, colors.ink]]) {
    context.beginPath();
    context.arc(left, top, 6, 0, 2 * Math.PI);
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      context.moveTo(left + 6 * dx, top + 6 * dy);
      context.lineTo(left + 11 * dx, top + 11 * dy);
    }
    context.lineWidth = width;
    context.strokeStyle = color;
    context.stroke();
  }
}
