// Sums of a row without any nodes, at a few of its units: what the answers from the nodes are judged by.
#pragma once
#include <algorithm>
#include <type_traits>

#include "basics/checked.h"
#include "basics/lanes.h"
#include "basics/pair_rules.h"
#include "basics/row_values.h"

namespace ibnn {

template <Sigma kind> class TrueResidual {
 public:
  // (1/n) sum_i s(z_i - z_j) for units j = places[0 .. count).
  void sums(const float* z, long n, const long* places, long count, double* out) {
    const bool close = near_enough(z, n);
    const auto totals = sum_of_chunks(n, [&](long first, long end) {
      Sums here;
      if (close) set_powers(z, first, end);
      for (long k = 0; k < count; ++k)
        here.at[k] = close ? from_powers(scale_of(z[places[k]]), first, end) : from_values(z, places[k], first, end);
      return here;
    });
    for (long k = 0; k < count; ++k) out[k] = totals.at[k] / static_cast<double>(n);
  }

  // For units j = places[0 .. count): (1/n) sum_i s'(z_i - z_j) (v_i - v_j), which is DB v, and the same sum of s' alone.
  void products(const float* z, const float* v, long n, const long* places, long count, double* out, double* density) {
    const bool close = near_enough(z, n);
    const auto totals = sum_of_chunks(n, [&](long from, long to) {
      Sums here;
      if (close) set_powers(z, from, to);
      for (long k = 0; k < count; ++k)
        for (long first = from; first < to; first += kPart) {
          const long end = std::min(first + kPart, to);
          float change = 0, slopes = 0;
          close ? add_powers(v, v[places[k]], scale_of(z[places[k]]), first, end, &change, &slopes)
                : add_values(z, v, places[k], first, end, &change, &slopes);
          here.at[k] += change / static_cast<double>(n), here.slopes[k] += slopes / static_cast<double>(n);
        }
      return here;
    });
    for (long k = 0; k < count; ++k) out[k] = totals.at[k], density[k] = totals.slopes[k];
  }

 private:
  static constexpr long kMostPlaces = 8;
  struct Sums {
    double at[kMostPlaces] = {}, slopes[kMostPlaces] = {};
    void operator+=(const Sums& next) {
      for (long k = 0; k < kMostPlaces; ++k) at[k] += next.at[k], slopes[k] += next.slopes[k];
    }
  };
  static constexpr long kPart = 512;  // units summed in float; the parts are summed in double
  float middle_ = 0;
  Array<float> power_;

  // Whether sigma is tanh and e^(2 z), counted from the middle of the row, does not overflow.
  bool near_enough(const float* z, long n) {
    if (kind != Sigma::tanh) return false;
    const auto [low, high] = ends_of_row(z, n);
    middle_ = 0.5f * (low + high);
    power_.resize(n);
    return high - low < 80;
  }

  void set_powers(const float* z, long i, long end) {
    constexpr long L = kLanes<float>;
    float* e = power_.slot(0, end);
    const float middle = middle_;
    for (; i + L <= end; i += L) store_pack<float>(e + i, exp_pack(2 * (load_pack<float>(z + i) - middle)));
    for (; i < end; ++i) e[i] = fast_exp(2 * (z[i] - middle));
  }

  // 1 / e^(2 z) of a unit.
  float scale_of(float z) const { return 1 / exp_pack(pack_of(2 * (z - middle_)))[0]; }

  // e^2(z_i - z_j): beyond 1e9 it makes no difference, and products would overflow.
  static Floats ratios(const float* power, float scale) { return least_of(load_pack<float>(power) * scale, pack_of(1e9f)); }
  static float ratio(float power, float scale) { return std::min(power * scale, 1e9f); }

  // With a = e^2(z_i - z_j): tanh(z_1 - z_j) + tanh(z_2 - z_j) = 2 (a_1 a_2 - 1) / ((a_1 + 1) (a_2 + 1)), half a division
  // for each pair.
  double from_powers(float scale, long i, long to) const {
    constexpr long L = kLanes<float>;
    const float* e = power_.slot(0, to);
    double sum = 0;
    while (i < to) {
      const long end = std::min(i + kPart, to);
      Floats part = {};
      for (; i + 2 * L <= end; i += 2 * L) {
        const Floats a = ratios(e + i, scale), b = ratios(e + i + L, scale);
        part += (a * b - 1) * reciprocal((a + 1) * (b + 1));
      }
      float total = 0;
      for (; i < end; ++i) total += 0.5f * (ratio(e[i], scale) - 1) / (ratio(e[i], scale) + 1);
      for (int k = 0; k < L; ++k) total += part[k];
      sum += 2 * static_cast<double>(total);
    }
    return sum;
  }

  // s' = 4 a / (1 + a)^2.
  void add_powers(const float* v, float own, float scale, long first, long end, float* change, float* slopes) const {
    constexpr long L = kLanes<float>;
    const float* e = power_.data();
    Floats sums = {}, totals = {};
    long i = first;
    for (; i + L <= end; i += L) {
      const Floats a = ratios(e + i, scale), slope = a * reciprocal((1 + a) * (1 + a));
      sums += slope * (load_pack<float>(v + i) - own), totals += slope;
    }
    float sum = 0, total = 0;
    for (; i < end; ++i) {
      const float a = ratio(e[i], scale), slope = a / ((1 + a) * (1 + a));
      sum += slope * (v[i] - own), total += slope;
    }
    for (int k = 0; k < L; ++k) sum += sums[k], total += totals[k];
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

  static double from_values(const float* z, long j, long from, long to) {
    double sum = 0;
    for (long first = from; first < to; first += kPart) {
      Floats part = {};
      float rest = 0;
      each_value(z, j, first, std::min(first + kPart, to), [&](long, auto value, auto) {
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
