// The run of each unit of a sorted row: the units that are less than 1 away from it.
//
// Places and places 1 farther are merged. Where the merge passes from one to the other is where runs begin and end, so one
// walk over both finds all runs; it is cut into parts of the same length, which do not wait for each other.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ibnn {

class UnitRuns {
 public:
  // Units low[i] .. high[i] - 1 are the run of i. `at` are places in order, at least 0; ahead[i] = at[i] + 1.
  static void find(const double* at, const double* ahead, long n, int32_t* low, int32_t* high) {
    const long last = first_near(ahead, at[n - 1], n), all = n + last, length = all / kParts;
    // After t steps a walk that has passed a of the places ahead stands at the unit t - a.
    long passed[kParts], begun[kParts];
    for (int k = 0; k < kParts; ++k) passed[k] = begun[k] = passed_after(k * length, at, ahead, n);
    for (long t = 0; t < length; ++t)
      for (int k = 0; k < kParts; ++k) step(t + k * length, at, ahead, low, high, &passed[k]);
    for (long t = kParts * length; t < all; ++t) step(t, at, ahead, low, high, &passed[kParts - 1]);
    // Where a part begins the one before it has ended, and may have been the last to write.
    for (int k = 1; k < kParts; ++k) {
      const long a = begun[k], i = k * length - a;
      low[i] = static_cast<int32_t>(first_near(ahead, at[i], n));
      high[a] = static_cast<int32_t>(std::lower_bound(at, at + n, ahead[a]) - at);
    }
    std::fill(high + last, high + n, static_cast<int32_t>(n));
  }

 private:
  // A step waits for the look-up of the one before. Measured, both ways, rows of 1,024: 71 ns a unit with 8 parts, whose places
  // do not fit in the registers, 66 with 4.
  static constexpr int kParts = 4;

  // Places are not negative, so their bits are in their order: comparing those does not wait for the floating point unit.
  static bool reached(const double* ahead, long a, const double* at, long i) {
    int64_t there, here;
    std::memcpy(&there, ahead + a, 8), std::memcpy(&here, at + i, 8);
    return there <= here;
  }

  // What is written last to a place is right: its walk stays there until it is.
  static void step(long t, const double* at, const double* ahead, int32_t* low, int32_t* high, long* passed) {
    const long a = *passed, i = t - a;
    low[i] = static_cast<int32_t>(a), high[a] = static_cast<int32_t>(i);
    *passed = a + reached(ahead, a, at, i);
  }

  static long first_near(const double* ahead, double at, long n) { return std::upper_bound(ahead, ahead + n, at) - ahead; }

  // How many of the places ahead are among the first t of both.
  static long passed_after(long t, const double* at, const double* ahead, long n) {
    long from = std::max(0L, t - n), to = t / 2;
    while (from < to) {
      const long middle = (from + to) / 2;
      if (reached(ahead, middle, at, t - 1 - middle))
        from = middle + 1;
      else
        to = middle;
    }
    return from;
  }
};

}  // namespace ibnn
