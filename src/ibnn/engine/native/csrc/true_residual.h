// Sums of a row without any nodes, at a few of its units: what the answers from the nodes are judged by.
#pragma once
#include <algorithm>
#include <type_traits>

#include "checked.h"
#include "lanes.h"
#include "pair_rules.h"

namespace ibnn {

template <Sigma kind> class TrueResidual {
 public:
  // (1/n) sum_i s(z_i - z_j) for units j = places[0 .. count).
  void sums(const float* z, long n, const long* places, long count, double* out) {
    const bool close = powers(z, n);
    for (long k = 0; k < count; ++k)
      out[k] = (close ? from_powers(places[k], n) : from_values(z, places[k], n)) / static_cast<double>(n);
  }

  // For units j = places[0 .. count): (1/n) sum_i s'(z_i - z_j) (v_i - v_j), which is DB v, and the same sum of s' alone.
  void products(const float* z, const float* v, long n, const long* places, long count, double* out, double* density) {
    const bool close = powers(z, n);
    if (close) invert_powers(n);
    for (long k = 0; k < count; ++k) {
      out[k] = density[k] = 0;
      for (long first = 0; first < n; first += kPart) {
        const long end = std::min(first + kPart, n);
        float change = 0, slopes = 0;
        close ? add_powers(v, places[k], first, end, &change, &slopes)
              : add_values(z, v, places[k], first, end, &change, &slopes);
        out[k] += change / static_cast<double>(n), density[k] += slopes / static_cast<double>(n);
      }
    }
  }

 private:
  static constexpr long kPart = 512;  // units summed in float; the parts are summed in double
  Array<float> power_, inverse_;

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

  void invert_powers(long n) {
    inverse_.resize(n);
    const float* e = power_.data();
    float* f = inverse_.data();
    for (long i = 0; i < n; ++i) f[i] = 1 / e[i];
  }

  // s' = 4 b / (1 + b)^2 with b = exp(-2 |z_i - z_j|), the smaller of two ratios.
  void add_powers(const float* v, long j, long first, long end, float* change, float* slopes) const {
    const float *e = power_.data(), *f = inverse_.data(), ej = e[j], fj = f[j], own = v[j];
    Lanes sums = {}, totals = {};
    long i = first;
    for (; i + 8 <= end; i += 8) {
      const Lanes b = smaller(load_lanes(e + i) * fj, load_lanes(f + i) * ej);
      const Lanes slope = b * inverse_lanes((1 + b) * (1 + b));
      sums = fused(slope, load_lanes(v + i) - own, sums), totals += slope;
    }
    float sum = 0, total = 0;
    for (; i < end; ++i) {
      const float b = std::min(e[i] * fj, f[i] * ej), slope = b / ((1 + b) * (1 + b));
      sum += slope * (v[i] - own), total += slope;
    }
    for (int k = 0; k < 8; ++k) sum += sums[k], total += totals[k];
    *change = 4 * sum, *slopes = 4 * total;
  }

  // Calls f(unit, how many, s, s') for packs of units and then for each of the last few.
  template <class F> static void each_value(const float* z, long j, long first, long end, F f) {
    constexpr long L = kLanes<float>;
    long i = first;
    for (; i + L <= end; i += L) {
      Floats value, slope;
      PairRuleOf<kind, float, Reach::far>::pair(pack_of(z[j]), Floats{}, load_pack<float>(z + i), &value, &slope);
      f(i, value, slope);
    }
    if (i == end) return;
    float rest[L];
    for (long k = 0; k < L; ++k) rest[k] = z[std::min(i + k, end - 1)];
    Floats value, slope;
    PairRuleOf<kind, float, Reach::far>::pair(pack_of(z[j]), Floats{}, load_pack<float>(rest), &value, &slope);
    for (long k = i; k < end; ++k) f(k, value[k - i], slope[k - i]);
  }

  static void add_values(const float* z, const float* v, long j, long first, long end, float* change, float* slopes) {
    Floats sums = {}, totals = {};
    float sum = 0, total = 0;
    const float own = v[j];
    each_value(z, j, first, end, [&](long i, auto, auto slope) {
      if constexpr (std::is_same_v<decltype(slope), Floats>)
        sums += slope * (load_pack<float>(v + i) - own), totals += slope;
      else
        sum += slope * (v[i] - own), total += slope;
    });
    for (int k = 0; k < kLanes<float>; ++k) sum += sums[k], total += totals[k];
    *change = sum, *slopes = total;
  }

  static double from_values(const float* z, long j, long n) {
    double sum = 0;
    for (long first = 0; first < n; first += kPart) {
      Floats part = {};
      float rest = 0;
      each_value(z, j, first, std::min(first + kPart, n), [&](long, auto value, auto) {
        if constexpr (std::is_same_v<decltype(value), Floats>)
          part += value;
        else
          rest += value;
      });
      for (int k = 0; k < kLanes<float>; ++k) rest += part[k];
      sum += rest;
    }
    return sum;
  }
};

}  // namespace ibnn
