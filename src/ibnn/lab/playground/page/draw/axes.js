// The frame of a small plot: scales, tick labels, axis names.

import { clear } from "./canvas.js";

const FONT = "11px system-ui, sans-serif";
const LEFT = 40;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 30;

/**
 * Clears the canvas and draws axes; returns the context and the two scales.
 *
 * `x` and `y` are {from, to, ticks: [[value, label], ...], name}; y may be null (no vertical axis).
 */
export function drawAxes(canvas, colors, { x, y }) {
  const { context, width, height } = clear(canvas);
  const left = y ? LEFT + (y.name ? 10 : 0) : RIGHT;
  const [right, top, bottom] = [width - RIGHT, TOP, height - BOTTOM];
  const toX = (value) => left + ((value - x.from) / (x.to - x.from)) * (right - left);
  const toY = y ? (value) => bottom - ((value - y.from) / (y.to - y.from)) * (bottom - top) : null;
  const sharp = (pixel) => Math.round(pixel) + 0.5; // the middle of a pixel
  context.font = FONT;
  context.lineWidth = 1;
  context.strokeStyle = colors.line;
  context.fillStyle = colors.quiet;
  context.beginPath();
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const [value, label] of x.ticks) {
    context.moveTo(sharp(toX(value)), y ? top : bottom);
    context.lineTo(sharp(toX(value)), bottom + 3);
    const half = Math.ceil(context.measureText(label).width / 2);
    context.fillText(label, Math.min(Math.round(toX(value)), width - half), bottom + 5);
  }
  context.fillText(x.name, Math.round((left + right) / 2), height - 12);
  if (y) {
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const [value, label] of y.ticks) {
      context.moveTo(left - 3, sharp(toY(value)));
      context.lineTo(right, sharp(toY(value)));
      context.fillText(label, left - 6, Math.round(toY(value)));
    }
    context.save();
    context.translate(7, (top + bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(y.name, 0, 0);
    context.restore();
  }
  context.moveTo(left, sharp(bottom));
  context.lineTo(right, sharp(bottom));
  context.stroke();
  return { context, toX, toY, left, right, top, bottom };
}

/** Round numbers within [from, to], about `count` of them, with labels. */
export function roundTicks(from, to, count = 4) {
  const rough = (to - from) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + 1e-9 * step; i++)
    ticks.push([i * step, shortNumber(i * step)]);
  return ticks;
}

/** A number of at most three digits, with a true minus. */
export function shortNumber(value) {
  const text = value === 0 ? "0" : String(Number(value.toPrecision(3)));
  return text.replace("e-", "e−").replace(/^-/, "−");
}

export function drawDot(context, x, y, radius, color, edge) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = color;
  context.fill();
  context.lineWidth = 1.5;
  context.strokeStyle = edge;
  context.stroke();
}
