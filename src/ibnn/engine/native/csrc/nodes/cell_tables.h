// Back to the units: polynomials per cell of the grid, looked up eight units at a time.
#pragma once
#include "nodes/grid.h"

namespace ibnn {

// One row of eight coefficients per cell.
class CellTable {
 public:
  // Rows that are set one by one.
  void resize(long cells) { table_.resize(cells * 8); }
  float* row(long cell) { return table_.slot(cell * 8, 8); }

  // Values, slopes and curvatures (per cell, per cell^2) at both ends of each cell: polynomials of degree 5. `first` is
  // the node at the left end of the first cell.
  void set_quintic(long cells, const float* value, const float* slope, const float* curvature) {
    table_.resize(cells * 8);
    for (long k = 0; k < cells; ++k) {
      const float p0 = slope[k], k0 = curvature[k];
      const float a = value[k + 1] - value[k] - p0 - 0.5f * k0, b = slope[k + 1] - p0 - k0, d = curvature[k + 1] - k0;
      const Lanes row = {value[k], p0, 0.5f * k0, 10 * a - 4 * b + 0.5f * d, -15 * a + 7 * b - d,
                         6 * a - 3 * b + 0.5f * d, 0, 0};
      store_lanes(table_.slot(k * 8, 8), row);
    }
  }

  // Two functions at once, from values and slopes: polynomials of degree 3.
  void set_cubics(long cells, const float* value, const float* slope, const float* value2, const float* slope2) {
    table_.resize(cells * 8);
    for (long k = 0; k < cells; ++k) {
      float* t = table_.slot(k * 8, 8);
      cubic(value[k], slope[k], value[k + 1], slope[k + 1], t);
      cubic(value2[k], slope2[k], value2[k + 1], slope2[k + 1], t + 4);
    }
  }

  // Calls job(y, p, unit), p the quintic at y, for eight units (Lanes) or one (float).
  template <class Job> void quintics(const Grid& grid, const float* y, long n, Job job) const {
    look_up(grid, y, n, [&](const auto& row, auto f, long i) {
      auto p = row[5] * f + row[4];
      for (int k = 3; k >= 0; --k) p = p * f + row[k];
      job(read_as(y + i, f), p, i);
    });
  }
  // out = y + p
  void add_quintic(const Grid& grid, const float* y, long n, float* out) const {
    quintics(grid, y, n, [=](auto y, auto p, long i) { write_lanes(out + i, y + p); });
  }

  // out = g * (the first cubic at x) - (the second one); then also(out) is called.
  template <class Also>
  void apply_cubics(const Grid& grid, const float* x, const float* g, long n, float* out, Also also) const {
    look_up(grid, x, n, [&](const auto& row, auto f, long i) {
      const auto first = ((row[3] * f + row[2]) * f + row[1]) * f + row[0];
      const auto second = ((row[7] * f + row[6]) * f + row[5]) * f + row[4];
      const auto value = read_as(g + i, f) * first - second;
      write_lanes(out + i, value);
      also(value);
    });
  }
  void apply_cubics(const Grid& grid, const float* x, const float* g, long n, float* out) const {
    apply_cubics(grid, x, g, n, out, [](auto) {});
  }

 private:
  Array<float> table_;

  static void cubic(float a, float slope_a, float b, float slope_b, float* t) {
    t[0] = a, t[1] = slope_a;
    t[2] = 3 * (b - a) - 2 * slope_a - slope_b;
    t[3] = 2 * (a - b) + slope_a + slope_b;
  }

  // job(coefficients, place in the cell, unit) for eight units at a time, then for each of the last few.
  template <class Job> void look_up(const Grid& grid, const float* x, long n, Job job) const {
    constexpr long kBlock = 256;
    int cell[kBlock];
    float place[kBlock];
    for (long first = 0; first < n; first += kBlock) {
      const long m = std::min(kBlock, n - first);
      grid.locate(x + first, m, cell, place);
      long i = 0;
      for (; i + 8 <= m; i += 8) {
        const float* from[8];
        for (int k = 0; k < 8; ++k) from[k] = table_.slot(cell[i + k] * 8L, 8);
        Lanes row[8];
        load_transposed(from, row);
        job(row, load_lanes(place + i), first + i);
      }
      for (; i < m; ++i) job(table_.slot(cell[i] * 8L, 8), place[i], first + i);
    }
  }
};

}  // namespace ibnn
