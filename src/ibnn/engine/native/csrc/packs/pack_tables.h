// Back to the units of a pack of rows: the polynomials per cell of all rows, worked out in lanes.
#pragma once
#include "nodes/cell_tables.h"
#include "packs/pack_nodes.h"

namespace ibnn {

class PackTables {
 public:
  using V = Floats;
  static constexpr int kRows = kLanes<float>;
  const CellTable& of(int lane) const { return tables_[lane]; }

  // Per cell a polynomial of degree 5 for z - y (see NodeSolver::expand), of all lanes at once.
  void expand(const PackNodes& nodes, V c) {
    const V h = nodes.spacing();
    auto value = [&](long s) { return nodes.step[s] + nodes.r[s] - c * nodes.potential[s]; };
    auto slope = [&](long s) { return (nodes.m[s] - 1) * h; };
    auto bend = [&](long s) {
      const V m = nodes.m[s];
      return c * nodes.density_slope[s] * m * m * m * h * h;
    };
    V a = value(1), p = slope(1), k = bend(1);
    write_tables(nodes.total - 3, [&](long cell, V* row) {
      const V next = value(cell + 2), next_p = slope(cell + 2), next_k = bend(cell + 2);
      const V rise = next - a - p - 0.5f * k, turn = next_p - p - k, change = next_k - k;
      row[0] = a, row[1] = p, row[2] = 0.5f * k;
      row[3] = 10 * rise - 4 * turn + 0.5f * change, row[4] = -15 * rise + 7 * turn - change;
      row[5] = 6 * rise - 3 * turn + 0.5f * change, row[6] = row[7] = V{};
      a = next, p = next_p, k = next_k;
    });
  }

  // m and c u m as cubics per cell (see NodeAdjoint::back).
  void expand_adjoint(const PackNodes& nodes, V c) {
    const V h = nodes.spacing(), mean = nodes.mean;
    struct End {
      V m, m_slope, part, part_slope;
    };
    auto end = [&](long s) {
      const V m = nodes.m[s], m_slope = h * c * nodes.density_slope[s] * m * m, u = nodes.u[s];
      return End{m, m_slope, c * (u + mean * nodes.density[s]) * m,
                 c * (h * nodes.u_slope[s] * m + u * m_slope) + mean * m_slope};
    };
    auto cubic = [](V a, V slope_a, V b, V slope_b, V* t) {
      t[0] = a, t[1] = slope_a, t[2] = 3 * (b - a) - 2 * slope_a - slope_b, t[3] = 2 * (a - b) + slope_a + slope_b;
    };
    End left = end(1);
    write_tables(nodes.total - 3, [&](long cell, V* row) {
      const End right = end(cell + 2);
      cubic(left.m, left.m_slope, right.m, right.m_slope, row);
      cubic(left.part, left.part_slope, right.part, right.part_slope, row + 4);
      left = right;
    });
  }

 private:
  CellTable tables_[kRows];

  // Eight coefficients of each cell, in lanes, become rows of the table of each lane.
  template <class Coefficients> void write_tables(long cells, Coefficients coefficients) {
    for (CellTable& table : tables_) table.resize(cells);
    for (long cell = 0; cell < cells; ++cell) {
      V row[8];
      coefficients(cell, row);
      for (int first = 0; first < kRows; first += 8) {
        Lanes part[8];
        for (int k = 0; k < 8; ++k) part[k] = load_lanes(reinterpret_cast<const float*>(&row[k]) + first);
        transpose(part);
        for (int k = 0; k < 8; ++k) store_lanes(tables_[first + k].row(cell), part[k]);
      }
    }
  }
};

}  // namespace ibnn
