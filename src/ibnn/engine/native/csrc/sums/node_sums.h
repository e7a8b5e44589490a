// Sums over the nodes of a row (sorted, at any places, float): what the Newton steps on nodes are made of.
//
// fields():  G(t) = sum_r q_r s(Z_r - t),  d(t) = sum_r q_r s'(Z_r - t) and the slope of d, at t = Z_s
// smooth():  u(t) = sum_r w_r s'(Z_r - t), and its slope; after fields()
// Node counts are padded to a multiple of 8 by nodes without weight. Points and weights must stay alive.
#pragma once
#include "sums/written_out_sums.h"
#include "sums/exponential_sums.h"
#include "sums/wave_sums.h"

namespace ibnn {

template <Sigma kind> class NodeSums : public DenseSums<kind> {
 public:
  static constexpr long limit = 544;  // nodes: all pairs are summed
  static constexpr long even_limit = 0;
  static constexpr long few = 64;     // with more of them it pays to start from sums over even nodes
  static bool serves(const float*, long) { return true; }
  float noise() const { return 1.5e-7f; }
  float most_noise(long) const { return noise(); }
  void set_weights(const float* q, long) { DenseSums<kind>::set_weights(q); }
};

template <> class NodeSums<Sigma::tanh> {
 public:
  static constexpr long limit = 1L << 40;
  static constexpr long even_limit = 0;
  static constexpr long few = 64;
  static bool serves(const float*, long) { return true; }
  float noise() const { return small_ ? 1.5e-7f : 1e-6f; }
  // Where all nodes are in one place their running sums are rounded one way: by 2.6e-5 for 2000 of them.
  float most_noise(long nodes) const { return small_ ? noise() : std::max(noise(), 1.3e-8f * static_cast<float>(nodes)); }

  void set_points(const float* z, long n) {
    small_ = n <= few;
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
  DenseSums<Sigma::tanh> few_;
  ExponentialSums many_;
};

// Waves, or all pairs of a few nodes where one is too far away for them.
template <> class NodeSums<Sigma::arctan> {
 public:
  static constexpr long limit = 1 << 14;    // as far as it was measured: 4 to 20 times as fast as cells, and as accurate
  static constexpr long even_limit = 4000;  // at most 0.25 apart: within reach of the waves
  static constexpr long few = limit;        // sums over even nodes are no cheaper
  // Whether all sums on the way from nodes at y to those at z are to be had: z reaches up to 2 c < 2 farther.
  static bool serves(const float* y, long n) { return n <= kMostPairs || y[n - 1] - y[0] <= WaveSums::kLongest - 2; }
  float noise() const { return near_ ? 3e-7f : 1.5e-7f; }
  float most_noise(long) const { return noise(); }

  void set_points(const float* z, long n) {
    near_ = z[n - 1] - z[0] <= WaveSums::kLongest;
    near_ ? waves_.set_points(z, n) : pairs_.set_points(z, n);
  }
  void set_weights(const float* q, long) {
    q_ = q;
    pairs_.set_weights(q);
  }
  void fields(float* potential, float* density, float* density_slope) {
    near_ ? waves_.fields(q_, potential, density, density_slope) : pairs_.fields(potential, density, density_slope);
  }
  void smooth(const float* w, float* u) { near_ ? waves_.smooth(w, u) : pairs_.smooth(w, u); }
  void smooth(const float* w, float* u, float* u_slope) {
    near_ ? waves_.smooth(w, u, u_slope) : pairs_.smooth(w, u, u_slope);
  }

 private:
  static constexpr long kMostPairs = 544;  // nodes, as for any sigma
  bool near_ = false;
  const float* q_ = nullptr;
  WaveSums waves_;
  DenseSums<Sigma::arctan> pairs_;
};

}  // namespace ibnn
