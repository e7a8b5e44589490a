// Rows of tanh on even grids, a pack of them at a time: each is spread on its nodes, all are solved in lanes, and each goes back.
//
// What node_solver.h and node_adjoint.h do for one row. Rows that do not fit on a grid, or whose answer is not found to be
// good, are left to others.
#pragma once
#include "nodes/cell_tables.h"
#include "rows/narrow.h"
#include "nodes/node_solver.h"
#include "packs/pack_nodes.h"
#include "rows/row_solver.h"
#include "basics/tasks.h"

namespace ibnn {

class NodePackEngine {
 public:
  using V = Floats;
  using M = Mask<float>;
  static constexpr int kRows = kLanes<float>;

  // Solves the rows first .. end, whose units are contiguous. `otherwise(row)` is called for those that are left to others.
  template <class Otherwise> void find_roots(const RootTask<float>& task, long first, long end, Otherwise otherwise) {
    in_packs(
        first, end, otherwise, [&](long index, Row& row) { return set_root(task, index, row); },
        [&](int count) { return find_roots_of_pack(task, count); });
  }
  template <class Otherwise> void solve_jacobian(const JacobianTask<float>& task, long first, long end, Otherwise otherwise) {
    in_packs(
        first, end, otherwise, [&](long index, Row& row) { return set_jacobian(task, index, row); },
        [&](int count) { return solve_jacobian_of_pack(task, count); });
  }

  // Rows for which this is faster than anything else, by their length. At 128 units sorted units are as fast.
  static constexpr long shortest = 150, longest = 16384;

 private:
  using Solver = NodeSolver<Sigma::tanh>;
  using Adjoint = NodeAdjoint<Sigma::tanh>;
  // One row on its way: what is solved is `units`, y after the slope and counted from `origin`.
  struct Row {
    long index;
    float c, atol, origin, slope, low, high, h;
    double spread;
    const float *units, *weights;
    Array<float> scaled;
    Nodes nodes;
    CellTable table;
  };
  Row rows_[kRows];
  PackNodes nodes_;
  TrueResidual<Sigma::tanh> true_;

  // Those of 16 rows are to stay in the cache.
  static constexpr long kMostCells = 500;
  // Up to 640 units running sums over the units (PackEngine) are as fast where there are more cells than this (measured at 128,
  // 196 and 256 units). Rows that turn out to need more after all are not given up for that.
  static long most_cells(long n) { return n > 640 ? std::min(n / 2, kMostCells) : 2 * n / 5; }
  static long fewest_cells(float c) { return c > 0.5f ? 30 : 20; }

  bool place(Row& row, long n, long most) {
    return row.nodes.place_evenly(row.units, row.weights, n, row.low, row.high, row.h, fewest_cells(row.c), most);
  }

  // Rows that `set` takes are collected until they fill a pack; solve(how many) says in which lanes it went well.
  template <class Otherwise, class Set, class Solve>
  void in_packs(long first, long end, Otherwise otherwise, Set set, Solve solve) {
    const WithoutDenormals fast;
    int count = 0;
    auto flush = [&] {
      if (count == 0) return;
      const M solved = solve(count);
      for (int lane = 0; lane < count; ++lane)
        if (!solved[lane]) otherwise(rows_[lane].index);
      count = 0;
    };
    for (long index = first; index < end; ++index) {
      rows_[count].index = index;
      if (!set(index, rows_[count])) {
        otherwise(index);
      } else if (++count == kRows) {
        flush();
      }
    }
    flush();
  }

  M find_roots_of_pack(const RootTask<float>& task, int count) {
    const long n = task.layout.units;
    M mine = {};
    V c = {}, atol = {};
    for (int lane = 0; lane < count; ++lane) mine[lane] = -1, c[lane] = rows_[lane].c, atol[lane] = rows_[lane].atol;
    for (bool again = true; again;) {
      gather(mine, false);
      nodes_.start(c);
      const V steepest = nodes_.steepest();
      again = closer(mine, n, [&](int lane) {
        const Row& row = rows_[lane];
        return Solver::spacing(row.c, row.atol, steepest[lane], row.nodes.roughness());
      });
    }
    M solved = nodes_.finish(0.2f * atol, mine);
    expand(c);
    for (int lane = 0; lane < count; ++lane)
      if (solved[lane] && !finish_root(task, n, lane)) solved[lane] = 0;
    return solved;
  }

  M solve_jacobian_of_pack(const JacobianTask<float>& task, int count) {
    const long n = task.layout.units;
    M mine = {};
    V c = {}, dots = {};
    for (int lane = 0; lane < count; ++lane) mine[lane] = -1, c[lane] = rows_[lane].c;
    for (bool again = true; again;) {
      gather(mine, true);
      nodes_.stand(c);
      again = closer(mine, n, [&](int lane) {
        const Row& row = rows_[lane];
        return Adjoint::spacing(row.c, nodes_.densest[lane], row.nodes.roughness());
      });
    }
    M solved = nodes_.solve_adjoint(mine, &dots);
    expand_adjoint(c);
    for (int lane = 0; lane < count; ++lane) {
      if (!solved[lane]) continue;
      const Row& row = rows_[lane];
      float* v = task.v + task.layout.start(row.index);
      row.table.apply_cubics(row.nodes.grid, row.units, row.weights, n, v);
      task.error[row.index] = Adjoint::measured(row.units, row.weights, v, n, row.c, true_);
      if (task.dots) task.dots[row.index] = static_cast<double>(dots[lane]) * static_cast<double>(n);
      if (!(task.error[row.index] <= Adjoint::kAllowed)) solved[lane] = 0;
    }
    return solved;
  }

  // The same conditions as in row_solver.h.
  bool set_root(const RootTask<float>& task, long index, Row& row) {
    const long n = task.layout.units;
    const float* y = task.y + task.layout.start(index);
    const double strength = task.strength[index], slope = task.slope[index];
    if (!finite_row(y, n) || !(strength < 1 && strength > -1e3 && strength != 0) || !(slope > 0 && slope < 1e30)) return false;
    float low, high;
    ends_of(y, n, &low, &high);
    row.spread = static_cast<double>(high) - low;
    const double range = slope * row.spread;
    if (!(range < 1e6) || Narrow<Sigma::tanh>::near_enough<float>(strength, range / (1 - strength))) return false;
    const double near = task.resolution * std::min(strength > 0 ? 1.0 : 2.0, range), margin = strength > 0 ? 1 - strength : 1;
    const double atol = near > 0 ? std::min(task.atol[index], near) : task.atol[index];
    if (!(atol * margin >= 2e-8 * std::fabs(strength) * std::min(1.0, range / margin))) return false;
    row.c = static_cast<float>(strength), row.atol = static_cast<float>(atol), row.slope = static_cast<float>(slope);
    row.origin = Rows<Sigma::tanh, float>::origin_of(low, high);
    row.units = y, row.weights = nullptr;
    if (row.slope != 1 || row.origin != 0) {
      row.scaled.resize(n);
      float* out = row.scaled.data();
      for (long i = 0; i < n; ++i) out[i] = row.slope * (y[i] - row.origin);
      row.units = out;
    }
    row.low = row.slope * (low - row.origin), row.high = row.slope * (high - row.origin);
    const float deviation = deviation_of(row.units, n);
    const float least = 1 - row.c * normal_density(deviation * normal_contraction(row.c, deviation));
    row.h = Solver::spacing(row.c, row.atol, least, normal_roughness(deviation, n));
    return place(row, n, most_cells(n));
  }

  bool set_jacobian(const JacobianTask<float>& task, long index, Row& row) {
    const long n = task.layout.units;
    const double strength = task.strength[index];
    row.units = task.z + task.layout.start(index), row.weights = task.g + task.layout.start(index);
    if (!finite_row(row.units, n) || !finite_row(row.weights, n)) return false;
    if (!(strength <= Adjoint::kNearest && strength > -1e3 && strength != 0)) return false;
    ends_of(row.units, n, &row.low, &row.high);
    row.spread = static_cast<double>(row.high) - row.low;
    if (!(row.spread < 1e6) || Narrow<Sigma::tanh>::near_enough<float>(strength, row.spread)) return false;
    int exponent;  // squares of numbers far from 1 would under- or overflow
    if (!std::frexp(size_of(row.weights, n), &exponent) || std::abs(exponent) > 30) return false;
    if (Adjoint::outweighs(row.weights, n)) return false;
    row.c = static_cast<float>(strength);
    const float deviation = deviation_of(row.units, n);
    row.h = Adjoint::spacing(row.c, normal_density(deviation), normal_roughness(deviation, n));
    return place(row, n, most_cells(n));
  }

  void gather(M mine, bool weighted) {
    long most = 8;
    for (int lane = 0; lane < kRows; ++lane)
      if (mine[lane]) most = std::max(most, rows_[lane].nodes.total);
    nodes_.resize(most);
    for (int lane = 0; lane < kRows; ++lane)
      mine[lane] ? nodes_.take(lane, rows_[lane].nodes, weighted) : nodes_.leave_empty(lane);
    nodes_.place();
  }

  // Nodes are placed once more in lanes that turn out to need them closer, and a lane is let go if they would be too many.
  // True: there are some.
  template <class Spacing> bool closer(M& mine, long n, Spacing spacing) {
    bool again = false;
    for (int lane = 0; lane < kRows; ++lane) {
      Row& row = rows_[lane];
      if (!mine[lane] || row.h == 0) continue;
      row.h = spacing(lane);
      const bool enough = row.nodes.grid.step <= 1.15f * row.h;
      if (!enough && !place(row, n, std::min(n, kMostCells))) mine[lane] = 0;
      again |= !enough, row.h = 0;
    }
    return again;
  }

  // Per cell a polynomial of degree 5 for z - y (see NodeSolver::expand), of all lanes at once.
  void expand(V c) {
    const V h = nodes_.spacing();
    auto value = [&](long s) { return nodes_.r[s] * (1 - nodes_.m[s]) - c * nodes_.potential[s]; };
    auto slope = [&](long s) { return (nodes_.m[s] - 1) * h; };
    auto bend = [&](long s) {
      const V m = nodes_.m[s];
      return c * nodes_.density_slope[s] * m * m * m * h * h;
    };
    V a = value(1), p = slope(1), k = bend(1);
    write_tables([&](long cell, V* row) {
      const V next = value(cell + 2), next_p = slope(cell + 2), next_k = bend(cell + 2);
      const V rise = next - a - p - 0.5f * k, turn = next_p - p - k, change = next_k - k;
      row[0] = a, row[1] = p, row[2] = 0.5f * k;
      row[3] = 10 * rise - 4 * turn + 0.5f * change, row[4] = -15 * rise + 7 * turn - change;
      row[5] = 6 * rise - 3 * turn + 0.5f * change, row[6] = row[7] = V{};
      a = next, p = next_p, k = next_k;
    });
  }

  // m and c u m as cubics per cell (see NodeAdjoint::back).
  void expand_adjoint(V c) {
    const V h = nodes_.spacing(), mean = nodes_.mean;
    struct End {
      V m, m_slope, part, part_slope;
    };
    auto end = [&](long s) {
      const V m = nodes_.m[s], m_slope = h * c * nodes_.density_slope[s] * m * m, u = nodes_.u[s];
      return End{m, m_slope, c * (u + mean * nodes_.density[s]) * m,
                 c * (h * nodes_.u_slope[s] * m + u * m_slope) + mean * m_slope};
    };
    auto cubic = [](V a, V slope_a, V b, V slope_b, V* t) {
      t[0] = a, t[1] = slope_a, t[2] = 3 * (b - a) - 2 * slope_a - slope_b, t[3] = 2 * (a - b) + slope_a + slope_b;
    };
    End left = end(1);
    write_tables([&](long cell, V* row) {
      const End right = end(cell + 2);
      cubic(left.m, left.m_slope, right.m, right.m_slope, row);
      cubic(left.part, left.part_slope, right.part, right.part_slope, row + 4);
      left = right;
    });
  }

  // Eight coefficients of each cell, in lanes, become rows of the table of each lane.
  template <class Coefficients> void write_tables(Coefficients coefficients) {
    const long cells = nodes_.total - 3;
    for (Row& row : rows_) row.table.resize(cells);
    for (long cell = 0; cell < cells; ++cell) {
      V row[8];
      coefficients(cell, row);
      for (int first = 0; first < kRows; first += 8) {
        Lanes part[8];
        for (int k = 0; k < 8; ++k) part[k] = load_lanes(reinterpret_cast<const float*>(&row[k]) + first);
        transpose(part);
        for (int k = 0; k < 8; ++k) store_lanes(rows_[first + k].table.row(cell), part[k]);
      }
    }
  }

  // False: not to the accuracy asked for.
  bool finish_root(const RootTask<float>& task, long n, int lane) {
    const Row& row = rows_[lane];
    const long index = row.index;
    float* z = task.z + task.layout.start(index);
    row.table.add_quintic(row.nodes.grid, row.units, n, z);
    double excess;
    task.residual[index] = Solver::measured(row.units, z, n, row.c, nodes_.worst[lane], true_, &excess);
    if (!(excess <= row.atol * nodes_.least[lane])) return false;
    // The mean of z is that of y, as in row_solver.h.
    double shift = 0;
    if (row.c < 0)
      for (long i = 0; i < n; ++i) shift += z[i] - row.units[i];
    shift /= static_cast<double>(n);
    if (std::fabs(shift) <= 4 * std::numeric_limits<float>::epsilon() * row.slope * row.spread) shift = 0;
    task.residual[index] += std::fabs(shift);
    task.steps[index] = static_cast<int>(nodes_.steps[lane]);
    task.solved[index] = true;
    const float off = static_cast<float>(shift), scale = 1 / row.slope;
    if (row.units == row.scaled.data() || shift != 0)
      for (long i = 0; i < n; ++i) z[i] = row.origin + (z[i] - off) * scale;
    return true;
  }
};

}  // namespace ibnn
