// Values on a lattice as a smooth picture, and the line where they change sign.

const buffer = document.createElement("canvas");
let image = null;
let pixels = null;

/** Paints `colorOf(index)` for every point of a lattice over a square of `size` pixels. */
export function paint(context, side, size, colorOf) {
  if (buffer.width !== side || !image) {
    buffer.width = buffer.height = side;
    image = buffer.getContext("2d").createImageData(side, side);
    pixels = new Uint32Array(image.data.buffer);
  }
  for (let i = 0; i < side * side; i++) pixels[i] = colorOf(i);
  buffer.getContext("2d").putImageData(image, 0, 0);
  // the outermost lattice points lie on the edge of the square: half a pixel of each is cut off
  context.imageSmoothingQuality = "high";
  context.drawImage(buffer, 0.5, 0.5, side - 1, side - 1, 0, 0, size, size);
}

/** Adds the zero line of the values to the context's path: marching squares, straight in a cell. */
export function traceZero(context, values, side, size) {
  const step = size / (side - 1);
  for (let row = 0; row + 1 < side; row++) {
    for (let column = 0; column + 1 < side; column++) {
      const at = row * side + column;
      const a = values[at];
      const b = values[at + 1];
      const c = values[at + side + 1];
      const d = values[at + side];
      const signs = (a > 0 ? 1 : 0) | (b > 0 ? 2 : 0) | (c > 0 ? 4 : 0) | (d > 0 ? 8 : 0);
      if (signs === 0 || signs === 15) continue;
      // crossings of the four edges in turn; a saddle has all four, and gets two lines
      let odd = false;
      const cross = (from, to, x0, y0, x1, y1) => {
        if (from > 0 === to > 0) return;
        const t = from / (from - to);
        const x = (column + x0 + (x1 - x0) * t) * step;
        const y = (row + y0 + (y1 - y0) * t) * step;
        if (odd) context.lineTo(x, y);
        else context.moveTo(x, y);
        odd = !odd;
      };
      cross(a, b, 0, 0, 1, 0);
      cross(b, c, 1, 0, 1, 1);
      cross(c, d, 1, 1, 0, 1);
      cross(d, a, 0, 1, 0, 0);
    }
  }
}
