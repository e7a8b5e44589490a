// The numbers of a row as a whole: their range, their size, whether all are finite; and what came of solving it.
#pragma once
#include <algorithm>
#include <limits>
#include <type_traits>

#include "basics/packs.h"

namespace ibnn {

struct Outcome {
  double residual = 0;
  int steps = 0;
  bool solved = true;  // to the accuracy asked for, or to rounding
};

template <class T> double range(const T* x, long n) {
  T low, high;
  ends_of(x, n, &low, &high);
  return static_cast<double>(high) - static_cast<double>(low);
}

template <class T> double size_of(const T* x, long n) {
  T low, high;
  ends_of(x, n, &low, &high);
  return std::max<double>(-low, high);
}

// By the bits: the compiler is allowed to reorder sums, so arithmetic with NaN and inf would prove nothing.
template <class T> bool finite_row(const T* x, long n) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr Bits exponent = sizeof(T) == 4 ? Bits(0x7f800000) : Bits(0x7ff0000000000000);
  Bits bad = 0;
  for (long i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, x + i, sizeof(T));
    bad |= (bits & exponent) == exponent;
  }
  return bad == 0;
}

template <class T> void spoil(T* z, long n) { std::fill(z, z + n, std::numeric_limits<T>::quiet_NaN()); }

}  // namespace ibnn
