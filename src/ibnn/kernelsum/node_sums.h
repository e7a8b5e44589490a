// Sums over the nodes of a row (sorted positions, float): what the Newton steps on nodes are made of.
//
// fields():  G(t) = sum_r q_r s(Z_r - t),  d(t) = sum_r q_r s'(Z_r - t) and the slope of d, at t = Z_s
// smooth():  u(t) = sum_r w_r s'(Z_r - t), and its slope
// Node counts are padded to a multiple of 8 by nodes without weight.
#pragma once
#include "checked.h"
#include "lanes.h"

namespace ibnn {

// Any sigma: the S x S matrices of s, s', s'' written out. For up to a hundred nodes or so.
template <Sigma kind> class NodeSums {
 public:
  static constexpr long limit = 128;
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
