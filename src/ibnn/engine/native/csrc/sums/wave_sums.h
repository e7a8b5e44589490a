// Sums of arctan over nodes at any places, in O(S): running sums of exponentials and damped waves from both sides.
#pragma once
#include "basics/checked.h"
#include "basics/lanes.h"

namespace ibnn {

// arctan: 1 - s(x), 0 <= x <= kLongest, is the real part of a sum of 14 exponentials to 8e-8 (its slope to 4e-7). Twelve are
// real, with rates from 1/2000 on: the long tail. Two are waves, for what is left near 0; with 16 real rates the weights would
// be in the thousands, and with them the rounding. These add up to 1.3.
class WaveSums {
 public:
  static constexpr float kLongest = 1000;  // between the first and the last node

  // Nodes in order; z need not stay alive.
  void set_points(const float* z, long n) {
    even_ = false, n_ = n;
    decay_.resize(n * 3 * 8);
    for (long s = 0; s + 1 < n; ++s) {
      const float gap = z[s + 1] - z[s];
      const Decay decay = decay_over(gap > 0 ? gap : 0);
      store_lanes(decay_.slot(s * 24, 8), decay.plain), store_lanes(decay_.slot(s * 24 + 8, 8), decay.real);
      store_lanes(decay_.slot(s * 24 + 16, 8), decay.imaginary);
    }
  }
  void set_even_points(float step, long n) {
    even_ = true, n_ = n;
    even_decay_ = decay_over(step);
  }

  // sum_r q_r s(Z_r - Z_s), sum_r q_r s'(Z_r - Z_s) and the derivative of the latter.
  void fields(const float* q, float* potential, float* density, float* density_slope) {
    sweep(q);
    const Terms a = weights(), ab = times_rate(a), abb = times_rate(ab);
    double ahead = 0;  // weight to the right minus weight to the left
    for (long s = 0; s < n_; ++s) ahead += q[s];
    for (long s = 0; s < n_; s += 8) {
      Lanes odd[8], even[8], bent[8], outweighs;
      for (int k = 0; k < 8; ++k) {
        const Terms sum = both_sides(s + k, 1), difference = both_sides(s + k, -1);
        odd[k] = product(a, difference), even[k] = product(ab, sum), bent[k] = product(abb, difference);
        outweighs[k] = static_cast<float>(ahead - q[s + k]);
        ahead -= 2.0 * q[s + k];
      }
      store_lanes(potential + s, outweighs - sum_each(odd));
      store_lanes(density + s, load_lanes(q + s) + sum_each(even));
      store_lanes(density_slope + s, sum_each(bent));
    }
  }

  // sum_r w_r s'(Z_r - Z_s).
  void smooth(const float* w, float* u) {
    sweep(w);
    const Terms ab = times_rate(weights());
    for (long s = 0; s < n_; s += 8) {
      Lanes even[8];
      for (int k = 0; k < 8; ++k) even[k] = product(ab, both_sides(s + k, 1));
      store_lanes(u + s, load_lanes(w + s) + sum_each(even));
    }
  }
  // The same and its derivative.
  void smooth(const float* w, float* u, float* u_slope) {
    smooth(w, u);
    const Terms abb = times_rate(times_rate(weights()));
    for (long s = 0; s < n_; s += 8) {
      Lanes bent[8];
      for (int k = 0; k < 8; ++k) bent[k] = product(abb, both_sides(s + k, -1));
      store_lanes(u_slope + s, sum_each(bent));
    }
  }

 private:
  // A number for each exponential. The last two pairs of `mixed` are waves: real and imaginary part.
  struct Terms {
    Lanes plain, mixed;
  };
  struct Decay {
    Lanes plain, real, imaginary;
  };
  // Fit of 1 - s, its first and its second derivative on [0, kLongest] by least squares, which were weighted anew four times
  // where errors were large. A weight a + ib of a wave is kept as a, -b: times real and imaginary part of the sum, that adds up
  // to the real part of the product.
  static constexpr float kWeight[8] = {0.000529424608f, 0.00136123945f, 0.00263856841f, 0.00506450362f,
      0.0099453046f, 0.019456748f, 0.0373688608f, 0.070055382f};
  static constexpr float kRate[8] = {0.000503596961f, 0.0027856828f, 0.00757641457f, 0.0167344304f,
      0.0345669887f, 0.0695861384f, 0.137475392f, 0.266477844f};
  static constexpr float kMixedWeight[8] = {0.126685906f, 0.214820462f, 0.317153999f, 0.326352061f,
      -0.133971338f, 0.106670836f, 0.00253889058f, 0.000816796318f};
  static constexpr float kMixedRate[8] = {0.505712864f, 0.935930071f, 1.6800986f, 2.91384796f,
      7.46227398f, 7.46227398f, 11.0003641f, 11.0003641f};
  static constexpr float kWave[8] = {0, 0, 0, 0,
      1.78896927f, 1.78896927f, 7.89065871f, 7.89065871f};
  static constexpr float kSide[8] = {0, 0, 0, 0, 1, -1, 1, -1};
  static constexpr float kReal[8] = {1, 1, 1, 1, 1, 0, 1, 0};

  bool even_ = false;
  long n_ = 0;
  Decay even_decay_;
  Array<float> decay_, left_, right_;

  static Lanes swap_pairs(Lanes x) {
#ifdef IBNN_AVX2
    return (Lanes)_mm256_permute_ps((__m256)x, 0xB1);
#else
    return Lanes{x[1], x[0], x[3], x[2], x[5], x[4], x[7], x[6]};
#endif
  }

  static Terms weights() { return {load_lanes(kWeight), load_lanes(kMixedWeight)}; }
  static Terms times_rate(Terms a) {
    const Lanes turn = load_lanes(kWave) * load_lanes(kSide);
    return {a.plain * load_lanes(kRate), a.mixed * load_lanes(kMixedRate) + swap_pairs(a.mixed) * turn};
  }
  static Lanes product(Terms a, Terms b) { return fused(a.plain, b.plain, a.mixed * b.mixed); }
  Terms both_sides(long s, float sign) const {
    const float *l = left_.slot(s * 16, 16), *r = right_.slot(s * 16, 16);
    return {load_lanes(r) + sign * load_lanes(l), load_lanes(r + 8) + sign * load_lanes(l + 8)};
  }

  static Decay decay_over(float gap) {
    constexpr float kFaded = 3;  // waves are below 1e-9 beyond it, and their phase does not matter
    const Lanes plain = exp_lanes(-load_lanes(kRate) * gap), mixed = exp_lanes(-load_lanes(kMixedRate) * gap);
    const Lanes phase = load_lanes(kWave) * (gap < kFaded ? gap : kFaded);
    Lanes cosine, sine;
    turn(phase, &cosine, &sine);
    return {plain, mixed * cosine, mixed * sine * load_lanes(kSide)};
  }

  // Taylor's series in [-pi/2, pi/2], to 6e-8; 0 <= phase < 1e3.
  static void turn(Lanes phase, Lanes* cosine, Lanes* sine) {
    typedef int32_t Integers __attribute__((vector_size(32)));
    const Integers half_turns = __builtin_convertvector(phase * static_cast<float>(1 / kPi) + 0.5f, Integers);
    const Lanes k = __builtin_convertvector(half_turns, Lanes), sign = 1 - 2 * __builtin_convertvector(half_turns & 1, Lanes);
    // pi in two parts, the first with few digits: k times it is exact
    const Lanes r = fused(k, spread_lanes(-9.67653589793e-4f), fused(k, spread_lanes(-3.140625f), phase)), w = r * r;
    Lanes c = spread_lanes(1.0f / 479001600), s = spread_lanes(-1.0f / 39916800);
    for (float term : {-1.0f / 3628800, 1.0f / 40320, -1.0f / 720, 1.0f / 24, -0.5f, 1.0f}) c = fused(c, w, spread_lanes(term));
    for (float term : {1.0f / 362880, -1.0f / 5040, 1.0f / 120, -1.0f / 6, 1.0f}) s = fused(s, w, spread_lanes(term));
    *cosine = sign * c, *sine = sign * s * r;
  }

  // (x + w) times the decay: the weight enters the real parts only.
  static Terms move_on(const Decay& e, Terms x, float weight) {
    const Lanes w = spread_lanes(weight), real = load_lanes(kReal);
    const Lanes entered = w * (e.real * real + e.imaginary * (1 - real));
    return {fused(e.plain, x.plain, e.plain * w), fused(e.imaginary, swap_pairs(x.mixed), fused(e.real, x.mixed, entered))};
  }
  static void keep(Terms x, float* at) { store_lanes(at, x.plain), store_lanes(at + 8, x.mixed); }
  Decay decay(long s) const {
    const float* e = decay_.slot(s * 24, 24);
    return {load_lanes(e), load_lanes(e + 8), load_lanes(e + 16)};
  }

  // left_s = sum_{r<s} w_r exp(-rate (Z_s - Z_r)), right_s likewise; two independent chains hide each other's latency.
  void sweep(const float* w) {
    left_.resize(n_ * 16), right_.resize(n_ * 16);
    even_ ? sweep(w, [this](long) { return even_decay_; }) : sweep(w, [this](long s) { return decay(s); });
  }
  template <class DecayAfter> void sweep(const float* w, DecayAfter decay_after) {
    Terms left = {}, right = {};
    for (long s = 0, t = n_ - 1;; ++s, --t) {
      keep(left, left_.slot(s * 16, 16)), keep(right, right_.slot(t * 16, 16));
      if (t == 0) return;
      left = move_on(decay_after(s), left, w[s]), right = move_on(decay_after(t - 1), right, w[t]);
    }
  }
};

}  // namespace ibnn
