// Rows, one after the other in memory, taken a pack at a time: unit by unit, the same unit of all rows in one register.
#pragma once
#include <algorithm>

#include "basics/lanes.h"
#include "basics/packs.h"

namespace ibnn {

// A number of each row; step 0 is one number for all of them.
struct PerRow {
  const double* first;
  long step;
  double operator[](long row) const { return first[row * step]; }
};

// Some rows of a batch, one for each lane, in increasing order; lanes beyond them repeat the last row.
template <class T> class RowPack {
 public:
  // The rows from `first` on, of `rows` in all.
  RowPack(long units, long first, long rows) : units_(units) {
    count_ = static_cast<int>(std::min<long>(kLanes<T>, rows - first));
    for (int lane = 0; lane < kLanes<T>; ++lane) row_[lane] = first + std::min(lane, count_ - 1);
  }
  // Those of a list, `count` of them, no more than lanes.
  RowPack(long units, const long* list, long count) : units_(units), count_(static_cast<int>(count)) {
    for (int lane = 0; lane < kLanes<T>; ++lane) row_[lane] = list[std::min(lane, count_ - 1)];
  }
  int count() const { return count_; }
  long row(int lane) const { return row_[lane]; }

  // A number of each lane.
  Pack<T> lanes_of(const PerRow& per_row) const {
    Pack<T> v;
    for (int lane = 0; lane < kLanes<T>; ++lane) v[lane] = static_cast<T>(per_row[row_[lane]]);
    return v;
  }

  void read(const T* from, Pack<T>* to) const {
    long i = 0;
    if constexpr (sizeof(T) == 4)
      for (; i + 8 <= units_; i += 8)
        for (int first = 0; first < kLanes<T>; first += 8) {
          const float* rows[8];
          for (int k = 0; k < 8; ++k) rows[k] = from + row_[first + k] * units_ + i;
          Lanes part[8];
          load_transposed(rows, part);
          for (int k = 0; k < 8; ++k) store_lanes(reinterpret_cast<float*>(to + i + k) + first, part[k]);
        }
    for (; i < units_; ++i) {
      T lanes[kLanes<T>];
      for (int lane = 0; lane < kLanes<T>; ++lane) lanes[lane] = from[row_[lane] * units_ + i];
      to[i] = load_pack<T>(lanes);
    }
  }

  void write(const Pack<T>* from, T* to) const {
    long i = 0;
    if constexpr (sizeof(T) == 4)
      for (; i + 8 <= units_; i += 8)
        for (int first = 0; first < count_; first += 8) {
          Lanes part[8];
          for (int k = 0; k < 8; ++k) part[k] = load_lanes(reinterpret_cast<const float*>(from + i + k) + first);
          transpose(part);
          for (int k = 0; k < 8 && first + k < count_; ++k) store_lanes(to + row_[first + k] * units_ + i, part[k]);
        }
    for (; i < units_; ++i)
      for (int lane = 0; lane < count_; ++lane) to[row_[lane] * units_ + i] = from[i][lane];
  }

 private:
  long units_, row_[kLanes<T>];
  int count_;
};

// Lanes whose n numbers are all finite, by their bits (the compiler may take sums apart, so arithmetic would prove nothing).
template <class T> Mask<T> finite_lanes(const Pack<T>* x, long n) {
  const Mask<T> exponent = Mask<T>{} + (sizeof(T) == 4 ? 0x7f800000 : 0x7ff0000000000000);
  Mask<T> bad = {};
  for (long i = 0; i < n; ++i) {
    Mask<T> bits;
    std::memcpy(&bits, &x[i], sizeof bits);
    bad |= (bits & exponent) == exponent;
  }
  return ~bad;
}

template <class T> void range_of_lanes(const Pack<T>* x, long n, Pack<T>* low, Pack<T>* high) {
  *low = *high = x[0];
  for (long i = 1; i < n; ++i) *low = least_of(*low, x[i]), *high = most_of(*high, x[i]);
}

}  // namespace ibnn
