// Rows of tanh on even grids, a pack of them at a time: each is spread on its nodes, all are solved in lanes, and each goes back.
//
// What node_solver.h and node_adjoint.h do for one row. Rows that do not fit on a grid, or whose answer is not found to be
// good, are left to others.
#pragma once
#include <algorithm>
#include <vector>

#include "basics/tasks.h"
#include "nodes/node_solver.h"
#include "packs/pack_nodes.h"
#include "packs/pack_tables.h"
#include "packs/power_sums.h"
#include "packs/row_survey.h"
#include "rows/narrow.h"
#include "rows/row_solver.h"

namespace ibnn {

class NodePackEngine {
 public:
  using V = Floats;
  using M = Mask<float>;
  static constexpr int kRows = kLanes<float>;

  // Solves the rows first .. end. `otherwise(row, tried)` is called for those that are left to others,
  // at once or when nodes did not do.
  template <class Otherwise> void find_roots(const RootTask<float>& task, long first, long end, Otherwise otherwise) {
    in_packs(
        task.units, first, end, otherwise, [&](Row& row) { return look_at_root(task, row); },
        [&](int count, M* solved) { return find_roots_of_pack(task, count, solved); });
  }
  template <class Otherwise> void solve_jacobian(const JacobianTask<float>& task, long first, long end, Otherwise otherwise) {
    in_packs(
        task.units, first, end, otherwise, [&](Row& row) { return look_at_jacobian(task, row); },
        [&](int count, M* solved) { return solve_jacobian_of_pack(task, count, solved); });
  }

  // Rows for which this may be faster than anything else, by their length: at 96 units only narrow ones would gain.
  static constexpr long shortest = 112, longest = 16384;

 private:
  using Solver = NodeSolver<Sigma::tanh>;
  using Adjoint = NodeAdjoint<Sigma::tanh>;
  // One row on its way. What is solved are `units` times `factor`: y itself and the slope, or, where y is far from 0, a copy
  // of it after the slope and counted from `origin`.
  struct Row {
    long index;
    RowSurvey seen;
    float c, atol, origin, slope, factor, h, top;
    double spread;
    float low, high, tie;  // of `units`
    const float *given, *units, *weights;
    bool settled = false;  // the nodes are as close as they will be

    double cells() const { return std::ceil((static_cast<double>(high) - low) * factor / h); }
  };
  Row rows_[kRows];
  Grid grids_[kRows];
  Array<float> scaled_[kRows];
  std::vector<Row> again_;  // rows that share packs with others of their width once that is known
  PackNodes nodes_;
  PackTables tables_;
  PowerSums powers_;
  TrueResidual<Sigma::tanh> true_;

  // Of 16 rows they leave the second cache beyond some 600; but what is left to others takes five times as long (784 units of
  // pictures at 0.95 of the threshold).
  static constexpr long kMostCells = 1600;
  // Up to 640 units running sums over the units (PackEngine) take 36 ns a unit both ways, nodes 8 + 48 times the cells for each
  // unit (measured at 112 to 384 units). The deviation decides, 5.6 of which a normal row of 256 reaches, since the ends of
  // like rows differ more: those that go another way than their neighbors fill no pack. Rows that turn out to need more
  // cells after all are not given up for that.
  static bool pays(long n, float deviation, float h) { return n > 640 || 5.6f * deviation <= 0.6f * h * static_cast<float>(n); }
  static long most_cells(long n) { return n > 640 ? std::min(n / 2, kMostCells) : std::min(4 * n / 5, kMostCells); }
  // Of a row that is on its nodes already and needs them closer.
  static long most_cells_at_last(long n) { return n > 640 ? kMostCells : n; }
  static long fewest_cells(float c) { return c > 0.5f ? 30 : 20; }

  // Puts the units of a row on nodes at most h apart. False: they would be too many.
  bool place(int lane, long n, long most) {
    Row& row = rows_[lane];
    float low = row.low, high = row.high;
    if (high - low <= 1e-6f * std::max(std::fabs(low), std::fabs(high))) return false;
    const double wanted = row.cells();
    if (!(wanted <= static_cast<double>(most))) return false;
    long cells = std::max(fewest_cells(row.c), static_cast<long>(wanted));
    if (row.seen.tie_share > 0) {  // on a node they cost no accuracy
      const float h = (high - low) / static_cast<float>(cells);
      low = row.tie - std::ceil((row.tie - low) / h) * h;
      high = low + static_cast<float>(++cells) * h;
    }
    grids_[lane].cover(low, high, cells);
    if (!std::isfinite(grids_[lane].inverse)) return false;
    nodes_.scatter(lane, grids_[lane], row.units, row.factor, row.weights, n);
    // v bends more at a tie than z does: there it counts.
    nodes_.set_tie(lane, grids_[lane], row.tie, row.weights ? 0 : row.seen.tie_share);
    return true;
  }

  // Rows that `look` takes are collected until they fill a pack; solve(how many) says in which lanes it went well, or puts the
  // rows on the list of those that go again.
  template <class Otherwise, class Look, class Solve>
  void in_packs(long n, long first, long end, Otherwise otherwise, Look look, Solve solve) {
    const WithoutDenormals fast;
    const long most_nodes = most_cells_at_last(n) + 4;  // a cell more where units are tied
    int count = 0;
    nodes_.clear(most_nodes);
    auto flush = [&] {
      if (count == 0) return;
      M solved = {};
      if (solve(count, &solved))
        for (int lane = 0; lane < count; ++lane)
          if (!solved[lane]) otherwise(rows_[lane].index, true);
      count = 0;
      nodes_.clear(most_nodes);
    };
    again_.clear();
    for (long index = first; index < end; ++index) {
      Row& row = rows_[count];
      row.index = index, row.settled = false;
      if (!look(row) || !enter(count, n, most_cells(n))) {
        otherwise(index, false);
      } else if (++count == kRows) {
        flush();
      }
    }
    flush();
    std::sort(again_.begin(), again_.end(), [](const Row& a, const Row& b) { return a.cells() < b.cells(); });
    for (const Row& row : again_) {
      rows_[count] = row;
      if (!enter(count, n, most_cells_at_last(n))) {
        otherwise(row.index, true);
      } else if (++count == kRows) {
        flush();
      }
    }
    flush();
  }

  // Puts a row on its nodes, at most so many. Units that are far from 0 are scaled before, and counted from their origin.
  bool enter(int lane, long n, long most) {
    Row& row = rows_[lane];
    row.units = row.given, row.low = row.seen.low, row.high = row.seen.high, row.tie = row.seen.tie;
    if (row.origin != 0) {
      scaled_[lane].resize(n);
      float* out = scaled_[lane].data();
      auto scaled = [&](float x) { return row.slope * (x - row.origin); };
      for (long i = 0; i < n; ++i) out[i] = scaled(row.given[i]);
      row.units = out, row.factor = 1;
      for (float* x : {&row.low, &row.high, &row.tie}) *x = scaled(*x);
    }
    return place(lane, n, most);
  }

  // False: the rows go again.
  bool find_roots_of_pack(const RootTask<float>& task, int count, M* solved) {
    const long n = task.units;
    V c = {}, atol = {};
    for (int lane = 0; lane < count; ++lane) c[lane] = rows_[lane].c, atol[lane] = rows_[lane].atol;
    V steepest, roughness;
    M mine = first_lanes(count);
    const bool stays = settle(
        count, n, &mine,
        [&](M fresh) {
          nodes_.gather(fresh, n, false);
          nodes_.start(c);
          steepest = nodes_.steepest(), roughness = nodes_.roughness();
        },
        [&](int lane) { return Solver::spacing(rows_[lane].c, rows_[lane].atol, steepest[lane], roughness[lane]); });
    if (!stays) return false;
    *solved = nodes_.finish(0.2f * atol, mine);
    tables_.expand(nodes_, c);
    for (int lane = 0; lane < count; ++lane)
      if ((*solved)[lane] && !finish_root(task, n, lane)) (*solved)[lane] = 0;
    return true;
  }

  bool solve_jacobian_of_pack(const JacobianTask<float>& task, int count, M* solved) {
    const long n = task.units;
    V c = {}, dots = {};
    for (int lane = 0; lane < count; ++lane) c[lane] = rows_[lane].c;
    V roughness;
    M mine = first_lanes(count);
    const bool stays = settle(
        count, n, &mine,
        [&](M fresh) {
          nodes_.gather(fresh, n, true);
          nodes_.stand(c);
          roughness = nodes_.roughness();
        },
        [&](int lane) { return Adjoint::spacing(rows_[lane].c, nodes_.densest[lane], roughness[lane]); });
    if (!stays) return false;
    *solved = nodes_.solve_adjoint(mine, &dots);
    tables_.expand_adjoint(nodes_, c);
    for (int lane = 0; lane < count; ++lane) {
      if (!(*solved)[lane]) continue;
      const long index = rows_[lane].index;
      task.error[index] = finish_adjoint(lane, n, task.v + index * n);
      task.dots[index] = static_cast<double>(dots[lane]) * static_cast<double>(n);
      if (!(task.error[index] <= Adjoint::kAllowed)) (*solved)[lane] = 0;
    }
    return true;
  }

  static M first_lanes(int count) {
    M mine = {};
    for (int lane = 0; lane < count; ++lane) mine[lane] = -1;
    return mine;
  }

  // Nodes are placed once more in lanes that turn out, where they stand, to need them closer than they are; a lane leaves
  // `mine` if they would be too many. All lanes take as long as that with the most nodes: where this costs more than spreading
  // the rows again, they go again (and false is returned), with others as wide as they are. So do the channels of a layer,
  // which differ in width, and pictures, whose backgrounds want closer nodes than the spread of a row tells.
  template <class Stand, class Spacing> bool settle(int count, long n, M* mine, Stand stand, Spacing spacing) {
    stand(M{} - 1);
    M fresh = {};
    double widest = 0, cells = 0;
    bool settled = true;
    for (int lane = 0; lane < count; ++lane) {
      Row& row = rows_[lane];
      if (!row.settled) {
        const float h = spacing(lane);
        if (row.factor * grids_[lane].step > 1.15f * h) row.h = h, fresh[lane] = -1;
        settled = false, row.settled = true;
      }
      const double wanted = fresh[lane] ? row.cells() : static_cast<double>(grids_[lane].cells);
      widest = std::max(widest, wanted), cells += wanted;
    }
    if (!settled && widest - cells / count > kSpreadAgain * static_cast<double>(n)) {
      again_.insert(again_.end(), rows_, rows_ + count);
      return false;
    }
    for (int lane = 0; lane < count; ++lane)
      if (fresh[lane] && !place(lane, n, most_cells_at_last(n))) (*mine)[lane] = fresh[lane] = 0;
    if (any_lane(fresh)) stand(fresh);
    return true;
  }
  // To look at a pack and to spread it takes about as long as this times its units of nodes.
  static constexpr double kSpreadAgain = 1 / 16.;

  // The same conditions as in row_solver.h.
  bool look_at_root(const RootTask<float>& task, Row& row) {
    const long n = task.units, index = row.index;
    const float* y = task.y + index * n;
    const double strength = task.strength[index], slope = task.slope[index];
    const RowSurvey& seen = row.seen = RowSurvey(y, n);
    if (!seen.finite || !(strength < 1 && strength > -1e3 && strength != 0) || !(slope > 0 && slope < 1e30)) return false;
    row.spread = static_cast<double>(seen.high) - seen.low;
    const double range = slope * row.spread;
    if (!(range < 1e6) || Narrow<Sigma::tanh>::near_enough<float>(strength, range / (1 - strength))) return false;
    const double near = task.resolution * std::min(strength > 0 ? 1.0 : 2.0, range), margin = strength > 0 ? 1 - strength : 1;
    const double atol = near > 0 ? std::min(task.atol[index], near) : task.atol[index];
    if (!(atol * margin >= 2e-8 * std::fabs(strength) * std::min(1.0, range / margin))) return false;
    row.c = static_cast<float>(strength), row.atol = static_cast<float>(atol), row.slope = static_cast<float>(slope);
    row.origin = Rows<Sigma::tanh, float>::origin_of(seen.low, seen.high);
    row.given = y, row.weights = nullptr, row.factor = row.slope;
    const float deviation = row.slope * seen.deviation;
    if (!pays(n, deviation, Solver::kWidest)) return false;
    const float least = 1 - row.c * normal_density(deviation * normal_contraction(row.c, deviation));
    row.h = Solver::spacing(row.c, row.atol, least, normal_roughness(deviation, n));
    return pays(n, deviation, row.h);
  }

  bool look_at_jacobian(const JacobianTask<float>& task, Row& row) {
    const long n = task.units, index = row.index;
    const double strength = task.strength[index];
    row.given = task.z + index * n, row.weights = task.g + index * n;
    row.origin = 0, row.factor = 1;
    const RowSurvey& seen = row.seen = RowSurvey(row.given, n);
    const WeightSurvey weights(row.weights, n);
    if (!seen.finite || !weights.finite) return false;
    if (!(strength <= Adjoint::kNearest && strength > -1e3 && strength != 0)) return false;
    row.top = weights.top;
    row.spread = static_cast<double>(seen.high) - seen.low;
    if (!(row.spread < 1e6) || Narrow<Sigma::tanh>::near_enough<float>(strength, row.spread)) return false;
    int exponent;  // squares of numbers far from 1 would under- or overflow
    if (!std::frexp(weights.top, &exponent) || std::abs(exponent) > 30) return false;
    if (Adjoint::outweighs(weights.top, weights.squares)) return false;
    row.c = static_cast<float>(strength);
    row.h = Adjoint::spacing(row.c, normal_density(seen.deviation), normal_roughness(seen.deviation, n));
    return pays(n, seen.deviation, row.h);
  }

  // False: not to the accuracy asked for.
  bool finish_root(const RootTask<float>& task, long n, int lane) {
    const Row& row = rows_[lane];
    const long index = row.index;
    float* z = task.z + index * n;
    const float from = nodes_.points[1][lane], to = nodes_.points[grids_[lane].cells + 1][lane];
    const float factor = row.factor, back = 1 / factor;
    float* solved = powers_.resize(n);  // z as it is solved for
    Lanes moved = {};
    tables_.of(lane).quintics(grids_[lane], row.units, n, [=, &moved](auto y, auto by, long i) {
      write_lanes(z + i, y + back * by);
      write_lanes(solved + i, factor * y + by);
      add_to(moved, by);
    });
    constexpr int kSamples = Solver::kSamples;
    long places[kSamples], own[kSamples];
    float y_there[kSamples], z_there[kSamples];
    double sums[kSamples], excess;
    Solver::sample(n, places);
    for (int k = 0; k < kSamples; ++k)
      own[k] = k, y_there[k] = factor * row.units[places[k]], z_there[k] = solved[places[k]];
    if (PowerSums::serves(to - from)) {
      powers_.set(solved, 0.5f * (from + to), to - from);
      powers_.values<kSamples>(places, sums);
    } else {
      true_.sums(solved, n, places, kSamples, sums);
    }
    task.residual[index] = Solver::measured(y_there, z_there, row.c, nodes_.worst[lane], own, sums, kSamples, &excess);
    if (!(excess <= row.atol * nodes_.least[lane])) return false;
    // The mean of z is that of y, as in row_solver.h.
    double shift = row.c < 0 ? sum_of(moved) / static_cast<double>(n) : 0;
    if (std::fabs(shift) <= 4 * std::numeric_limits<float>::epsilon() * row.slope * row.spread) shift = 0;
    task.residual[index] += std::fabs(shift);
    task.steps[index] = static_cast<int>(nodes_.steps[lane]);
    task.solved[index] = true;
    const float off = static_cast<float>(shift) * back, scale = factor / row.slope;
    if (row.origin != 0 || shift != 0)
      for (long i = 0; i < n; ++i) z[i] = row.origin + (z[i] - off) * scale;
    return true;
  }

  // v of one row. Returns its relative error (see NodeAdjoint::measured).
  double finish_adjoint(int lane, long n, float* v) {
    const Row& row = rows_[lane];
    const bool close = PowerSums::serves(row.spread) && row.c > kStrongest;
    Lanes squares = {};
    tables_.of(lane).apply_cubics(grids_[lane], row.units, row.weights, n, v, [&squares](auto v) { add_to(squares, v * v); });
    constexpr int kSamples = Adjoint::kSamples;
    long places[kSamples + 1];
    double products[kSamples + 1], density[kSamples + 1];
    Adjoint::sample(n, places);
    places[kSamples] = place_of_size(row.weights, n, row.top);
    if (close) {
      powers_.resize(n);
      powers_.set(row.units, 0.5f * (row.low + row.high), row.spread);
      powers_.products<kSamples + 1>(v, places, products, density);
    } else {
      true_.products(row.units, v, n, places, kSamples + 1, products, density);
    }
    return Adjoint::measured(row.weights, v, n, row.c, places, products, density, sum_of(squares));
  }
  // Coupled more strongly, what PowerSums leaves of rounding would be seen.
  static constexpr float kStrongest = -20;
};

}  // namespace ibnn
