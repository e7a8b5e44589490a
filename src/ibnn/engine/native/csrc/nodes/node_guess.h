// Where Newton starts: the solution of a row whose units were normally distributed with the row's mean and spread.
//
// For such a row sums of s are nearly a tanh themselves: G(t) = -tanh(b t), b from the spread of z, which follows from
// that of y. It replaces one to three Newton steps; any start would lead to the same solution.
#pragma once
#include <algorithm>
#include <cmath>

#include "basics/sigma.h"

namespace ibnn {

// std(z) / std(y) if z is normal: a (1 - c E s'(z - z')) = 1. Newton from a side on which it cannot overshoot.
inline float normal_contraction(float c, float deviation) {
  float a = 1 / (1 - c);
  const float k = static_cast<float>(kPi) * deviation * deviation;
  for (int step = 0; step < 8; ++step) {
    const float d = 1 / std::sqrt(1 + k * a * a);
    const float change = (a * (1 - c * d) - 1) / (1 - c * d * d * d);
    a -= change;
    if (std::fabs(change) < 1e-3f * a) break;
  }
  return a;
}

// The density E s'(z - t) of such a row at its middle.
inline float normal_density(float deviation) {
  return 1 / std::sqrt(1 + static_cast<float>(kPi / 2) * deviation * deviation);
}

// The roughness (see Nodes) of n units of a normal row on nodes that are a third apart or so.
inline float normal_roughness(float deviation, long n) {
  return 5 * std::sqrt(0.13f / ((0.13f + deviation) * static_cast<float>(n)));
}

// z for places y (n of them); q are their weights, which sum to 1.
template <class T, class Weight> void normal_guess_by(const T* y, Weight q, long n, T c, T* z) {
  const T origin = y[n / 2];
  T first = 0, squares = 0;
  for (long s = 0; s < n; ++s) {
    const T x = y[s] - origin;
    first += q(s) * x, squares += q(s) * x * x;
  }
  float deviation = static_cast<float>(std::sqrt(std::max(T(0), squares - first * first)));
  deviation *= normal_contraction(static_cast<float>(c), deviation);
  const T b = normal_density(deviation), mean = origin + first, steepest = 1 / (1 - c * b);
  for (long s = 0; s < n; ++s) {
    const T x = std::fabs(y[s] - mean), near = x * steepest, far = x + c;
    // Both bound the root of t - c tanh(b t) = x from the side from which Newton does not overshoot.
    T t = c > 0 ? std::min(near, far) : std::max(near, far);
    for (int step = 0; step < 2; ++step) {
      const T e = fast_exp(-2 * b * t), value = (1 - e) / (1 + e);
      t -= (t - c * value - x) / (1 - c * b * (1 - value * value));
    }
    z[s] = mean + std::copysign(t, y[s] - mean);
  }
}
inline void normal_guess(const float* y, const float* q, long n, float c, float* z) {
  normal_guess_by<float>(y, [=](long s) { return q[s]; }, n, c, z);
}

}  // namespace ibnn
