// Sums over evenly spaced nodes: the kernels are tabled once, every sum is a convolution as far as s is not flat.
#pragma once
#include "sums/filter.h"
#include "basics/sigma.h"
#include "sums/wave_sums.h"

namespace ibnn {

// |s - sign| and s' are below 5e-8 beyond this (arctan never is).
template <Sigma kind> constexpr float kFlat = kind == Sigma::tanh ? 9.2f : (kind == Sigma::erf ? 4.8f : 1e30f);

template <Sigma kind> class EvenSums {
 public:
  // n nodes (a multiple of 8), `step` apart; s is taken for flat from `flat` on.
  void set_points(float step, long n, float flat = kFlat<kind>) {
    auto nodes_within = [=](float distance) {
      const float needed = std::ceil(distance / step);
      return needed < static_cast<float>(n - 1) ? static_cast<long>(needed) : n - 1;
    };
    reach_ = nodes_within(flat), short_reach_ = nodes_within(0.8f * flat);
    for (auto* a : {&rest_, &slope_, &bend_}) a->resize(reach_ + 1);
    float *rest = rest_.data(), *slope = slope_.data(), *bend = bend_.data();
    const int last = static_cast<int>(reach_);  // 32 bits: AVX2 turns those into floats eight at a time
    for (int k = 0; k <= last; ++k) rest[k] = Nonlinearity<kind>::value(static_cast<float>(k) * step) - 1;
    for (int k = 0; k <= last; ++k) slope[k] = Nonlinearity<kind>::slope(static_cast<float>(k) * step);
    for (int k = 0; k <= last; ++k) bend[k] = -Nonlinearity<kind>::bend(static_cast<float>(k) * step);
    w_.resize(n, reach_ + 8);
  }

  // potential_s = sum_r q_r s(Z_r - Z_s), density_s = sum_r q_r s'(Z_r - Z_s), density_slope its derivative.
  void fields(const float* q, float* potential, float* density, float* density_slope) {
    std::copy(q, q + w_.size(), w_.slot(0, w_.size()));
    even_odd_filter<2>(w_, slope_.data(), {rest_.data(), bend_.data()}, reach_, density, {potential, density_slope});
    double total = 0, seen = 0;
    for (long s = 0; s < w_.size(); ++s) total += q[s];
    for (long s = 0; s < w_.size(); ++s) {
      potential[s] += static_cast<float>(total - 2 * seen - q[s]);  // weight to the right minus weight to the left
      seen += q[s];
    }
  }
  // Weights of the next sums go here.
  float* weights() { return w_.slot(0, w_.size()); }
  // To 2e-6 only: the linear solves ask for no more.
  void smooth(float* u) { even_filter(w_, slope_.data(), short_reach_, u); }
  void smooth(float* u, float* u_slope) { even_odd_filter<1>(w_, slope_.data(), {bend_.data()}, reach_, u, {u_slope}); }

 private:
  long reach_ = 0, short_reach_ = 0;
  Array<float> rest_, slope_, bend_;
  Padded w_;
};

// arctan is flat nowhere: running sums instead.
template <> class EvenSums<Sigma::arctan> {
 public:
  // step * n <= WaveSums::kLongest
  void set_points(float step, long n, float = 0) {
    waves_.set_even_points(step, n);
    w_.resize(n);
  }
  void fields(const float* q, float* potential, float* density, float* density_slope) {
    waves_.fields(q, potential, density, density_slope);
  }
  float* weights() { return w_.data(); }
  void smooth(float* u) { waves_.smooth(w_.data(), u); }
  void smooth(float* u, float* u_slope) { waves_.smooth(w_.data(), u, u_slope); }

 private:
  WaveSums waves_;
  Array<float> w_;
};

}  // namespace ibnn
