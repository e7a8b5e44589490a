// One explicit step and its gradient on even grids, a pack of rows of tanh at a time: what is left of node_pack_engine.h
// where there is nothing to solve.
//
// B is one function of the place for all units of a row: it is summed at the nodes, and looked up at the units.
#pragma once
#include "basics/row_values.h"
#include "basics/tasks.h"
#include "nodes/grid.h"
#include "nodes/node_guess.h"
#include "packs/explicit_tables.h"
#include "packs/pack_node_sums.h"

namespace ibnn {

class ExplicitNodes {
 public:
  using V = Floats;
  static constexpr int kRows = kLanes<float>;
  static constexpr long shortest = 150;  // as in node_pack_engine.h: shorter rows are faster in lanes

  // How many rows are taken at once: units are read again after the nodes, and are to be in the cache still.
  static long rows_at_once(long n) { return std::min<long>(kRows, std::max(1L, kUnits / n)); }

  // The rows first .. end, no more than rows_at_once. `otherwise(row)` is called for those that are not for even grids.
  template <class Otherwise> void step(const StepTask<float>& task, long first, long end, Otherwise otherwise) {
    const WithoutDenormals fast;
    const long n = task.units;
    const float slope = static_cast<float>(task.slope), lam = static_cast<float>(task.lam);
    const int count = take(first, end, otherwise, [&](Row& row) {
      row.units = task.y + row.index * n, row.g = nullptr;
      float* scaled = task.scaled ? task.scaled + row.index * n : nullptr;
      const bool finite = scaled ? row.measure<true>(n, slope, scaled) : row.measure<false>(n, slope, scaled);
      return finite && place(row, n, slope, [=](float roughness) { return spacing_of_values(std::fabs(lam), roughness); });
    });
    if (count == 0) return;
    gather(count, slope);
    sums_.fields(potential_.data(), density_.data(), density_slope_.data());
    // z - y = -lam B, as cubics in y; the slope of B is -density
    const V h = h_ * slope;
    write_tables<4>([&](long s, V* at) { at[0] = -lam * potential_[s], at[1] = lam * density_[s] * h; });
    for (int lane = 0; lane < count; ++lane) {
      const Row& row = rows_[lane];
      row.table.add_cubic(row.grid, row.units, n, task.z + row.index * n);
    }
  }

  template <class Otherwise>
  void step_gradient(const StepGradientTask<float>& task, long first, long end, Otherwise otherwise) {
    const WithoutDenormals fast;
    const long n = task.units;
    const float c = static_cast<float>(task.strength);
    const int count = take(first, end, otherwise, [&](Row& row) {
      row.units = task.z + row.index * n, row.g = task.g + row.index * n;
      if (!row.measure<false>(n, 1, nullptr)) return false;
      if (!place(row, n, 1, [=](float roughness) { return spacing_of_gradients(std::fabs(c), roughness); })) return false;
      return finite_row(row.qg.data(), row.grid.nodes());  // which a g that is not finite would have spoiled
    });
    if (count == 0) return;
    gather(count, 1);
    sums_.fields(potential_.data(), density_.data(), density_slope_.data());
    sums_.smooth(qg_.data(), u_.data(), u_slope_.data());
    V dots = {};
    for (long s = 0; s < total_; ++s) dots += qg_[s] * potential_[s];
    // v = g (1 + c d) - c u
    const V h = h_;
    write_tables<8>([&](long s, V* at) {
      at[0] = 1 + c * density_[s], at[1] = c * h * density_slope_[s];
      at[2] = c * u_[s], at[3] = c * h * u_slope_[s];
    });
    for (int lane = 0; lane < count; ++lane) {
      const Row& row = rows_[lane];
      row.table.apply_cubics(row.grid, row.units, row.g, n, task.v + row.index * n);
      task.dots[row.index] = static_cast<double>(dots[lane]) * static_cast<double>(n);
    }
  }

 private:
  struct Row {
    long index;
    const float *units, *g;
    float low, high;
    Grid grid;
    Array<float> q, qg;  // weights of the nodes
    ExplicitTable table;

    // The range of the units, and slope times them if that is `written`. False: some are not finite.
    template <bool written> bool measure(long n, float slope, float* out) {
      constexpr long L = kLanes<float>;
      V least = pack_of(units[0]), most = least;
      Mask<float> bad = {};
      const Mask<float> exponent = Mask<float>{} + 0x7f800000;
      long i = 0;
      for (; i + L <= n; i += L) {
        const V x = load_pack<float>(units + i);
        bad |= ((Mask<float>)x & exponent) == exponent;
        least = least_of(least, x), most = most_of(most, x);
        if (written) store_pack<float>(out + i, slope * x);
      }
      low = high = units[0];
      for (int lane = 0; lane < L; ++lane) low = std::min(low, least[lane]), high = std::max(high, most[lane]);
      const bool finite = !any_lane(bad) && finite_row(units + i, n - i);
      for (; i < n; ++i) {
        low = std::min(low, units[i]), high = std::max(high, units[i]);
        if (written) out[i] = slope * units[i];
      }
      return finite;
    }
  };
  static constexpr long kUnits = 1 << 15, kFewestCells = 24;
  static constexpr long kMostCells = 1024;  // tables of 8 rows are to stay in the cache
  // Rows of a smaller range than this, after the slope, are one cell of quick_cells.h, whose errors go with the range.
  static constexpr float kNarrow = 0.75f;
  static constexpr float kWidest = 0.5f, kClosest = 0.1f;
  Row rows_[kRows];
  PackNodeSums sums_;
  long total_ = 0;
  V h_ = {};
  Array<V> q_, qg_, potential_, density_, density_slope_, u_, u_slope_;

  // The error of B between nodes goes with h^4 times the roughness, and so does that of the gradient; measured over normal,
  // tied, crowded and heavy-tailed rows of 150 to 1,024 units, z is right to 1e-6 and the gradient to 2e-5 with these.
  static constexpr float kValues = 15e-6f, kGradients = 1e-4f;
  static float spacing_of_values(float lam, float roughness) { return spacing(kValues, lam * roughness); }
  static float spacing_of_gradients(float c, float roughness) { return spacing(kGradients, std::max(c, 0.1f) * roughness); }
  static float spacing(float allowed, float strength) {
    return std::min(kWidest, std::max(kClosest, std::sqrt(std::sqrt(allowed / std::max(1e-6f, strength)))));
  }

  // Fills lanes with the rows that `set` takes; returns how many.
  template <class Otherwise, class Set> int take(long first, long end, Otherwise otherwise, Set set) {
    int count = 0;
    for (long index = first; index < end; ++index) {
      rows_[count].index = index;
      set(rows_[count]) ? static_cast<void>(++count) : otherwise(index);
    }
    return count;
  }

  // Up to 2048 units running sums (explicit_lanes.h) are as fast where there are more cells than half of the units.
  static long most_cells(long n) { return n <= 2048 ? n / 2 : std::min(n, kMostCells); }

  // Nodes as close as a normal row of this range needs; closer if this one fills its cells less evenly.
  template <class Spacing> static bool place(Row& row, long n, float slope, Spacing spacing) {
    const float range = slope * (row.high - row.low);
    if (!(range > kNarrow && range < 1e6f)) return false;
    float tie = 0;
    const bool tied = has_tie(row.units, n, &tie);
    auto place_at = [&](float h) {
      const double wanted = std::ceil(range / h);
      if (!(wanted <= static_cast<double>(most_cells(n)))) return false;
      long cells = std::max(kFewestCells, static_cast<long>(wanted));
      float low = row.low, high = row.high;
      if (tied) {  // on a node they cost no accuracy
        const float step = (high - low) / static_cast<float>(cells);
        low = tie - std::ceil((tie - low) / step) * step;
        high = low + static_cast<float>(++cells) * step;
      }
      row.grid.cover(low, high, cells);
      row.q.resize(row.grid.nodes()), row.qg.resize(row.grid.nodes());
      if (!std::isfinite(row.grid.inverse)) return false;
      row.grid.spread(row.units, row.g, n, row.q.data(), row.qg.data());
      return true;
    };
    // a thousand normal units are within 6.5 standard deviations
    if (!place_at(spacing(normal_roughness(range / 6.5f, n)))) return false;
    const float needed = spacing(roughness(row.q, row.grid.nodes()));
    return slope * row.grid.step <= 1.15f * needed || place_at(needed);
  }

  // Whether many units share one value, as the background of an image does; asked of a few.
  static bool has_tie(const float* x, long n, float* tie) {
    const long stride = std::max(1L, n / 128);
    for (long j : {0L, n / 3, n - 1}) {
      long equal = 0, seen = 0;
      for (long i = 0; i < n; i += stride, ++seen) equal += x[i] == x[j];
      if (equal > 1 && equal > seen / 16) return *tie = x[j], true;
    }
    return false;
  }

  // The largest second difference of the weights, as in nodes.h.
  static float roughness(const Array<float>& q, long nodes) {
    float worst = 0;
    for (long s = 0; s + 2 < nodes; ++s) worst = std::max(worst, std::fabs(q[s] - 2 * q[s + 1] + q[s + 2]));
    return worst;
  }

  // The nodes of all lanes, as many as the longest has; the others end with nodes without weight.
  void gather(int count, float slope) {
    total_ = 8;
    for (int lane = 0; lane < count; ++lane) total_ = std::max(total_, rows_[lane].grid.nodes());
    for (auto* a : {&q_, &qg_, &potential_, &density_, &density_slope_, &u_, &u_slope_}) a->resize(total_);
    for (int lane = 0; lane < kRows; ++lane) {
      const Row& row = rows_[lane];
      const long nodes = lane < count ? row.grid.nodes() : 0;
      h_[lane] = nodes > 0 ? row.grid.step : 1;
      put(row.q, lane, nodes, q_);
      if (rows_[0].g) put(row.qg, lane, nodes, qg_);
    }
    sums_.set_weights(q_.data(), total_);
    sums_.set_even_points(h_ * slope, total_);
  }
  void put(const Array<float>& from, int lane, long count, Array<V>& to) const {
    float* out = reinterpret_cast<float*>(to.data()) + lane;
    for (long s = 0; s < count; ++s) out[s * kRows] = from[s];
    for (long s = count; s < total_; ++s) out[s * kRows] = 0;
  }

  // Cubics of each cell from values and slopes at its ends, in lanes, become rows of the table of each lane: one of 4
  // numbers, or two.
  template <int width, class Ends> void write_tables(Ends ends) {
    const long cells = (total_ - 2) / 2 * 2;  // two cells of width 4 at a time; the last one may be beyond the last node
    for (Row& row : rows_) row.table.resize(cells, width);
    V left[4], right[4], row[8];
    auto cubics = [&](long cell, V* to) {
      ends(std::min(cell + 2, total_ - 1), right);
      for (int k = 0; k < width; k += 4) {
        const V a = left[k / 2], p = left[k / 2 + 1], b = right[k / 2], r = right[k / 2 + 1];
        to[k] = a, to[k + 1] = p, to[k + 2] = 3 * (b - a) - 2 * p - r, to[k + 3] = 2 * (a - b) + p + r;
      }
      std::copy(right, right + width / 2, left);
    };
    ends(1, left);
    for (long cell = 0; cell < cells; cell += 8 / width) {
      for (int k = 0; k < 8; k += width) cubics(cell + k / width, row + k);
      for (int first = 0; first < kRows; first += 8) {
        Lanes part[8];
        for (int k = 0; k < 8; ++k) part[k] = load_lanes(reinterpret_cast<const float*>(&row[k]) + first);
        transpose(part);
        for (int k = 0; k < 8; ++k) store_lanes(rows_[first + k].table.row(cell), part[k]);
      }
    }
  }
};

}  // namespace ibnn
