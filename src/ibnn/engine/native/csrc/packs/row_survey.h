// One pass over a row before it is solved: whether it is finite, its ends, its spread, and values that many units share.
#pragma once
#include <algorithm>
#include <cmath>

#include "basics/packs.h"

namespace ibnn {

// Rows are looked at one after the other, and for the first time: numbers this far ahead are asked for (harmless beyond the last).
inline void fetch_ahead(const float* x) { __builtin_prefetch(x + 512); }

struct RowSurvey {
  bool finite = true;
  float low = 0, high = 0, deviation = 0;
  float tie = 0, tie_share = 0;  // the value of many units, as that of the background of an image, and how many of n; 0 if none

  RowSurvey() = default;
  // Of n numbers, a pack of them at least.
  RowSurvey(const float* x, long n) {
    constexpr long L = kLanes<float>;
    const float values[3] = {x[0], x[n / 3], x[n - 1]};
    const Floats first = pack_of(values[0]), second = pack_of(values[1]), third = pack_of(values[2]);
    // Two of each, so that one does not wait for the other.
    Floats least[2] = {first, first}, most[2] = {first, first}, sum[2] = {}, squares[2] = {};
    Mask<float> equal[3] = {};
    auto take = [&](long i, int k) {
      const Floats v = load_pack<float>(x + i), step = v - first;
      least[k] = least_of(least[k], v), most[k] = most_of(most[k], v);
      sum[k] += step, squares[k] += step * step;
      equal[0] -= v == first, equal[1] -= v == second, equal[2] -= v == third;
    };
    long i = 0;
    for (; i + 2 * L <= n; i += 2 * L) {
      fetch_ahead(x + i);
      take(i, 0), take(i + L, 1);
    }
    if (i + L <= n) take(i, 0), i += L;
    float total = 0, total_squares = 0;
    low = high = values[0];
    long count[3] = {};
    for (; i < n; ++i) {
      const float step = x[i] - values[0];
      low = std::min(low, x[i]), high = std::max(high, x[i]);
      total += step, total_squares += step * step;
      for (int k = 0; k < 3; ++k) count[k] += x[i] == values[k];
    }
    const Floats all_least = least_of(least[0], least[1]), all_most = most_of(most[0], most[1]);
    const Floats all_sum = sum[0] + sum[1], all_squares = squares[0] + squares[1];
    for (int lane = 0; lane < L; ++lane) {
      low = std::min(low, all_least[lane]), high = std::max(high, all_most[lane]);
      total += all_sum[lane], total_squares += all_squares[lane];
      for (int k = 0; k < 3; ++k) count[k] += equal[k][lane];
    }
    finite = std::isfinite(total);  // a number that is not finite makes its difference so, and with it every sum of it
    const float mean = total / static_cast<float>(n);
    deviation = std::sqrt(std::max(0.0f, total_squares / static_cast<float>(n) - mean * mean));
    for (int k = 2; k >= 0; --k)
      if (count[k] > n / 16) tie = values[k], tie_share = static_cast<float>(count[k]) / static_cast<float>(n);
  }
};

// The same of weights: the largest of them, and the sum of their squares.
struct WeightSurvey {
  bool finite = true;  // also false where the squares are too large for a float
  float top = 0;
  double squares = 0;

  WeightSurvey() = default;
  WeightSurvey(const float* x, long n) {
    constexpr long L = kLanes<float>;
    Floats most[2] = {}, sum[2] = {};
    auto take = [&](long i, int k) {
      const Floats v = load_pack<float>(x + i);
      most[k] = most_of(most[k], size_of(v)), sum[k] += v * v;
    };
    long i = 0;
    for (; i + 2 * L <= n; i += 2 * L) {
      fetch_ahead(x + i);
      take(i, 0), take(i + L, 1);
    }
    if (i + L <= n) take(i, 0), i += L;
    for (; i < n; ++i) top = std::max(top, std::fabs(x[i])), squares += static_cast<double>(x[i]) * x[i];
    const Floats all = most_of(most[0], most[1]), all_squares = sum[0] + sum[1];
    for (int lane = 0; lane < L; ++lane) top = std::max(top, all[lane]), squares += all_squares[lane];
    finite = std::isfinite(squares);
  }
};

// Where |x| is at least `top`, which it is somewhere.
inline long place_of_size(const float* x, long n, float top) {
  constexpr long L = kLanes<float>;
  long i = 0;
  while (i + L <= n && !any_lane(size_of(load_pack<float>(x + i)) >= top)) i += L;
  while (i + 1 < n && std::fabs(x[i]) < top) ++i;
  return i;
}

}  // namespace ibnn
