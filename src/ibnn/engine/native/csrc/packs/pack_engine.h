// Packs of rows in the units of the caller: scaled, counted from a place near 0, solved in the way that suits them, and back.
#pragma once
#include "packs/pack_newton.h"
#include "packs/pair_table.h"
#include "packs/sort_packs.h"
#include "packs/sorted_table.h"
#include "basics/tasks.h"

namespace ibnn {

// How a row of n units, `reach` apart at most, is solved in lanes: by all pairs of its units, by running sums over its sorted
// units, or not at all.
enum class Way { close_pairs, usual_pairs, far_pairs, sorted, none };
constexpr Way kWays[] = {Way::close_pairs, Way::usual_pairs, Way::far_pairs, Way::sorted};

template <Sigma kind, class T> class PackEngine {
 public:
  using V = Pack<T>;
  using M = Mask<T>;
  // The longest rows that any lane is for: beyond it their numbers leave the cache, and nodes serve floats better.
  static constexpr long longest = kind != Sigma::tanh ? 64 : (sizeof(T) == 4 ? 640 : 16384);
  // The longest for which it is faster than one row at a time, where nodes have failed (784 units: 60 ns a unit against 1300).
  static constexpr long longest_left = 4096;

  // Solves a pack of rows, `after_nodes` have left them. `otherwise(row)` is called for rows that are not for this engine, or that
  // it could not solve.
  template <class Otherwise>
  void find_roots(const RootTask<T>& task, const RowPack<T>& pack, bool after_nodes, Otherwise otherwise) {
    const long n = task.units;
    const int count = pack.count();
    reserve(n);
    pack.read(task.y, raw_.data());
    const V c = pack.lanes_of(task.strength), p = pack.lanes_of(task.slope);
    V low, high;
    range_of_lanes<T>(raw_.data(), n, &low, &high);
    const V range = p * (high - low);
    // The units of z are closer together than those of y for c < 0, farther apart by up to 2 c and 1 / (1 - c) otherwise.
    const V reach = c > 0 ? least_of(range + 2 * c, range / (1 - c)) : range;
    const V spread = c > 0 ? range : range / (1 - c);
    // Counted from the middle of y they are within half of this: where most units are at one end, the other end moves most.
    const V around = 2 * reach - range;
    M mine = finite_lanes<T>(raw_.data(), n) & (c < 1) & (c > T(-1e30)) & (c != 0) & (range < T(1e30));
    // Gradients are made of differences, over which sigma varies if they are large; and of J, which enlarges errors for c > 0.
    const V near = static_cast<T>(task.resolution) * least_of(range, c > 0 ? pack_of(T(1)) : pack_of(T(2))), asked = pack.lanes_of(task.atol);
    // What rounding leaves of B, which is at most 1 and the spread of z, must not be seen in z, nor in its differences.
    const V noise = 2 * kUlp * size_of(c), least = c > 0 ? 1 - c : pack_of(T(1));
    mine &= (noise * least_of(reach, pack_of(T(1))) <= 4 * least * asked) & ((c < 0) | (noise <= T(5e-5) * least));
    const V atol = (near > 0) & (near < asked) ? near : asked;
    const V origin = origin_of(low, high, p, around);
    // Nor must the rounding of the origin, in units that are nearer to 0 than it.
    mine &= p * kUlp * size_of(origin - nearest_to_zero(low, high)) <= asked;
    M solved = {};
    for (Way way : kWays) {
      M now = mine & lanes_for(way, n, c, around, spread, after_nodes);
      if (way == Way::sorted) now &= kSeries * size_of(c) <= kSlack * least * asked;
      if (!any_lane(now)) continue;
      for (long i = 0; i < n; ++i) in_[i] = now ? p * (raw_[i] - origin) : V{};
      const auto found = by(way, [&](auto& solver) { return run(solver, c, atol, now); });
      for (long i = 0; i < n; ++i) out_[i] = now ? origin + in_[i] / p : out_[i];
      for (int lane = 0; lane < count; ++lane)
        if (now[lane]) {
          task.residual[pack.row(lane)] = found.residual[lane];
          task.steps[pack.row(lane)] = static_cast<int>(found.steps[lane]);
          task.solved[pack.row(lane)] = found.solved[lane] != 0;
        }
      solved |= now & found.solved;
    }
    pack.write(out_.data(), task.z);
    for (int lane = 0; lane < count; ++lane)
      if (!solved[lane]) otherwise(pack.row(lane));
  }

  // `too_steep(row)` is called for those whose sums floats do not give well enough.
  template <class Otherwise, class TooSteep>
  void solve_jacobian(const JacobianTask<T>& task, const RowPack<T>& pack, bool after_nodes, Otherwise otherwise, TooSteep too_steep) {
    const long n = task.units;
    const int count = pack.count();
    reserve(n);
    pack.read(task.z, raw_.data());
    pack.read(task.g, g_.data());
    const V c = pack.lanes_of(task.strength);
    V low, high;
    range_of_lanes<T>(raw_.data(), n, &low, &high);
    const V reach = high - low, origin = origin_of(low, high, pack_of(T(1)), reach);
    const M finite = finite_lanes<T>(raw_.data(), n) & finite_lanes<T>(g_.data(), n);
    const M mine = finite & (c < 1) & (c > T(-1e30)) & (reach < T(1e30));
    M solved = {}, steep = {};
    for (Way way : kWays) {
      M now = mine & lanes_for(way, n, c, reach, reach, after_nodes);
      // J enlarges what the series of the slopes leaves out, and the residual, made of the same sums, does not show it.
      if (way == Way::sorted) now &= (c < 0) | (kSlopeSeries <= kAllowed * (1 - c));
      if (!any_lane(now)) continue;
      // J passes a constant on unchanged; without it the rest keeps its digits. Squares of g stay within the floats.
      V mean = {}, size = pack_of(std::numeric_limits<T>::min()), squares = {};
      for (long i = 0; i < n; ++i) size = most_of(size, now ? size_of(g_[i]) : V{});
      const V scale = 1 / size;
      for (long i = 0; i < n; ++i) mean += now ? scale * g_[i] : V{};
      mean /= static_cast<T>(n);
      for (long i = 0; i < n; ++i) {
        rhs_[i] = now ? scale * g_[i] - mean : V{};
        in_[i] = now ? raw_[i] - origin : V{};
      }
      V dots;
      const V wrong = by(way, [&](auto& solver) { return run_adjoint(solver, c, now, &dots); });
      for (long i = 0; i < n; ++i) {
        const V v = mean + in_[i];
        squares += v * v;
        out_[i] = now ? size * v : out_[i];
      }
      const V error = squares > 0 ? root_of(wrong / squares) : V{};
      for (int lane = 0; lane < count; ++lane)
        if (now[lane]) {
          task.error[pack.row(lane)] = error[lane];
          task.dots[pack.row(lane)] = static_cast<double>(size[lane]) * dots[lane];
        }
      if (way == Way::sorted && sizeof(T) == 4) steep |= now & (c > steepest(n) * (1 - c * densest_ / static_cast<T>(n)));
      solved |= now & (error <= kAllowed) & ~steep;
    }
    pack.write(out_.data(), task.v);
    for (int lane = 0; lane < count; ++lane)
      if (steep[lane]) too_steep(pack.row(lane));
      else if (!solved[lane]) otherwise(pack.row(lane));
  }

 private:
  using Pairs = PackNewton<PairTable<kind, T>, T>;
  using Sorted = PackNewton<SortedTable<T>, T>;
  static constexpr T kUlp = std::numeric_limits<T>::epsilon();
  static constexpr T kAllowed = sizeof(T) == 4 ? T(3e-5) : T(1e-9);  // of the relative error of v
  // The noise of running sums, 1e-6 or 1e-14 where they cancel most, is to be a small share of the spread of a row.
  static constexpr T kNarrow = sizeof(T) == 4 ? T(1) : T(1e-4);
  // What the series of the running sums leaves out (sorted_table.h), and how much of it z may show: the accuracy asked for by
  // default is 5 and 100 times finer than what is promised.
  static constexpr T kSeries = sizeof(T) == 4 ? T(7e-8) : T(2e-12), kSlack = sizeof(T) == 4 ? T(2) : T(50);
  static constexpr T kSlopeSeries = sizeof(T) == 4 ? T(1e-6) : T(4e-11);
  // Rounding of the running sums, which the residual does not show either: with 605 units in a crowd their slopes were off by
  // 9e-6, and v by c / (1 - c d) times that, 1.3e-4 at 15; with 1024, 1500 and 3001 units by 1.0e-4, 1.3e-4 and 1.9e-4 at 7.
  // In floats, beyond this factor rows are too steep: less where there are more units than this.
  static constexpr T kSteepest = 10, kSteepUnits = 300;
  static T steepest(long n) { return kSteepest * std::sqrt(std::min(kSteepUnits / static_cast<T>(n), T(1))); }
  Pairs pairs_;
  Sorted sorted_;
  Array<V> raw_, g_, rhs_, in_, out_;
  Array<M> places_;
  V densest_;  // the largest sum of slopes of the rows sorted last

  void reserve(long n) {
    for (auto* a : {&raw_, &g_, &rhs_, &in_, &out_}) a->resize(n);
  }

  // The lanes that go this way, which is the fastest as measured: all pairs cost n^2, running sums n, and nodes (for rows that
  // are left to others, unless they come from there) least for long rows without much spread. `reach` is the most that units of z may be apart, `spread`
  // the least that their range may be: where that is little, rounding spoils running sums, all the more near the threshold.
  static M lanes_for(Way way, long n, V c, V reach, V spread, bool after_nodes) {
    const M all = M{} - 1, none = {};
    if (kind != Sigma::tanh) return way == Way::far_pairs ? all : none;
    const M close = reach <= T(kClose), far = ~(reach <= kUsual<T>);
    const M narrow = (spread <= kNarrow) | (c > 0 ? spread * (1 - c) <= T(0.05) * kNarrow : none);
    constexpr bool single = sizeof(T) == 4;
    const M better = after_nodes ? all : n <= 320 ? reach > static_cast<T>(n - 190) / 9 : reach > T(0.15) * static_cast<T>(n);
    const M sorted = n < (single ? 36 : 80) ? (n > 6 ? far : none) : ~narrow & (single ? better : all);
    switch (way) {
      case Way::close_pairs: return n <= 96 ? close & ~sorted : none;
      case Way::usual_pairs: return n <= 96 ? ~close & ~far & ~sorted : none;
      case Way::far_pairs: return n <= 96 ? far & ~sorted : none;
      default: return sorted;
    }
  }

  template <class Run> auto by(Way way, Run run) {
    switch (way) {
      case Way::close_pairs: pairs_.table.reach = Reach::close; return run(pairs_);
      case Way::usual_pairs: pairs_.table.reach = Reach::usual; return run(pairs_);
      case Way::far_pairs: pairs_.table.reach = Reach::far; return run(pairs_);
      default: return run(sorted_);
    }
  }

  // in_ is y before and z after.
  auto run(Pairs& solver, V c, V atol, M now) {
    const long n = raw_.size();
    solver.resize(n);
    std::copy(in_.data(), in_.data() + n, solver.y());
    const auto found = solver.find_roots(c, atol, now);
    std::copy(solver.z(), solver.z() + n, in_.data());
    return found;
  }
  auto run(Sorted& solver, V c, V atol, M now) {
    const long n = raw_.size();
    solver.resize(n), places_.resize(n);
    solver.table.fine = false;
    std::copy(in_.data(), in_.data() + n, solver.y());
    sort_packs<T>(solver.y(), places_.data(), n);
    const auto found = solver.find_roots(c, atol, now);
    unsort(solver.z());
    return found;
  }

  // in_ is z before and v after.
  V run_adjoint(Pairs& solver, V c, M now, V* dots) {
    const long n = raw_.size();
    solver.resize(n);
    std::copy(in_.data(), in_.data() + n, solver.z());
    std::copy(rhs_.data(), rhs_.data() + n, solver.y());
    const V residual = solver.solve_jacobian(c, now, dots);
    std::copy(solver.v(), solver.v() + n, in_.data());
    return residual;
  }
  V run_adjoint(Sorted& solver, V c, M now, V* dots) {
    const long n = raw_.size();
    solver.resize(n), places_.resize(n);
    solver.table.fine = true;
    std::copy(in_.data(), in_.data() + n, solver.z());
    sort_packs<T>(solver.z(), places_.data(), n);
    const T* from = reinterpret_cast<const T*>(rhs_.data());
    for (long i = 0; i < n; ++i) {
      T lanes[kLanes<T>];
      for (int lane = 0; lane < kLanes<T>; ++lane) lanes[lane] = from[places_[i][lane] * kLanes<T> + lane];
      solver.y()[i] = load_pack<T>(lanes);
    }
    const V residual = solver.solve_jacobian(c, now, dots);
    densest_ = V{};
    for (long i = 0; i < n; ++i) densest_ = most_of(densest_, solver.table.degree[i]);
    unsort(solver.v());
    return residual;
  }

  // in_ = x, every unit back in its place.
  void unsort(const V* x) {
    T* to = reinterpret_cast<T*>(in_.data());
    for (long i = 0; i < raw_.size(); ++i)
      for (int lane = 0; lane < kLanes<T>; ++lane) to[places_[i][lane] * kLanes<T> + lane] = x[i][lane];
  }

  static V nearest_to_zero(V low, V high) { return low > 0 ? low : (high < 0 ? high : V{}); }

  // Units are counted from the place of the row that is nearest to 0: differences keep the digits of y. If E = e^(2 z) would
  // not fit in its type then, from the middle of the row, and where it never fits, from 0.
  static V origin_of(V low, V high, V slope, V reach) {
    const V nearest = nearest_to_zero(low, high), middle = T(0.5) * low + T(0.5) * high;
    const V longest = slope * most_of(high - nearest, nearest - low) + T(0.5) * (reach - slope * (high - low));
    if (kind != Sigma::tanh) return nearest;
    return longest <= T(0.5) * kUsual<T> && reach > T(kClose) ? nearest : (reach <= kUsual<T> ? middle : V{});
  }
};

}  // namespace ibnn
