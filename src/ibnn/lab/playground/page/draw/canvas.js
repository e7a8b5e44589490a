// A canvas in CSS pixels, as sharp as the screen.

/** Sizes the canvas to its box, clears it, and returns its context, width and height. */
export function clear(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  const columns = Math.round(width * ratio);
  const rows = Math.round(height * ratio);
  if (canvas.width !== columns || canvas.height !== rows) {
    canvas.width = columns;
    canvas.height = rows;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}
