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
    sweep(
        q_,
        [&](long s, const V* run) {
          potential[s] = ahead_[s] + total(Series::value, run), density[s] = total(Series::slope, run) - q_[s];
          density_slope[s] = -total(Series::bend, run);
        },
        [&](long s, const V* run) {
          potential[s] -= total(Series::value, run), density[s] += total(Series::slope, run);
          density_slope[s] += total(Series::bend, run);
        });
  }

  // Potential and density alone, to 1.5e-5 and 1.5e-4: where Newton starts.
  void fields_roughly(V* potential, V* density) const {
    sweep<kRough>(
        q_,
        [&](long s, const V* run) {
          potential[s] = ahead_[s] + total(Series::rough_value, run), density[s] = total(Series::rough, run) - q_[s];
        },
        [&](long s, const V* run) {
          potential[s] -= total(Series::rough_value, run), density[s] += total(Series::rough, run);
        });
  }

  // u_s = sum_r w_r s'(Z_r - Z_s).
  void smooth(const V* w, V* u) const {
    sweep(
        w, [&](long s, const V* run) { u[s] = total(Series::slope, run) - w[s]; },
        [&](long s, const V* run) { u[s] += total(Series::slope, run); });
  }

  // The same to 1.5e-4 of the weights, for steps of Newton.
  void smooth_roughly(const V* w, V* u) const {
    sweep<kRough>(
        w, [&](long s, const V* run) { u[s] = total(Series::rough, run) - w[s]; },
        [&](long s, const V* run) { u[s] += total(Series::rough, run); });
  }

  // The same and its derivative.
  void smooth(const V* w, V* u, V* u_slope) const {
    sweep(
        w, [&](long s, const V* run) { u[s] = total(Series::slope, run) - w[s], u_slope[s] = -total(Series::bend, run); },
        [&](long s, const V* run) { u[s] += total(Series::slope, run), u_slope[s] += total(Series::bend, run); });
  }

 private:
  using Series = TanhSeries<float>;
  static constexpr int kTerms = sizeof(Series::value) / sizeof(float), kRough = sizeof(Series::rough) / sizeof(float);
  long n_ = 0;
  bool even_ = false;
  V even_power_[kTerms];
  const V* q_ = nullptr;
  Array<V> decay_, ahead_;

  template <int terms> static V total(const float (&coefficient)[terms], const V* run) {
    V sum = coefficient[0] * run[0];
    for (int m = 1; m < terms; ++m) sum = fused_packs(pack_of(coefficient[m]), run[m], sum);
    return sum;
  }

  // Calls left(s, run) for all nodes, then right(s, run): run are the sums of w_r e^(-2 m |Z_r - Z_s|), m = 1 .. terms, over
  // the nodes r on that side of s and s itself. Counted with them a node costs one instruction a term; it is there twice
  // then, which the callers take off (odd sums lose it by themselves).
  template <int terms = kTerms, class Left, class Right> void sweep(const V* w, Left left, Right right) const {
    even_ ? sweep<terms, true>(w, left, right) : sweep<terms, false>(w, left, right);
  }
  template <int terms, bool even, class Left, class Right> void sweep(const V* w, Left left, Right right) const {
    V run[terms] = {}, power[terms];
    if (even) std::copy(even_power_, even_power_ + terms, power);
    for (long s = 0; s < n_; ++s) {
      if (!even) powers_of<terms>(s > 0 ? decay_[s - 1] : V{}, power);
      for (int m = 0; m < terms; ++m) run[m] = fused_packs(run[m], power[m], w[s]);
      left(s, run);
    }
    for (V& sum : run) sum = V{};
    for (long s = n_ - 1; s >= 0; --s) {
      if (!even) powers_of<terms>(decay_[s], power);
      for (int m = 0; m < terms; ++m) run[m] = fused_packs(run[m], power[m], w[s]);
      right(s, run);
    }
  }
};

}  // namespace ibnn
