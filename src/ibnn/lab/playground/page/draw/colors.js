// The page's colors as its style sheet gives them, in light and dark, and ramps for pictures.

const NAMES = ["ink", "quiet", "paper", "line", "zero", "one", "standard", "implicit", "warning"];
const STEPS = 256;

/** Colors by name, plus two ramps: `classes` from class 0 to class 1, `activity` from - to +. */
export function readColors() {
  const style = getComputedStyle(document.documentElement);
  const colors = Object.fromEntries(
    NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
  );
  colors.classes = ramp(colors.zero, colors.paper, colors.one, 0.42);
  colors.activity = ramp(colors.quiet, colors.paper, colors.implicit, 0.75);
  return colors;
}

/** Pixels from `low` over `middle` to `high`, as ImageData keeps them (little endian). */
function ramp(low, middle, high, strength) {
  const [from, center, to] = [low, middle, high].map(channels);
  return Uint32Array.from({ length: STEPS }, (_, i) => {
    const t = (2 * i) / (STEPS - 1) - 1;
    const end = t < 0 ? from : to;
    const mixed = center.map((c, k) => Math.round(c + (end[k] - c) * Math.abs(t) * strength));
    return (255 << 24) | (mixed[2] << 16) | (mixed[1] << 8) | mixed[0];
  });
}

function channels(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/** Index into a ramp for a value in [-1, 1]. */
export function rampIndex(value) {
  const index = ((value + 1) / 2) * (STEPS - 1);
  return index > 0 ? (index < STEPS ? index | 0 : STEPS - 1) : 0;
}
