// The eigenvalues of J = I + lam DB(z), and the interval that lam and slope allow them.

import { drawAxes, drawDot, roundTicks } from "./axes.js";

export function drawEigenvalues(canvas, { values, lam, slope }, colors) {
  const bound = 1 - lam * slope; // the other end of the interval is 1
  const from = Math.min(-0.25, bound, 1) * 1.1;
  const to = Math.max(1.5, bound * 1.05);
  const plot = drawAxes(canvas, colors, {
    x: { from, to, ticks: roundTicks(from, to, 5), name: "eigenvalue of J" },
    y: null,
  });
  const { context, toX, left, top, bottom } = plot;
  const [low, high] = [Math.min(1, bound), Math.max(1, bound)];
  context.globalAlpha = 0.15;
  context.fillStyle = colors.warning;
  context.fillRect(left, top, toX(0) - left, bottom - top);
  context.fillStyle = colors.implicit;
  context.fillRect(toX(low) - 1, top + 8, toX(high) - toX(low) + 2, bottom - top - 16);
  context.globalAlpha = 1;
  context.beginPath();
  context.moveTo(toX(0), top);
  context.lineTo(toX(0), bottom);
  context.lineWidth = 1.5;
  context.strokeStyle = colors.warning;
  context.stroke();
  // one below the other: many may be equal
  values.forEach((value, i) => {
    const height = top + 8 + ((i + 0.5) / values.length) * (bottom - top - 16);
    const color = value > 0 ? colors.implicit : colors.warning;
    drawDot(context, toX(value), height, 4.5, color, colors.paper);
  });
}
