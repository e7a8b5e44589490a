// One pass over a row before it is solved: whether it is finite, its ends, its spread, and values that many units share.
#pragma once
#include <algorithm>
#include <cmath>

#include "basics/packs.h"

namespace ibnn {

struct RowSurvey {
  bool finite = true;
  float low = 0, high = 0, deviation = 0;
  float tie = 0, tie_share = 0;  // the value of many units, as that of the background of an image, and how many of n; 0 if none

  RowSurvey() = default;
  // Of n numbers, 3 at least.
  RowSurvey(const float* x, long n) {
    constexpr long L = kLanes<float>;
    const float values[3] = {x[0], x[n / 3], x[n - 1]};
    const Floats first = pack_of(values[0]), second = pack_of(values[1]), third = pack_of(values[2]);
    Floats least = first, most = first, sum = {}, squares = {};
    Mask<float> bad = {}, equal[3] = {};
    const Mask<float> exponent = Mask<float>{} + 0x7f800000;
    // The last numbers are a pack with some of those before them, which count for nothing where they would count twice.
    for (long i = 0; i < n; i += L) {
      const long from = std::min(i, n - L);
      const Floats v = load_pack<float>(x + from);
      const Mask<float> again = from < i ? counted_before(i - from) : Mask<float>{};
      Mask<float> bits;
      std::memcpy(&bits, &v, sizeof bits);
      bad |= (bits & exponent) == exponent;
      least = least_of(least, v), most = most_of(most, v);
      const Floats step = again ? Floats{} : v - first;
      sum += step, squares += step * step;
      equal[0] += ~again & (v == first), equal[1] += ~again & (v == second), equal[2] += ~again & (v == third);
    }
    finite = !any_lane(bad);
    low = high = values[0];
    float total = 0, total_squares = 0;
    long count[3] = {};
    for (int lane = 0; lane < L; ++lane) {
      low = std::min(low, least[lane]), high = std::max(high, most[lane]);
      total += sum[lane], total_squares += squares[lane];
      for (int k = 0; k < 3; ++k) count[k] -= equal[k][lane];
    }
    const float mean = total / static_cast<float>(n);
    deviation = std::sqrt(std::max(0.0f, total_squares / static_cast<float>(n) - mean * mean));
    for (int k = 2; k >= 0; --k)
      if (count[k] > n / 16) tie = values[k], tie_share = static_cast<float>(count[k]) / static_cast<float>(n);
  }

 private:
  static Mask<float> counted_before(long count) {
    Mask<float> lanes;
    for (int lane = 0; lane < kLanes<float>; ++lane) lanes[lane] = lane < count ? -1 : 0;
    return lanes;
  }
};

// The same of weights: the largest of them, and the sum of their squares.
struct WeightSurvey {
  bool finite = true;
  float top = 0;
  double squares = 0;

  WeightSurvey() = default;
  WeightSurvey(const float* x, long n) {
    constexpr long L = kLanes<float>;
    Floats most = {}, sum = {};
    Mask<float> bad = {};
    const Mask<float> exponent = Mask<float>{} + 0x7f800000;
    long i = 0;
    for (; i + L <= n; i += L) {
      const Floats v = load_pack<float>(x + i);
      Mask<float> bits;
      std::memcpy(&bits, &v, sizeof bits);
      bad |= (bits & exponent) == exponent;
      most = most_of(most, size_of(v)), sum += v * v;
    }
    finite = !any_lane(bad);
    for (int lane = 0; lane < L; ++lane) top = std::max(top, most[lane]), squares += sum[lane];
    for (; i < n; ++i) {
      finite = finite && std::isfinite(x[i]);
      top = std::max(top, std::fabs(x[i])), squares += static_cast<double>(x[i]) * x[i];
    }
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
