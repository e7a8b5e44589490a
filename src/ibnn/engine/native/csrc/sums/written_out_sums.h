// Sums over nodes at any places, every pair written out: for up to a few hundred nodes.
#pragma once
#include "basics/checked.h"
#include "sums/even_sums.h"
#include "basics/lanes.h"
#include "basics/pair_rules.h"

namespace ibnn {

// out_t = sum_r w_r matrix_rt, eight or 32 outputs at a time; n is a multiple of 8.
inline void dense_product(const Array<float>& matrix, const float* w, long n, float* out) {
  long t = 0;
  for (; t + 32 <= n; t += 32) {
    Lanes sum[4] = {};
    for (long r = 0; r < n; ++r) {
      const float* row = matrix.slot(r * n + t, 32);
      for (int b = 0; b < 4; ++b) sum[b] = fused(spread_lanes(w[r]), load_lanes(row + 8 * b), sum[b]);
    }
    for (int b = 0; b < 4; ++b) store_lanes(out + t + 8 * b, sum[b]);
  }
  for (; t < n; t += 8) {
    Lanes sum[4] = {};
    for (long r = 0; r < n; r += 4)
      for (int b = 0; b < 4; ++b) sum[b] = fused(spread_lanes(w[r + b]), load_lanes(matrix.slot((r + b) * n + t, 8)), sum[b]);
    store_lanes(out + t, sum[0] + sum[1] + (sum[2] + sum[3]));
  }
}

// For any sigma: pairs are computed where they are needed, as far as s is not flat, a pack of nodes at a time. The last pack
// may overlap the one before it; there are more nodes than a pack has lanes.
template <Sigma kind> class DenseSums {
 public:
  void set_points(const float* z, long n) {
    z_ = z, n_ = n;
    const long packs = (n + L - 1) / L;
    first_.resize(packs), from_.resize(packs), to_.resize(packs);
    long low = 0, high = 0;
    for (long k = 0; k < packs; ++k) {
      const long t = std::min(k * L, n - L);
      while (z[t] - z[low] > kFlat<kind>) ++low;
      while (high < n && z[high] - z[t + L - 1] <= kFlat<kind>) ++high;
      first_[k] = t, from_[k] = low, to_[k] = high;
    }
  }
  void set_weights(const float* q) { q_ = q; }

  void fields(float* potential, float* density, float* density_slope) {
    double all = 0, left = 0, right = 0;
    for (long r = 0; r < n_; ++r) all += q_[r];
    long passed = 0, reached = 0;
    for (long k = 0; k < first_.size(); ++k) {
      for (; passed < from_[k]; ++passed) left += q_[passed];
      for (; reached < to_[k]; ++reached) right += q_[reached];
      Floats g = pack_of(static_cast<float>(all - right - left)), d = {}, bent = {};
      each_pair(k, [&](long r, Floats x, Floats value, Floats slope) {
        g += q_[r] * value, d += q_[r] * slope, bent += q_[r] * bend(x, slope);
      });
      store_pack<float>(potential + first_[k], g), store_pack<float>(density + first_[k], d);
      store_pack<float>(density_slope + first_[k], bent);
    }
  }
  void smooth(const float* w, float* u) {
    for (long k = 0; k < first_.size(); ++k) {
      Floats sum = {};
      each_pair(k, [&](long r, Floats, Floats, Floats slope) { sum += w[r] * slope; });
      store_pack<float>(u + first_[k], sum);
    }
  }
  void smooth(const float* w, float* u, float* u_slope) {
    for (long k = 0; k < first_.size(); ++k) {
      Floats sum = {}, bent = {};
      each_pair(k, [&](long r, Floats x, Floats, Floats slope) { sum += w[r] * slope, bent += w[r] * bend(x, slope); });
      store_pack<float>(u + first_[k], sum), store_pack<float>(u_slope + first_[k], bent);
    }
  }

 private:
  static constexpr long L = kLanes<float>;
  long n_ = 0;
  const float *z_ = nullptr, *q_ = nullptr;
  Array<long> first_, from_, to_;  // of each pack: its first node, and the nodes for which s is not flat

  // Calls f(r, z_r - z_t, s, s') for the nodes t of a pack and each r that matters.
  template <class F> void each_pair(long k, F f) const {
    const Floats here = load_pack<float>(z_ + first_[k]);
    for (long r = from_[k]; r < to_[k]; ++r) {
      const Floats x = z_[r] - here;
      Floats value, slope;
      PairRuleOf<kind, float, Reach::far>::pair(Floats{}, Floats{}, x, &value, &slope);
      f(r, x, value, slope);
    }
  }

  // -s'' from s'.
  static Floats bend(Floats x, Floats slope) {
    if (kind == Sigma::erf) return static_cast<float>(kPi / 2) * x * slope;
    return static_cast<float>(kPi * kPi / 2) * x * slope * slope;
  }
};

// tanh: tanh(a - b) = (A - B) / (A + B) with A = exp(2a) needs no exponential per pair, and in float is ten times less
// noisy than running sums of exponentials (whose weights are as large as 15).
template <> class DenseSums<Sigma::tanh> {
 public:
  void set_points(const float* z, long n) {
    z_ = z, n_ = n;
    power_.resize(n), value_.resize(n * n), slope_.resize(n * n);
    const float middle = 0.5f * (z[0] + z[n - 1]);
    for (long s = 0; s < n; ++s) power_[s] = fast_exp(2 * (z[s] - middle));
  }
  void set_weights(const float* q) { q_ = q; }

  // Also writes the matrices.
  void fields(float* potential, float* density, float* density_slope) {
    const bool wide = z_[n_ - 1] - z_[0] > 60;  // the powers would overflow
    for (long t = 0; t < n_; t += 8) {
      const Lanes b = load_lanes(power_.slot(t, 8));
      Lanes g = {}, d = {}, bent = {};
      for (long r = 0; r < n_; ++r) {
        const Lanes a = spread_lanes(power_[r]), w = spread_lanes(q_[r]);
        Lanes v = (a - b) / (a + b);
        if (wide)
          for (int k = 0; k < 8; ++k) v[k] = Nonlinearity<Sigma::tanh>::value(z_[r] - z_[t + k]);
        const Lanes s = 1 - v * v;
        store_lanes(value_.slot(r * n_ + t, 8), v), store_lanes(slope_.slot(r * n_ + t, 8), s);
        g = fused(w, v, g), d = fused(w, s, d), bent = fused(w * v, s, bent);
      }
      store_lanes(potential + t, g), store_lanes(density + t, d), store_lanes(density_slope + t, bent + bent);
    }
  }
  void smooth(const float* w, float* u) { dense_product(slope_, w, n_, u); }
  void smooth(const float* w, float* u, float* u_slope) {
    smooth(w, u);
    for (long t = 0; t < n_; ++t) u_slope[t] = 0;
    for (long r = 0; r < n_; ++r) {
      const float *v = value_.slot(r * n_, n_), *s = slope_.slot(r * n_, n_);
      for (long t = 0; t < n_; ++t) u_slope[t] += 2 * w[r] * v[t] * s[t];
    }
  }

 private:
  long n_ = 0;
  const float *z_ = nullptr, *q_ = nullptr;
  Array<float> power_, value_, slope_;
};

}  // namespace ibnn
