// The residual of a row without any nodes, at a few of its units: what the answer from the nodes is judged by.
#pragma once
#include <algorithm>

#include "checked.h"
#include "lanes.h"

namespace ibnn {

template <Sigma kind> class TrueResidual {
 public:
  // (1/n) sum_i s(z_i - z_j) for units j = places[0 .. count).
  void sums(const float* z, long n, const long* places, long count, double* out) {
    const bool close = powers(z, n);
    for (long k = 0; k < count; ++k)
      out[k] = (close ? from_powers(places[k], n) : from_values(z, places[k], n)) / static_cast<double>(n);
  }

 private:
  static constexpr long kPart = 512;  // units summed in float; the parts are summed in double
  Array<float> power_;

  // exp(2 z) of all units, if sigma is tanh and they do not overflow.
  bool powers(const float* z, long n) {
    if (kind != Sigma::tanh) return false;
    float low, high;
    range_of(z, n, &low, &high);
    if (!(high - low < 80)) return false;
    const float middle = 0.5f * (low + high);
    power_.resize(n);
    float* e = power_.slot(0, n);
    for (long i = 0; i < n; ++i) e[i] = fast_exp(2 * (z[i] - middle));
    return true;
  }

  // With a = e^2(z_i - z_j): tanh(z_1 - z_j) + tanh(z_2 - z_j) = 2 (a_1 a_2 - 1) / ((a_1 + 1) (a_2 + 1)), half a division
  // for each pair. Beyond 1e9 a makes no difference, and products would overflow.
  double from_powers(long j, long n) {
    const float scale = 1 / power_[j];
    auto ratio = [=](float power) {
      const float a = power * scale;
      return a < 1e9f ? a : 1e9f;
    };
    double sum = 0;
    for (long first = 0; first < n; first += kPart) {
      const long m = std::min(kPart, n - first), half = m / 2;
      const float *left = power_.slot(first, m), *right = left + half;
      float part = 0;
      for (long i = 0; i < half; ++i) {
        const float a = ratio(left[i]), b = ratio(right[i]);
        part += (a * b - 1) / ((a + 1) * (b + 1));
      }
      if (m % 2) part += 0.5f * (ratio(left[m - 1]) - 1) / (ratio(left[m - 1]) + 1);
      sum += 2 * static_cast<double>(part);
    }
    return sum;
  }

  static double from_values(const float* z, long j, long n) {
    const float own = z[j];
    double sum = 0;
    for (long first = 0; first < n; first += kPart) {
      const long end = std::min(first + kPart, n);
      float part = 0;
      for (long i = first; i < end; ++i) part += Nonlinearity<kind>::value(z[i] - own);
      sum += part;
    }
    return sum;
  }
};

}  // namespace ibnn
