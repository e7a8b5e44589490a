// The numbers of a row as a whole: their range, their size, whether all are finite; and what came of solving it.
#pragma once
#include <algorithm>
#include <limits>
#include <type_traits>

#include "basics/chunks.h"
#include "basics/packs.h"

namespace ibnn {

struct Outcome {
  double residual = 0;
  int steps = 0;
  bool solved = true;  // to the accuracy asked for, or to rounding
};

template <class T> struct Ends {
  T low, high;
  double range() const { return static_cast<double>(high) - static_cast<double>(low); }
  T size() const { return std::max(-low, high); }
  Ends with(const Ends& other) const { return {std::min(low, other.low), std::max(high, other.high)}; }
};

// Smallest and largest number of a row.
template <class T> Ends<T> ends_of_row(const T* x, long n) {
  return joined_chunks(
      n,
      [=](long first, long end) {
        Ends<T> here;
        ends_of(x + first, end - first, &here.low, &here.high);
        return here;
      },
      [](Ends<T>& all, const Ends<T>& next) { all = all.with(next); });
}

template <class T> double range(const T* x, long n) { return ends_of_row(x, n).range(); }
template <class T> double size_of(const T* x, long n) { return ends_of_row(x, n).size(); }

// By the bits: the compiler is allowed to reorder sums, so arithmetic with NaN and inf would prove nothing.
template <class T> bool finite_numbers(const T* x, long n) {
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

template <class T> bool finite_row(const T* x, long n) {
  return joined_chunks(
      n, [=](long first, long end) { return finite_numbers(x + first, end - first); },
      [](bool& all, bool next) { all = all && next; });
}

// Whether all are finite, and their ends.
template <class T> bool finite_row(const T* x, long n, Ends<T>* ends) {
  struct Part {
    bool finite;
    Ends<T> ends;
  };
  const Part all = joined_chunks(
      n, [=](long first, long end) { return Part{finite_numbers(x + first, end - first), ends_of_row(x + first, end - first)}; },
      [](Part& all, const Part& next) { all = {all.finite && next.finite, all.ends.with(next.ends)}; });
  *ends = all.ends;
  return all.finite;
}

template <class T> void spoil(T* z, long n) { std::fill(z, z + n, std::numeric_limits<T>::quiet_NaN()); }

}  // namespace ibnn
