// The units of a row in order: a radix sort, whose cost does not depend on how the units are distributed.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "basics/checked.h"

namespace ibnn {

template <class T> class UnitOrder {
 public:
  // Sorts finite numbers; equal ones keep their places.
  void sort(const T* x, long n) {
    items_.resize(n), spare_.resize(n);
    for (auto& count : counts_) std::memset(count, 0, sizeof count);
    for (long i = 0; i < n; ++i) {
      const Key key = key_of(x[i]);
      items_[i] = {key, static_cast<int32_t>(i)};
      for (int digit = 0; digit < kDigits; ++digit) ++counts_[digit][key >> (8 * digit) & 255];
    }
    for (int digit = 0; digit < kDigits; ++digit) {
      const int shift = 8 * digit;
      int32_t* count = counts_[digit];
      if (count[items_[0].key >> shift & 255] == n) continue;  // all have the same digit
      int32_t before = 0;
      for (int value = 0; value < 256; ++value) {
        const int32_t here = count[value];
        count[value] = before, before += here;
      }
      for (long i = 0; i < n; ++i) spare_[count[items_[i].key >> shift & 255]++] = items_[i];
      items_.swap(spare_);
    }
  }

  // sorted = x in order.
  template <class Out> void gather(const T* x, long n, Out* sorted) const {
    for (long i = 0; i < n; ++i) sorted[i] = x[items_[i].place];
  }
  // x = sorted, every unit back in its place.
  template <class In> void scatter(const In* sorted, long n, T* x) const {
    for (long i = 0; i < n; ++i) x[items_[i].place] = static_cast<T>(sorted[i]);
  }

 private:
  using Key = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  static constexpr int kDigits = sizeof(T);
  struct Item {
    Key key;
    int32_t place;
  };
  std::vector<Item> items_, spare_;
  int32_t counts_[kDigits][256];

  // Bits that are in the order of the numbers: those of negative ones are turned over.
  static Key key_of(T x) {
    constexpr Key sign = Key(1) << (8 * sizeof(T) - 1);
    Key bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits & sign ? ~bits : bits | sign;
  }
};

}  // namespace ibnn
