// Whether J is positive definite at a point of each row of a pack: its pivots, all pairs written out. tanh, short rows.
#pragma once
#include "basics/checked.h"
#include "basics/pair_rules.h"

namespace ibnn {

template <class T> class PackDefinite {
 public:
  using V = Pack<T>;
  using M = Mask<T>;
  // n^3 / 6 operations: a quarter of a solve at 64 units.
  static constexpr long longest = 64;

  // Lanes in which all eigenvalues of J(z), with c / n = share, are above what rounding may hide.
  M test(const V* z, V share, long n) {
    entries_.resize(n * n);
    for (long i = 0; i < n; ++i) entry(i, i, n) = pack_of(1 - kRounding);
    for (long i = 0; i < n; ++i)
      for (long k = 0; k < i; ++k) {
        V tanh, slope;
        FarTanh<T>::pair(z[k] - z[i], &tanh, &slope);
        slope *= share;
        entry(i, k, n) = slope, entry(i, i, n) -= slope, entry(k, k, n) -= slope;
      }
    M positive = M{} - 1;
    for (long k = 0; k < n; ++k) {
      const V pivot = entry(k, k, n);
      positive &= pivot > 0;
      const V inverse = 1 / (pivot > 0 ? pivot : pack_of(T(1)));
      for (long i = k + 1; i < n; ++i) {
        const V factor = entry(i, k, n) * inverse;
        for (long j = k + 1; j <= i; ++j) entry(i, j, n) -= factor * entry(j, k, n);
      }
    }
    return positive;
  }

 private:
  // Errors of sums of n slopes and of n pivots, each a rounding or two of numbers of size 1.
  static constexpr T kRounding = sizeof(T) == 4 ? T(1e-4) : T(1e-12);
  Array<V> entries_;

  V& entry(long i, long k, long n) { return entries_[i * n + k]; }
};

}  // namespace ibnn
