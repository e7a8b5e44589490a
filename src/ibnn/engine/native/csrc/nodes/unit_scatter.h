// The units of one chunk on the nodes of a grid: what each adds to the four nodes around it, by the weights of a cubic B-spline.
#pragma once
#include <algorithm>
#include <cstring>

#include "basics/checked.h"
#include "basics/lanes.h"

namespace ibnn {

class UnitScatter {
 public:
  // Sums at the nodes of the grid, of the units and (if g is given) of the units times g.
  template <class Grid> void scatter(const Grid& grid, const float* x, const float* g, long n, float* sum, float* sum_g) {
    if (g) {
      scatter_pairs(grid, x, g, n);
      collect(grid.cells, 2, 0, sum), collect(grid.cells, 2, 4, sum_g);
    } else {
      scatter_once(grid, x, n);
      collect(grid.cells, 1, 0, sum);
    }
  }

 private:
  static constexpr long kBlock = 256;
  Array<float> slots_;  // per cell the four spline weights, twice (even and odd units)

  static Lanes4 spline(float f) {
    const Lanes4 a = {-1 / 6.f, 0.5f, -0.5f, 1 / 6.f}, b = {0.5f, -1, 0.5f, 0}, c = {-0.5f, 0, 0.5f, 0},
                 d = {1 / 6.f, 2 / 3.f, 1 / 6.f, 0};
    return ((a * f + b) * f + c) * f + d;
  }

  // Whole-register slots per cell, so that no store overlaps another cell's (that would stall the loads behind it).
  template <class Grid> void scatter_once(const Grid& grid, const float* x, long n) {
    slots_.resize(grid.cells * 8);
    slots_.fill(0);
    int cell[kBlock];
    float place[kBlock];
    for (long first = 0; first < n; first += kBlock) {
      const long m = std::min(kBlock, n - first);
      grid.locate(x + first, m, cell, place);
      for (long i = 0; i < m; ++i) {
        float* slot = slots_.slot(cell[i] * 8L + 4 * (i & 1), 4);
        Lanes4 v;
        std::memcpy(&v, slot, 16);
        v += spline(place[i]);
        std::memcpy(slot, &v, 16);
      }
    }
  }

  template <class Grid> void scatter_pairs(const Grid& grid, const float* x, const float* g, long n) {
    slots_.resize(grid.cells * 16);
    slots_.fill(0);
    int cell[kBlock];
    float place[kBlock];
    for (long first = 0; first < n; first += kBlock) {
      const long m = std::min(kBlock, n - first);
      grid.locate(x + first, m, cell, place);
      for (long i = 0; i < m; ++i) {
        // The halves are moved one by one: joined on the stack, each would wait for the stores of both.
        float* slot = slots_.slot(cell[i] * 16L + 8 * (i & 1), 8);
        Lanes4 once, weighted;
        std::memcpy(&once, slot, 16), std::memcpy(&weighted, slot + 4, 16);
        const Lanes4 w = spline(place[i]);
        once += w;
        weighted += w * g[first + i];
        std::memcpy(slot, &once, 16), std::memcpy(slot + 4, &weighted, 16);
      }
    }
  }

  // From slots to nodes: what a cell adds to its four nodes moves on by one lane from cell to cell.
  void collect(long cells, long channels, long offset, float* out) {
    const long stride = 4 * channels;
    const float* slot = slots_.slot(0, cells * 2 * stride) + offset;
    Lanes4 open = {};
    for (long c = 0; c < cells; ++c, slot += 2 * stride) {
      Lanes4 even, odd;
      std::memcpy(&even, slot, 16), std::memcpy(&odd, slot + stride, 16);
      open += even + odd;
      out[c] = open[0];
      open = Lanes4{open[1], open[2], open[3], 0};
    }
    for (long j = 0; j < 3; ++j) out[cells + j] = open[j];
  }
};

}  // namespace ibnn
