// Sums over the nodes of a row (sorted, at any places, float): what the Newton steps on nodes are made of.
//
// fields():  G(t) = sum_r q_r s(Z_r - t),  d(t) = sum_r q_r s'(Z_r - t) and the slope of d, at t = Z_s
// smooth():  u(t) = sum_r w_r s'(Z_r - t), and its slope; after fields()
// Node counts are padded to a multiple of 8 by nodes without weight. Points and weights must stay alive.
#pragma once
#include "sums/written_out_sums.h"
#include "sums/exponential_sums.h"

namespace ibnn {

template <Sigma kind> class NodeSums : public DenseSums<kind> {
 public:
  static constexpr long limit = 544;  // nodes: all pairs are summed; arctan needs 490 for 1024 normal units of std 10
  static constexpr long few = 64;     // with more of them it pays to start from sums over even nodes
  float noise() const { return 1.5e-7f; }
  void set_weights(const float* q, long) { DenseSums<kind>::set_weights(q); }
};

template <> class NodeSums<Sigma::tanh> {
 public:
  static constexpr long limit = 1L << 40;
  static constexpr long few = 64;
  float noise() const { return small_ ? 1.5e-7f : 1e-6f; }

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

}  // namespace ibnn
