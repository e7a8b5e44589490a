// Rows of any layout in memory, taken a pack at a time: unit by unit, the same unit of all rows in one register.
#pragma once
#include <algorithm>

#include "basics/lanes.h"
#include "basics/packs.h"

namespace ibnn {

// Where unit i of row r is: rows count through `inner` places `inner_step` apart, then go on `outer_step` further. Channels
// of an image (n, c, h, w) are rows with inner = h w, inner_step = 1, outer_step = c h w and unit_step = h w: nothing has to
// be transposed to couple them, and neighbouring places are neighbouring lanes.
struct Layout {
  long rows, units, inner, outer_step, inner_step, unit_step;

  static Layout plain(long rows, long units) { return {rows, units, rows, 0, units, 1}; }
  long start(long row) const { return row / inner * outer_step + row % inner * inner_step; }
};

// A number of each row; step 0 is one number for all of them, a null pointer the number 1.
struct PerRow {
  const double* first;
  long step;
  double operator[](long row) const { return first ? first[row * step] : 1; }
};

// Some rows of a layout, one for each lane, in increasing order; lanes beyond them repeat the last row.
template <class T> class RowPack {
 public:
  // The rows from `first` on.
  RowPack(const Layout& layout, long first) : units_(layout.units), step_(layout.unit_step) {
    count_ = static_cast<int>(std::min<long>(kLanes<T>, layout.rows - first));
    for (int lane = 0; lane < kLanes<T>; ++lane) row_[lane] = first + std::min(lane, count_ - 1);
    find(layout);
  }
  // Those of a list, `count` of them, no more than lanes.
  RowPack(const Layout& layout, const long* rows, long count) : units_(layout.units), step_(layout.unit_step) {
    count_ = static_cast<int>(count);
    for (int lane = 0; lane < kLanes<T>; ++lane) row_[lane] = rows[std::min(lane, count_ - 1)];
    find(layout);
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
    if (together_) {
      for (long i = 0; i < units_; ++i) to[i] = load_pack<T>(from + start_[0] + i * step_);
      return;
    }
    long i = 0;
    if constexpr (sizeof(T) == 4)
      for (; step_ == 1 && i + 8 <= units_; i += 8)
        for (int first = 0; first < kLanes<T>; first += 8) {
          const float* rows[8];
          for (int k = 0; k < 8; ++k) rows[k] = from + start_[first + k] + i;
          Lanes part[8];
          load_transposed(rows, part);
          for (int k = 0; k < 8; ++k) store_lanes(reinterpret_cast<float*>(to + i + k) + first, part[k]);
        }
    for (; i < units_; ++i) {
      T lanes[kLanes<T>];
      for (int lane = 0; lane < kLanes<T>; ++lane) lanes[lane] = from[start_[lane] + i * step_];
      to[i] = load_pack<T>(lanes);
    }
  }

  void write(const Pack<T>* from, T* to) const {
    if (together_) {
      for (long i = 0; i < units_; ++i) store_pack<T>(to + start_[0] + i * step_, from[i]);
      return;
    }
    long i = 0;
    if constexpr (sizeof(T) == 4)
      for (; step_ == 1 && i + 8 <= units_; i += 8)
        for (int first = 0; first < count_; first += 8) {
          Lanes part[8];
          for (int k = 0; k < 8; ++k) part[k] = load_lanes(reinterpret_cast<const float*>(from + i + k) + first);
          transpose(part);
          for (int k = 0; k < 8 && first + k < count_; ++k) store_lanes(to + start_[first + k] + i, part[k]);
        }
    for (; i < units_; ++i)
      for (int lane = 0; lane < count_; ++lane) to[start_[lane] + i * step_] = from[i][lane];
  }

 private:
  long units_, step_, row_[kLanes<T>], start_[kLanes<T>];
  int count_;
  bool together_;  // neighbouring lanes are neighbours in memory

  void find(const Layout& layout) {
    for (int lane = 0; lane < kLanes<T>; ++lane) start_[lane] = layout.start(row_[lane]);
    together_ = count_ == kLanes<T> && layout.inner_step == 1 && row_[count_ - 1] - row_[0] == count_ - 1 &&
                start_[count_ - 1] - start_[0] == count_ - 1;
  }
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
