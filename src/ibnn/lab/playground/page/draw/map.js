// The map y -> z at one point: every unit lies on the curve y = t + lam mean_k tanh(p (z_k - t)).
//
// Below the threshold the curve rises everywhere; above it it can fold, and a fold is several
// solutions.

import { drawAxes, drawDot, roundTicks } from "./axes.js";

const SAMPLES = 400;

export function drawMap(canvas, { y, z, lam, slope }, colors) {
  const all = [...y, ...z];
  const middle = (Math.max(...all) + Math.min(...all)) / 2;
  const half = Math.max(0.15, (0.62 * (Math.max(...all) - Math.min(...all))));
  const [from, to] = [middle - half, middle + half];
  const ticks = roundTicks(from, to);
  const plot = drawAxes(canvas, colors, {
    x: { from, to, ticks, name: "y, what the unit computes" },
    y: { from, to, ticks, name: "z, after the coupling" },
  });
  const { context, toX, toY } = plot;
  context.save();
  context.beginPath();
  context.rect(plot.left, plot.top, plot.right - plot.left, plot.bottom - plot.top);
  context.clip();
  context.beginPath();
  context.moveTo(toX(from), toY(from));
  context.lineTo(toX(to), toY(to));
  context.setLineDash([5, 3]);
  context.lineWidth = 1.5;
  context.strokeStyle = colors.standard;
  context.stroke();
  context.setLineDash([]);
  context.beginPath();
  for (let i = 0; i <= SAMPLES; i++) {
    const t = from + ((to - from) * i) / SAMPLES;
    let bias = 0;
    for (const other of z) bias += Math.tanh(slope * (other - t)) / z.length;
    context.lineTo(toX(t + lam * bias), toY(t));
  }
  context.lineWidth = 2;
  context.strokeStyle = colors.implicit;
  context.stroke();
  context.restore();
  context.textAlign = "center";
  context.textBaseline = "bottom";
  z.forEach((value, i) => {
    const [left, top] = [toX(y[i]), toY(value)];
    drawDot(context, left, top, 4.5, colors.implicit, colors.paper);
    context.fillStyle = colors.ink;
    context.fillText(i + 1, left, top - 6);
  });
}
