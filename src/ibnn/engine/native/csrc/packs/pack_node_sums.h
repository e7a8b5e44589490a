// Sums of tanh over the nodes of a pack of rows, a row in each lane: what NodeSums is to one row.
//
// Running sums of powers of exponentials, as in sorted_table.h, over nodes with weights: a few dozen nodes for each row, and
// no sum over lanes anywhere.
#pragma once
#include "basics/checked.h"
#include "packs/sorted_table.h"

namespace ibnn {

class PackNodeSums {
 public:
  using V = Floats;
  using M = Mask<float>;
  static constexpr float kNoise = 3e-7f;  // of a sum of s, as that of SortedTable

  // Nodes in order, n of them; z need not stay alive.
  void set_points(const V* z, long n) {
    n_ = n, even_ = false;
    decay_.resize(n);
    for (long s = 0; s + 1 < n; ++s) decay_[s] = exp_pack(-2 * most_of(z[s + 1] - z[s], V{}));
    decay_[n - 1] = V{};
  }

  // The same for nodes h apart: the powers are those of one number.
  void set_even_points(V h, long n) {
    n_ = n, even_ = true;
    powers_of<kTerms>(exp_pack(-2 * h), even_power_);
  }

  // The weights of fields(), which must stay alive; they sum to 1, and what comes before a node is at most twice that.
  void set_weights(const V* q, long n) {
    q_ = q;
    ahead_.resize(n);
    // Integers add up exactly: rounded to 2^-29, a weight is wrong by less than a float near 1 is.
    constexpr float kUnit = 1 << 29;
    M seen = {}, total = {};
    for (long s = 0; s < n; ++s) total += __builtin_convertvector(q[s] * kUnit, M);
    for (long s = 0; s < n; ++s) {
      const M own = __builtin_convertvector(q[s] * kUnit, M);
      ahead_[s] = __builtin_convertvector(total - 2 * seen - own, V) / kUnit;  // weight to the right minus weight to the left
      seen += own;
    }
  }

  // potential_s = sum_r q_r s(Z_r - Z_s), density_s = sum_r q_r s'(Z_r - Z_s), density_slope its derivative.
  void fields(V* potential, V* density, V* density_slope) const {
    for (long s = 0; s < n_; ++s) potential[s] = ahead_[s], density[s] = q_[s], density_slope[s] = V{};
    sweep(q_, [&](long s, const V* run, float to_the_left) {
      V odd = {}, even = density[s], bent = {};
      for (int m = 0; m < kTerms; ++m)
        odd += Series::value[m] * run[m], even += Series::slope[m] * run[m], bent += Series::bend[m] * run[m];
      potential[s] += to_the_left * odd, density[s] = even, density_slope[s] -= to_the_left * bent;
    });
  }

  // u_s = sum_r w_r s'(Z_r - Z_s).
  void smooth(const V* w, V* u) const {
    for (long s = 0; s < n_; ++s) u[s] = w[s];
    sweep(w, [&](long s, const V* run, float) {
      V even = u[s];
      for (int m = 0; m < kTerms; ++m) even += Series::slope[m] * run[m];
      u[s] = even;
    });
  }

  // The same and its derivative.
  void smooth(const V* w, V* u, V* u_slope) const {
    for (long s = 0; s < n_; ++s) u[s] = w[s], u_slope[s] = V{};
    sweep(w, [&](long s, const V* run, float to_the_left) {
      V even = u[s], bent = {};
      for (int m = 0; m < kTerms; ++m) even += Series::slope[m] * run[m], bent += Series::bend[m] * run[m];
      u[s] = even, u_slope[s] -= to_the_left * bent;
    });
  }

 private:
  using Series = TanhSeries<float>;
  static constexpr int kTerms = sizeof(Series::value) / sizeof(float);
  long n_ = 0;
  bool even_ = false;
  V even_power_[kTerms];
  const V* q_ = nullptr;
  Array<V> decay_, ahead_;

  // Calls take(s, sums over the nodes r on one side of s of w_r e^(-2 m |Z_r - Z_s|), m = 1 .. kTerms, the side), where the
  // side is 1 for nodes to the left and -1 for those to the right.
  template <class Take> void sweep(const V* w, Take take) const { even_ ? sweep<true>(w, take) : sweep<false>(w, take); }
  template <bool even, class Take> void sweep(const V* w, Take take) const {
    V run[kTerms] = {}, power[kTerms];
    if (even) std::copy(even_power_, even_power_ + kTerms, power);
    for (long s = 1; s < n_; ++s) {
      if (!even) powers_of<kTerms>(decay_[s - 1], power);
      for (int m = 0; m < kTerms; ++m) run[m] = (run[m] + w[s - 1]) * power[m];
      take(s, run, 1.0f);
    }
    for (V& sum : run) sum = V{};
    for (long s = n_ - 2; s >= 0; --s) {
      if (!even) powers_of<kTerms>(decay_[s], power);
      for (int m = 0; m < kTerms; ++m) run[m] = (run[m] + w[s + 1]) * power[m];
      take(s, run, -1.0f);
    }
  }
};

}  // namespace ibnn
