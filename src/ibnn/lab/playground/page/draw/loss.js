// The loss of both networks over the steps, on a logarithmic scale.

import { drawAxes } from "./axes.js";

const FEW = [1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4, 1e-5];
const MANY = [1, 0.7, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1]; // for less than a decade

export function drawLoss(canvas, history, colors) {
  const { standard, implicit, length, stride, steps } = history;
  let low = 0.2;
  let high = 0.8;
  for (let i = 0; i < length; i++) {
    low = Math.min(low, standard[i], implicit[i]);
    high = Math.max(high, standard[i], implicit[i]);
  }
  low = Math.max(low, 1e-5);
  const last = Math.max(100, steps);
  const ticks = (high / low < 10 ? MANY : FEW).filter((t) => t >= low / 1.2 && t <= high * 1.1);
  const plot = drawAxes(canvas, colors, {
    x: { from: 0, to: last, ticks: [[0, "0"], [last, last.toLocaleString("en")]], name: "step" },
    y: {
      from: Math.log(low / 1.2),
      to: Math.log(high * 1.1),
      ticks: ticks.map((t) => [Math.log(t), t]),
      name: "",
    },
  });
  const lines = [[standard, colors.standard, [5, 3]], [implicit, colors.implicit, []]];
  for (const [values, color, dash] of lines) {
    plot.context.beginPath();
    for (let i = 0; i < length; i++)
      plot.context.lineTo(plot.toX(i * stride + 1), plot.toY(Math.log(Math.max(values[i], low))));
    plot.context.setLineDash(dash);
    plot.context.lineWidth = 2;
    plot.context.strokeStyle = color;
    plot.context.stroke();
  }
  plot.context.setLineDash([]);
}
