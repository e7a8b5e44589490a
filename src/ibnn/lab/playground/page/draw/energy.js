// The energy along the solve, above its minimum, one dot a step of Newton's method.

import { drawAxes, drawDot } from "./axes.js";

const FLOOR = -16; // decimal logarithm: the rounding of an energy of order one

export function drawEnergy(canvas, energies, colors) {
  const last = energies.length - 1;
  const heights = energies.map((e) =>
    Math.max(FLOOR, Math.log10(Math.max(e - energies[last], 1e-300))),
  );
  const steps = Math.max(4, last);
  const every = Math.ceil(steps / 8);
  const ticks = [];
  for (let i = 0; i <= steps; i += every) ticks.push([i, i]);
  const { context, toX, toY } = drawAxes(canvas, colors, {
    x: { from: -0.2, to: steps + 0.2, ticks, name: "Newton step" },
    y: {
      from: FLOOR - 0.7,
      to: 1.5,
      ticks: [[0, "1"], [-4, "10⁻⁴"], [-8, "10⁻⁸"], [-12, "10⁻¹²"], [FLOOR, "0"]],
      name: "",
    },
  });
  context.beginPath();
  heights.forEach((height, i) => context.lineTo(toX(i), toY(height)));
  context.lineWidth = 2;
  context.strokeStyle = colors.implicit;
  context.stroke();
  heights.forEach((height, i) =>
    drawDot(context, toX(i), toY(height), 4, colors.implicit, colors.paper),
  );
}
