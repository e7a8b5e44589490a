// Sums over nodes at any places, every pair written out: for up to a few hundred nodes.
#pragma once
#include "checked.h"
#include "lanes.h"

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

// Matrices of s, s' and -s'' between nodes, for any sigma.
template <Sigma kind> class DenseSums {
 public:
  void set_points(const float* z, long n) {
    n_ = n;
    for (auto* a : {&value_, &slope_, &bend_}) a->resize(n * n);
    for (long r = 0; r < n; ++r) {
      float *v = value_.slot(r * n, n), *s = slope_.slot(r * n, n), *b = bend_.slot(r * n, n);
      const float zr = z[r];
      for (long t = 0; t < n; ++t) {
        v[t] = Nonlinearity<kind>::value(zr - z[t]);
        s[t] = Nonlinearity<kind>::slope(zr - z[t]);
        b[t] = -Nonlinearity<kind>::bend(zr - z[t]);
      }
    }
  }
  void set_weights(const float* q) { q_ = q; }
  void fields(float* potential, float* density, float* density_slope) {
    dense_product(value_, q_, n_, potential);
    dense_product(slope_, q_, n_, density);
    dense_product(bend_, q_, n_, density_slope);
  }
  void smooth(const float* w, float* u) { dense_product(slope_, w, n_, u); }
  void smooth(const float* w, float* u, float* u_slope) {
    dense_product(slope_, w, n_, u);
    dense_product(bend_, w, n_, u_slope);
  }

 private:
  long n_ = 0;
  const float* q_ = nullptr;
  Array<float> value_, slope_, bend_;
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
