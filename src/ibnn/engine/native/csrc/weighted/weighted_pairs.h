// Sums of a row over weighted pairs, pair by pair: P_n(z, a)_i = sum_k w_ik a_k s_n(z_k - z_i), a = 1 if null.
#pragma once
#include <algorithm>

#include "basics/checked.h"
#include "basics/sigma.h"

namespace ibnn {

// Puts s_n of each of n numbers in its place.
template <class T> using Apply = void (*)(T* x, long n);

template <Sigma kind, int order, class T> void apply_derivative(T* x, long n) {
  for (long i = 0; i < n; ++i) x[i] = derivative<kind>(order, x[i]);
}

template <Sigma kind, class T> Apply<T> derivative_of(int order) {
  switch (order) {
    case 0: return apply_derivative<kind, 0, T>;
    case 1: return apply_derivative<kind, 1, T>;
    case 2: return apply_derivative<kind, 2, T>;
    default: return apply_derivative<kind, 3, T>;
  }
}

// Up to three dims; missing ones come first and are 1.
struct Extent {
  long size[3];
  long total() const { return size[0] * size[1] * size[2]; }
};

// The weights of a row's pairs: taps of a window over a map, or, without a window, a matrix.
template <class T> struct Weights {
  const T* weight;
  Extent map, kernel;
  bool is_matrix() const { return kernel.total() == 0; }
  // Units that a unit hears.
  long neighbors() const { return is_matrix() ? map.total() : kernel.total(); }
};

// Neighbourhoods: the weight depends on the offset k - i only, `taps` has an odd extent in each dim, and what falls
// outside the map is left out. Opposite offsets share the values of s.
template <class T> class WindowSum {
 public:
  void sum(const T* z, const T* a, const Extent& map, const T* taps, const Extent& kernel, int order, Apply<T> s, T* out) {
    const long middle = kernel.total() / 2;
    T own = 0;
    s(&own, 1);
    for (long i = 0; i < map.total(); ++i) out[i] = own * taps[middle] * (a ? a[i] : T(1));
    for (long tap = middle + 1; tap < kernel.total(); ++tap) {
      const long offset[3] = {tap / (kernel.size[1] * kernel.size[2]) - kernel.size[0] / 2,
                              tap / kernel.size[2] % kernel.size[1] - kernel.size[1] / 2,
                              tap % kernel.size[2] - kernel.size[2] / 2};
      // s_n is odd for even n
      const T back = (order % 2 ? T(1) : T(-1)) * taps[2 * middle - tap];
      add_pairs(z, a, map, offset, taps[tap], back, s, out);
    }
  }

 private:
  Array<T> values_;

  // All pairs (i, i + offset): i hears i + offset with weight `there`, and is heard with weight `back`.
  void add_pairs(const T* z, const T* a, const Extent& map, const long (&offset)[3], T there, T back, Apply<T> s, T* out) {
    long first[3], count[3];
    for (int d = 0; d < 3; ++d) {
      first[d] = std::max(0L, -offset[d]);
      count[d] = map.size[d] - std::abs(offset[d]);
      if (count[d] <= 0) return;
    }
    values_.resize(count[2]);
    const long shift = (offset[0] * map.size[1] + offset[1]) * map.size[2] + offset[2];
    for (long p = 0; p < count[0]; ++p)
      for (long q = 0; q < count[1]; ++q) {
        const long low = ((first[0] + p) * map.size[1] + first[1] + q) * map.size[2] + first[2];
        add_line(z + low, a ? a + low : nullptr, shift, count[2], there, back, s, out + low);
      }
  }

  void add_line(const T* z, const T* a, long shift, long n, T there, T back, Apply<T> s, T* out) {
    T* values = values_.slot(0, n);
    for (long x = 0; x < n; ++x) values[x] = z[x + shift] - z[x];
    s(values, n);
    if (a) {
      for (long x = 0; x < n; ++x) out[x] += there * values[x] * a[x + shift];
      for (long x = 0; x < n; ++x) out[x + shift] += back * values[x] * a[x];
    } else {
      for (long x = 0; x < n; ++x) out[x] += there * values[x];
      for (long x = 0; x < n; ++x) out[x + shift] += back * values[x];
    }
  }
};

// A matrix of weights, row i for what unit i hears.
template <class T> class MatrixSum {
 public:
  void sum(const T* z, const T* a, const T* weight, long n, Apply<T> s, T* out) {
    values_.resize(n);
    T* values = values_.slot(0, n);
    for (long i = 0; i < n; ++i) {
      const T *w = weight + i * n, here = z[i];
      for (long k = 0; k < n; ++k) values[k] = z[k] - here;
      s(values, n);
      T total = 0;
      for (long k = 0; k < n; ++k) total += w[k] * values[k] * (a ? a[k] : T(1));
      out[i] = total;
    }
  }

 private:
  Array<T> values_;
};

}  // namespace ibnn
