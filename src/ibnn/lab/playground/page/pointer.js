// Pointer and keys on the two planes: choose the point that is looked into, or draw points.

import { placeOf } from "./draw/plane.js";

const KEY_STEP = 0.02;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

/**
 * Listens on a plane. `choose(x, y)` gets the chosen point, `draw(x, y)` a place under the
 * pointer while drawing, `add(label)` a key that adds a point at the chosen one.
 */
export function listen(canvas, { isDrawing, chosen, choose, draw, add }) {
  let held = false;
  const place = (event) => {
    const [x, y] = placeOf(event, canvas);
    if (isDrawing()) draw(x, y);
    choose(x, y);
  };
  canvas.addEventListener("pointerdown", (event) => {
    held = true;
    canvas.setPointerCapture(event.pointerId);
    place(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held) place(event);
  });
  for (const end of ["pointerup", "pointercancel"])
    canvas.addEventListener(end, () => {
      held = false;
    });
  canvas.addEventListener("keydown", (event) => {
    const { x, y } = chosen();
    const limit = (value) => Math.max(-1, Math.min(1, Number(value.toFixed(3))));
    if (event.key in ARROWS) {
      const [dx, dy] = ARROWS[event.key];
      choose(limit(x + KEY_STEP * dx), limit(y + KEY_STEP * dy));
      event.preventDefault();
    } else if (isDrawing() && (event.key === "1" || event.key === "2")) {
      add(Number(event.key) - 1);
    }
  });
}
