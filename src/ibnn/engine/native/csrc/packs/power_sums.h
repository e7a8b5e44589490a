// Sums of tanh over all units of a row at a few of them, from e^(2 z): what TrueResidual does for any sigma.
//
// With a = e^(2 (z_i - z_j)), s = (a - 1) / (a + 1) and s' = 4 r (1 - r), r = 1 / (1 + a): no exponential for a pair.
#pragma once
#include <algorithm>

#include "basics/checked.h"
#include "basics/packs.h"

namespace ibnn {

class PowerSums {
 public:
  // Whether this is for rows of z with this range: e^(2 z) fits, counted from the middle of the row, and its reciprocal.
  static bool serves(double range) { return range < 80; }
  // Room for the z of n units.
  float* resize(long n) {
    n_ = n;
    power_.resize(n);
    return power_.data();
  }
  // Takes z, which may be in the room; `middle` is that of the row, whose range is given. A pass of its own: the exponential is
  // the end of a long chain, of which too few are under way at a time in the loop that finds z.
  void set(const float* z, float middle, double range) {
    range_ = range;
    float* e = power_.data();
    long i = 0;
    for (; i + L <= n_; i += L) store_pack<float>(e + i, exp_twice(load_pack<float>(z + i) - middle));
    for (; i < n_; ++i) e[i] = exp_twice(pack_of(z[i] - middle))[0];
  }

  // (1/n) sum_i s(z_i - z_j) for units j = places[0 .. count).
  template <int count> void values(const long* places, double* out) const {
    static_assert(count % 3 == 0, "three at a time stay in registers");
    for (int k = 0; k < count; k += 3) range_ < 42 ? values_of<3, false>(places + k, out + k) : values_of<3, true>(places + k, out + k);
  }

  // For units j: (1/n) sum_i s'(z_i - z_j) (v_i - v_j), which is DB v, and the same sum of s' alone. Both are wrong by a
  // rounding of 1 times v, and of 1.
  template <int count> void products(const float* v, const long* places, double* out, double* density) const {
    constexpr int half = count / 2;
    if (range_ < 40) {
      products_of<half, false>(v, places, out, density);
      products_of<count - half, false>(v, places + half, out + half, density + half);
    } else {
      products_of<half, true>(v, places, out, density);
      products_of<count - half, true>(v, places + half, out + half, density + half);
    }
  }

 private:
  static constexpr long kPart = 1024;  // units summed in float; the parts are summed in double
  static constexpr long L = kLanes<float>;
  long n_ = 0;
  double range_ = 0;
  Array<float> power_;

  // Two units at a time: s_1 + s_2 = 2 (a_1 a_2 - 1) / (a_1 a_2 + a_1 + a_2 + 1), or the same times the square of e^(2 z_j).
  // In `far` rows a product of two may overflow; beyond 1e9 a makes no difference.
  template <int count, bool far> void values_of(const long* places, double* out) const {
    const float* e = power_.data();
    Floats own[count], square[count], scale[count];
    for (int k = 0; k < count; ++k)
      own[k] = pack_of(e[places[k]]), square[k] = own[k] * own[k], scale[k] = pack_of(1 / e[places[k]]), out[k] = 0;
    for (long i = 0; i < n_;) {
      const long end = std::min(i + kPart, n_);
      Floats part[count] = {};
      for (; i + 2 * L <= end; i += 2 * L) {
        const Floats a = load_pack<float>(e + i), b = load_pack<float>(e + i + L), both = a * b, sum = a + b;
        for (int k = 0; k < count; ++k) {
          if (far) {
            const Floats one = least_of(a * scale[k], pack_of(1e9f)), other = least_of(b * scale[k], pack_of(1e9f));
            const Floats above = one + 1;
            part[k] += (one * other - 1) * reciprocal(above * other + above);
          } else {
            part[k] += (both - square[k]) * reciprocal(fused_packs(own[k], sum, both + square[k]));
          }
        }
      }
      for (int k = 0; k < count; ++k) {
        float total = 0;
        for (int lane = 0; lane < L; ++lane) total += part[k][lane];
        for (long rest = i; rest < end; ++rest) {
          const float a = std::min(e[rest] * scale[k][0], 1e9f);
          total += 0.5f * (a - 1) / (a + 1);
        }
        out[k] += 2 * static_cast<double>(total);
      }
      i = end;
    }
    for (int k = 0; k < count; ++k) out[k] /= static_cast<double>(n_);
  }

  template <int count, bool far>
  void products_of(const float* v, const long* places, double* out, double* density) const {
    const float* e = power_.data();
    Floats scale[count];
    for (int k = 0; k < count; ++k) scale[k] = pack_of(1 / e[places[k]]), out[k] = density[k] = 0;
    for (long i = 0; i < n_;) {
      const long end = std::min(i + kPart, n_);
      Floats slopes[count] = {}, sums[count] = {};
      for (; i + L <= end; i += L) {
        const Floats power = load_pack<float>(e + i), here = load_pack<float>(v + i);
        for (int k = 0; k < count; ++k) {
          Floats above = power * scale[k] + 1;
          if (far) above = least_of(above, pack_of(1e30f));
          const Floats r = reciprocal(above), slope = r - r * r;
          slopes[k] += slope, sums[k] += slope * here;
        }
      }
      for (int k = 0; k < count; ++k) {
        float total = 0, sum = 0;
        for (int lane = 0; lane < L; ++lane) total += slopes[k][lane], sum += sums[k][lane];
        for (long rest = i; rest < end; ++rest) {
          const float r = 1 / (std::min(e[rest] * scale[k][0], 1e30f) + 1), slope = r - r * r;
          total += slope, sum += slope * v[rest];
        }
        density[k] += 4 * static_cast<double>(total), out[k] += 4 * static_cast<double>(sum);
      }
      i = end;
    }
    for (int k = 0; k < count; ++k) {
      out[k] = (out[k] - density[k] * v[places[k]]) / static_cast<double>(n_);
      density[k] /= static_cast<double>(n_);
    }
  }
};

}  // namespace ibnn
