// Sums over nodes at any places: s, its slope and its curvature, written out pair by pair or, for tanh on many nodes, by
// running sums. Node counts are padded to a multiple of 8 by nodes without weight.
#pragma once
#include "exponential_sums.h"

namespace ibnn {

// Any sigma: the S x S matrices of s, s', s'' written out. For up to a hundred nodes or so.
template <Sigma kind> class NodeSums {
 public:
  static constexpr long limit = 128;
  static constexpr long few = limit;  // summed pair by pair
  float noise() const { return 1.5e-7f; }

  void set_points(const float* z, long n) {
    n_ = n;
    for (auto* a : {&value_, &slope_, &bend_}) a->resize(n * n);
    for (long r = 0; r < n; ++r) {
      float *v = value_.slot(r * n, n), *s = slope_.slot(r * n, n), *b = bend_.slot(r * n, n);
      const float zr = z[r];
      for (long t = 0; t < n; ++t) {
        v[t] = Nonlinearity<kind>::value(zr - z[t]);
        s[t] = Nonlinearity<kind>::slope(zr - z[t]);
        b[t] = Nonlinearity<kind>::bend(zr - z[t]);
      }
    }
  }
  void set_weights(const float* q, long) { q_ = q; }
  void fields(float* potential, float* density, float* density_slope) {
    product(value_, q_, potential, 1);
    product(slope_, q_, density, 1);
    product(bend_, q_, density_slope, -1);
  }
  void smooth(const float* w, float* u) { product(slope_, w, u, 1); }
  void smooth(const float* w, float* u, float* u_slope) {
    product(slope_, w, u, 1);
    product(bend_, w, u_slope, -1);
  }

 private:
  long n_ = 0;
  const float* q_ = nullptr;
  Array<float> value_, slope_, bend_;
  void product(const Array<float>& matrix, const float* w, float* out, float sign) {
    for (long t = 0; t < n_; ++t) out[t] = 0;
    for (long r = 0; r < n_; ++r) {
      const float* row = matrix.slot(r * n_, n_);
      const float weight = sign * w[r];
      for (long t = 0; t < n_; ++t) out[t] += weight * row[t];
    }
  }
};

// tanh on few nodes: tanh(a - b) = (A - B) / (A + B) with A = exp(2a) needs no exponential per pair, and is ten times
// less noisy in float than the exponentials above (whose weights are as large as 15).
class SmallTanhSums {
 public:
  static constexpr long limit = 64;

  void set_points(const float* z, long n) {
    n_ = n;
    power_.resize(n), value_.resize(n * n), slope_.resize(n * n);
    const float middle = 0.5f * (z[0] + z[n - 1]);
    for (long s = 0; s < n; ++s) power_[s] = fast_exp(2 * (z[s] - middle));
    const float* power = power_.data();
    const bool wide = z[n - 1] - z[0] > 60;  // the powers would overflow
    for (long r = 0; r < n; ++r) {
      float *v = value_.slot(r * n, n), *s = slope_.slot(r * n, n);
      const float a = power[r];
      if (wide)
        for (long t = 0; t < n; ++t) v[t] = Nonlinearity<Sigma::tanh>::value(z[r] - z[t]);
      else
        for (long t = 0; t < n; ++t) v[t] = (a - power[t]) / (a + power[t]);
      for (long t = 0; t < n; ++t) s[t] = 1 - v[t] * v[t];
    }
  }
  void set_weights(const float* q) { q_ = q; }
  void fields(float* potential, float* density, float* density_slope) {
    for (long t = 0; t < n_; ++t) potential[t] = density[t] = density_slope[t] = 0;
    for (long r = 0; r < n_; ++r) {
      const float *v = value_.slot(r * n_, n_), *s = slope_.slot(r * n_, n_), w = q_[r];
      for (long t = 0; t < n_; ++t) {
        potential[t] += w * v[t];
        density[t] += w * s[t];
        density_slope[t] += 2 * w * v[t] * s[t];
      }
    }
  }
  void smooth(const float* w, float* u) {
    for (long t = 0; t < n_; ++t) u[t] = 0;
    for (long r = 0; r < n_; ++r) {
      const float* s = slope_.slot(r * n_, n_);
      for (long t = 0; t < n_; ++t) u[t] += w[r] * s[t];
    }
  }
  void smooth(const float* w, float* u, float* u_slope) {
    for (long t = 0; t < n_; ++t) u[t] = u_slope[t] = 0;
    for (long r = 0; r < n_; ++r) {
      const float *v = value_.slot(r * n_, n_), *s = slope_.slot(r * n_, n_);
      for (long t = 0; t < n_; ++t) u[t] += w[r] * s[t], u_slope[t] += 2 * w[r] * v[t] * s[t];
    }
  }

 private:
  long n_ = 0;
  const float* q_ = nullptr;
  Array<float> power_, value_, slope_;
};

template <> class NodeSums<Sigma::tanh> {
 public:
  static constexpr long limit = 1L << 40;
  static constexpr long few = SmallTanhSums::limit;  // summed pair by pair
  float noise() const { return small_ ? 1.5e-7f : 1e-6f; }

  void set_points(const float* z, long n) {
    small_ = n <= SmallTanhSums::limit;
    small_ ? few_.set_points(z, n) : many_.set_points(z, n);
  }
  void set_weights(const float* q, long n) {
    few_.set_weights(q);
    many_.set_weights(q, n);
  }
  void fields(float* potential, float* density, float* density_slope) {
    small_ ? few_.fields(potential, density, density_slope) : many_.fields(potential, density, density_slope);
  }
  void smooth(const float* w, float* u) { small_ ? few_.smooth(w, u) : many_.smooth(w, u); }
  void smooth(const float* w, float* u, float* u_slope) {
    small_ ? few_.smooth(w, u, u_slope) : many_.smooth(w, u, u_slope);
  }

 private:
  bool small_ = false;
  SmallTanhSums few_;
  ExponentialSums many_;
};

}  // namespace ibnn
