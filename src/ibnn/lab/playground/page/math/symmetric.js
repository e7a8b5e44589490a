// Symmetric matrices of a few rows, stored row by row: Cholesky factor, solve, eigenvalues.

/** Lower factor of `matrix + shift * I`; false if that is not positive definite. */
export function cholesky(matrix, lower, size, shift) {
  for (let i = 0; i < size; i++) {
    for (let k = 0; k <= i; k++) {
      let sum = matrix[i * size + k];
      if (i === k) sum += shift;
      for (let m = 0; m < k; m++) sum -= lower[i * size + m] * lower[k * size + m];
      if (i > k) lower[i * size + k] = sum / lower[k * size + k];
      else if (sum > 0) lower[i * size + i] = Math.sqrt(sum);
      else return false;
    }
  }
  return true;
}

/** Replaces `vector` by the solution of `lower lower^T x = vector`. */
export function choleskySolve(lower, vector, size) {
  for (let i = 0; i < size; i++) {
    let sum = vector[i];
    for (let k = 0; k < i; k++) sum -= lower[i * size + k] * vector[k];
    vector[i] = sum / lower[i * size + i];
  }
  for (let i = size - 1; i >= 0; i--) {
    let sum = vector[i];
    for (let k = i + 1; k < size; k++) sum -= lower[k * size + i] * vector[k];
    vector[i] = sum / lower[i * size + i];
  }
}

const SWEEPS = 30; // Jacobi converges quadratically: eight rows need about six

/** Eigenvalues in ascending order, by Jacobi rotations on a copy. */
export function eigenvalues(matrix, size) {
  const a = Float64Array.from(matrix.subarray(0, size * size));
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    let off = 0;
    for (let i = 0; i < size; i++)
      for (let k = i + 1; k < size; k++) {
        off += a[i * size + k] ** 2;
        rotate(a, size, i, k);
      }
    if (off === 0) break;
  }
  return Float64Array.from({ length: size }, (_, i) => a[i * size + i]).sort();
}

/** Turns the plane of rows i and k so that the entry (i, k) becomes zero. */
function rotate(a, size, i, k) {
  const entry = a[i * size + k];
  if (entry === 0) return;
  const half = (a[k * size + k] - a[i * size + i]) / (2 * entry);
  const tangent = (half >= 0 ? 1 : -1) / (Math.abs(half) + Math.sqrt(half * half + 1));
  const cosine = 1 / Math.sqrt(tangent * tangent + 1);
  const sine = tangent * cosine;
  for (let m = 0; m < size; m++) {
    const left = a[m * size + i];
    const right = a[m * size + k];
    a[m * size + i] = cosine * left - sine * right;
    a[m * size + k] = sine * left + cosine * right;
  }
  for (let m = 0; m < size; m++) {
    const upper = a[i * size + m];
    const below = a[k * size + m];
    a[i * size + m] = cosine * upper - sine * below;
    a[k * size + m] = sine * upper + cosine * below;
  }
  a[i * size + k] = a[k * size + i] = 0;
}
