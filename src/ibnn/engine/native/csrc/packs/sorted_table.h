// Sums over the units of sorted rows in O(n), in lanes: running sums of powers of exponentials.
//
// With q = e^(-2 x), 1 - tanh x = 2 q / (1 + q), which on [0, 1] is a polynomial of q without a constant, to as many digits
// as it has terms (each is worth a factor of 5.8). The m-th power of e^(-2 (z_k - z_i)) is a product over the units between,
// so one pass from the left and one from the right give all sums, whatever the range of the row.
#pragma once
#include <algorithm>

#include "basics/checked.h"
#include "basics/packs.h"

namespace ibnn {

// The powers q, q^2, ..., q^K, from few multiplications that wait for each other.
template <int K, class V> inline void powers_of(V q, V* out) {
  out[0] = q;
  for (int m = 1; m < K; ++m) out[m] = out[(m - 1) / 2] * out[m / 2];
}

// Coefficients of q, q^2, ... for 1 - tanh x (`value`) and for its slope, exact at x = 0; `rough` (the slope) and `rough_value`
// are for steps of Newton.
template <class T> struct TanhSeries;

// Minimax: 7e-8, 1e-6, 1.5e-4 (rough) and 1.5e-5 (rough_value).
template <> struct TanhSeries<float> {
  static constexpr float value[9] = {
      1.99998996f, -1.99956477f, 1.99343464f, -1.95047422f, 1.78127713f,
      -1.38089315f, 0.799638048f, -0.292916914f, 0.0495092792f};
  static constexpr float slope[9] = {
      3.99986063f, -7.99389707f, 11.906869f, -15.2872724f, 16.7910042f,
      -14.6635751f, 9.14362722f, -3.5071224f, 0.610505996f};
  // -s'' = 8 q (1 - q) / (1 + q)^3, to 1.3e-5: the derivative of `slope` would be off by 2.4e-4, at x = 0.
  static constexpr float bend[9] = {
      7.99813672f, -31.9174340f, 70.7226857f, -118.056130f, 154.189776f,
      -150.312433f, 100.383521f, -40.2089326f, 7.20081035f};
  static constexpr float rough[6] = {
      3.98976618f, -7.77323089f, 10.2644757f, -9.40205609f, 5.16289956f, -1.24185444f};
  static constexpr float rough_value[6] = {
      1.99894488f, -1.97710168f, 1.82936418f, -1.37578309f, 0.678019941f, -0.153444245f};
};

// Interpolation at Chebyshev points: 2e-12, 4e-11, and the slope of floats.
template <> struct TanhSeries<double> {
  static constexpr double value[16] = {
      2.0, -1.999999999721133922, 1.999999957798266929, -1.999998075489425525,
      1.999958369719294991, -1.999480848669248312, 1.995843694944443433, -1.977150630999545998,
      1.90970802397729762, -1.734768724619291531, 1.404631609696609849, -0.9508857337244460437,
      0.5015455360462205874, -0.1893272017288904829, 0.04491452561607945559, -0.004990502846231050621};
  static constexpr double slope[16] = {
      4.0, -7.999999993108325894, 11.99999895650225312, -15.99995235421746073,
      19.99896724842150888, -23.98708291300551567, 27.89615889041637202, -31.42588078820039592,
      33.71345918263167968, -33.20956473667116724, 28.52035650318464133, -20.11610558161487279,
      10.91324133205066645, -4.200417191835871858, 1.010171751838857459, -0.1133503063923688401};
  static constexpr double rough[9] = {
      3.99986063, -7.99389707, 11.906869, -15.2872724, 16.7910042,
      -14.6635751, 9.14362722, -3.5071224, 0.610505996};
};

// The table of all pairs (see PairTable) without a table; z is sorted.
template <class T> class SortedTable {
 public:
  using V = Pack<T>;
  static constexpr T kNoise = sizeof(T) == 4 ? T(3e-7) : T(2e-15);  // of a sum of s, in units of n
  static constexpr bool kPositive = true;
  bool fine = false;  // slopes as exact as they can be had, for the adjoint
  Array<V> bias, degree;

  void resize(long n) {
    n_ = n;
    for (auto* a : {&bias, &degree, &decay_}) a->resize(n);
  }

  void evaluate(const V* z) {
    for (long s = 0; s + 1 < n_; ++s) decay_[s] = exp_pack(-2 * most_of(z[s + 1] - z[s], V{}));
    decay_[n_ - 1] = V{};
    fine ? sums(Series::slope) : sums(Series::rough);
  }

  // out = v + share * sum_k s' (v_k - v_i); returns v . out.
  V product(const V* v, V share, V* out) const {
    fine ? convolve(Series::slope, v, out) : convolve(Series::rough, v, out);
    V sum = {};
    for (long i = 0; i < n_; ++i) {
      out[i] = v[i] + share * (out[i] - degree[i] * v[i]);
      sum += v[i] * out[i];
    }
    return sum;
  }

  // Puts z in order again where a step has broken it: differences of z are at least those of y times 1 / (1 + |c|), or 1
  // for c > 0; half of that is enforced.
  void admit(const V* y, V c, V* z) const {
    const V least = T(0.5) / (c < 0 ? 1 - c : pack_of(T(1)));
    for (long i = 1; i < n_; ++i) z[i] = most_of(z[i], z[i - 1] + least * (y[i] - y[i - 1]));
  }

 private:
  using Series = TanhSeries<T>;
  static constexpr int kTerms = sizeof(Series::value) / sizeof(T);
  long n_ = 0;
  Array<V> decay_;

  template <int K> static V total(const T (&coefficient)[K], const V* run) {
    V sum = coefficient[0] * run[0];
    for (int m = 1; m < K; ++m) sum = fused_packs(pack_of(coefficient[m]), run[m], sum);
    return sum;
  }

  // Running sums count a unit itself with those on its side: one instruction a term. Odd sums lose it again by themselves,
  // from even ones it is taken off twice (the series are exact at 0).
  template <int K> void sums(const T (&slope)[K]) {
    const V one = pack_of(T(1));
    V run[kTerms] = {}, power[kTerms];
    for (long s = 0; s < n_; ++s) {
      powers_of<kTerms>(s > 0 ? decay_[s - 1] : V{}, power);
      for (int m = 0; m < kTerms; ++m) run[m] = fused_packs(run[m], power[m], one);
      bias[s] = static_cast<T>(n_ - 1 - 2 * s) + total(Series::value, run), degree[s] = total(slope, run) - 2;
    }
    for (V& sum : run) sum = V{};
    for (long s = n_ - 1; s >= 0; --s) {
      powers_of<kTerms>(decay_[s], power);
      for (int m = 0; m < kTerms; ++m) run[m] = fused_packs(run[m], power[m], one);
      bias[s] -= total(Series::value, run), degree[s] += total(slope, run);
    }
  }

  template <int K> void convolve(const T (&slope)[K], const V* v, V* out) const {
    V run[K] = {}, power[K];
    for (long s = 0; s < n_; ++s) {
      powers_of<K>(s > 0 ? decay_[s - 1] : V{}, power);
      for (int m = 0; m < K; ++m) run[m] = fused_packs(run[m], power[m], v[s]);
      out[s] = total(slope, run) - 2 * v[s];
    }
    for (V& sum : run) sum = V{};
    for (long s = n_ - 1; s >= 0; --s) {
      powers_of<K>(decay_[s], power);
      for (int m = 0; m < K; ++m) run[m] = fused_packs(run[m], power[m], v[s]);
      out[s] += total(slope, run);
    }
  }
};

}  // namespace ibnn
