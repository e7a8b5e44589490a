// Sums of tanh over nodes at any places, in O(S): running sums of exponentials from the left and from the right.
#pragma once
#include "basics/checked.h"
#include "basics/lanes.h"

namespace ibnn {

// tanh: 1 - tanh x, x >= 0, is a sum of eight exponentials to 5e-8 (its slope to 1.5e-7), one per SIMD lane. Running
// sums from the left and from the right give everything in O(S), for any spacing and any range.
class ExponentialSums {
 public:
  void set_points(const float* z, long n) {
    n_ = n;
    for (auto* a : {&decay_, &left_, &right_}) a->resize(n * 8);
    const Lanes rate = -load_lanes(kRate);
    for (long s = 0; s + 1 < n; ++s) {
      const float gap = z[s + 1] - z[s];
      store_lanes(decay_.slot(s * 8, 8), exp_lanes(rate * spread_lanes(gap > 0 ? gap : 0)));
    }
    store_lanes(decay_.slot((n - 1) * 8, 8), Lanes{});
  }

  void set_weights(const float* q, long n) {
    q_ = q;
    ahead_.resize(n);
    double total = 0, seen = 0;
    for (long s = 0; s < n; ++s) total += q[s];
    for (long s = 0; s < n; ++s) {
      ahead_[s] = static_cast<float>(total - 2 * seen - q[s]);  // weight to the right minus weight to the left
      seen += q[s];
    }
  }

  void fields(float* potential, float* density, float* density_slope) {
    sweep(q_);
    const Lanes a = load_lanes(kWeight), ab = a * load_lanes(kRate), abb = ab * load_lanes(kRate);
    for (long s = 0; s < n_; s += 8) {
      Lanes even[8], odd[8], bent[8];
      for (int k = 0; k < 8; ++k) {
        const Lanes l = load_lanes(left_.slot((s + k) * 8, 8)), r = load_lanes(right_.slot((s + k) * 8, 8));
        even[k] = ab * (r + l), odd[k] = a * (r - l), bent[k] = abb * (r - l);
      }
      store_lanes(potential + s, load_lanes(ahead_.slot(s, 8)) - sum_each(odd));
      store_lanes(density + s, load_lanes(q_ + s) + sum_each(even));
      store_lanes(density_slope + s, sum_each(bent));
    }
  }

  void smooth(const float* w, float* u) {
    sweep(w);
    const Lanes ab = load_lanes(kWeight) * load_lanes(kRate);
    for (long s = 0; s < n_; s += 8) {
      Lanes even[8];
      for (int k = 0; k < 8; ++k)
        even[k] = ab * (load_lanes(left_.slot((s + k) * 8, 8)) + load_lanes(right_.slot((s + k) * 8, 8)));
      store_lanes(u + s, load_lanes(w + s) + sum_each(even));
    }
  }

  void smooth(const float* w, float* u, float* u_slope) {
    smooth(w, u);
    const Lanes rate = load_lanes(kRate), abb = load_lanes(kWeight) * rate * rate;
    for (long s = 0; s < n_; s += 8) {
      Lanes bent[8];
      for (int k = 0; k < 8; ++k)
        bent[k] = abb * (load_lanes(right_.slot((s + k) * 8, 8)) - load_lanes(left_.slot((s + k) * 8, 8)));
      store_lanes(u_slope + s, sum_each(bent));
    }
  }

 private:
  // Least-squares fit of 1 - tanh, its first and its second derivative on [0, 12].
  static constexpr float kWeight[8] = {2.00048039f,   -1.95645221f,  2.33148706f,  -7.30624931f,
                                       15.30650607f, -13.12140163f, -3.88021947f, 7.6258491f};
  static constexpr float kRate[8] = {2.00007045f,  3.9881861f,   6.18870554f,  8.3765026f,
                                     9.32932358f, 10.00269272f, 11.23357076f, 10.9643192f};
  long n_ = 0;
  const float* q_ = nullptr;
  Array<float> decay_, left_, right_, ahead_;

  // left_s = sum_{r<s} w_r exp(-rate (Z_s - Z_r)), right_s likewise; two independent chains hide each other's latency.
  void sweep(const float* w) {
    Lanes left = {}, right = {};
    for (long s = 0, t = n_ - 1; s < n_; ++s, --t) {
      store_lanes(left_.slot(s * 8, 8), left);
      store_lanes(right_.slot(t * 8, 8), right);
      const Lanes e = load_lanes(decay_.slot(s * 8, 8));
      left = fused(e, left, e * spread_lanes(w[s]));
      if (t > 0) {
        const Lanes f = load_lanes(decay_.slot((t - 1) * 8, 8));
        right = fused(f, right, f * spread_lanes(w[t]));
      }
    }
  }
};

}  // namespace ibnn
