// What an explicit step looks up at the units: a cubic for each cell of a grid, or two, eight units at a time.
#pragma once
#include "nodes/grid.h"

namespace ibnn {

class ExplicitTable {
 public:
  // `width` numbers per cell: 4 for one cubic, 8 for two. Rows are set by the caller.
  void resize(long cells, long width) { width_ = width, table_.resize(cells * width); }
  float* row(long cell) { return table_.slot(cell * width_, 8); }

  // out = y + (the cubic at y).
  void add_cubic(const Grid& grid, const float* y, long n, float* out) const {
    look_up(
        grid, y, n,
        [&](const int* cell, Lanes f, long i) {
          Lanes row[4];
          for (int k = 0; k < 4; ++k) row[k] = join_lanes(at<4>(cell[k]), at<4>(cell[k + 4]));
          transpose_halves(row);
          store_lanes(out + i, load_lanes(y + i) + cubic(row, f));
        },
        [&](long cell, float f, long i) { out[i] = y[i] + cubic(at<4>(cell), f); });
  }

  // out = g * (the first cubic at x) - (the second one): the cubics are joined before they are looked up.
  void apply_cubics(const Grid& grid, const float* x, const float* g, long n, float* out) const {
    look_up(
        grid, x, n,
        [&](const int* cell, Lanes f, long i) {
          const Lanes weight = load_lanes(g + i);
          Lanes row[4];
          auto join = [&](int k, Lanes own) {
            const float *low = at<8>(cell[k]), *high = at<8>(cell[k + 4]);
            row[k] = own * join_lanes(low, high) - join_lanes(low + 4, high + 4);
          };
          join(0, spread_halves<0>(weight)), join(1, spread_halves<1>(weight));
          join(2, spread_halves<2>(weight)), join(3, spread_halves<3>(weight));
          transpose_halves(row);
          store_lanes(out + i, cubic(row, f));
        },
        [&](long cell, float f, long i) { out[i] = g[i] * cubic(at<8>(cell), f) - cubic(at<8>(cell) + 4, f); });
  }

 private:
  long width_ = 4;
  Array<float> table_;

  template <int width> const float* at(long cell) const { return table_.slot(cell * width, width); }
  template <class X> static X cubic(const X* row, X f) { return ((row[3] * f + row[2]) * f + row[1]) * f + row[0]; }

  // eight(cells, places in them, first unit) for eight units at a time, one(cell, place, unit) for the last few.
  template <class Eight, class One> void look_up(const Grid& grid, const float* x, long n, Eight eight, One one) const {
    constexpr long kBlock = 256;
    int cell[kBlock];
    float place[kBlock];
    for (long first = 0; first < n; first += kBlock) {
      const long m = std::min(kBlock, n - first);
      grid.locate(x + first, m, cell, place);
      long i = 0;
      for (; i + 8 <= m; i += 8) eight(cell + i, load_lanes(place + i), first + i);
      for (; i < m; ++i) one(cell[i], place[i], first + i);
    }
  }
};

}  // namespace ibnn
