// Packs of rows above the threshold in the units of the caller: scaled, counted from a place near 0, sorted, and back. tanh.
#pragma once
#include "basics/tasks.h"
#include "packs/pack_definite.h"
#include "packs/pack_descent.h"
#include "packs/pair_table.h"
#include "packs/sort_packs.h"
#include "packs/sorted_table.h"

namespace ibnn {

template <class T> class DescentEngine {
 public:
  using V = Pack<T>;
  using M = Mask<T>;
  // As many units as a pack of doubles may have below the threshold (pack_engine.h).
  static constexpr long longest = 16384;

  void find_roots(const RootTask<T>& task, const RowPack<T>& pack) {
    const long n = task.units;
    reserve(n);
    pack.read(task.y, raw_.data());
    const V c = pack.lanes_of(task.strength), p = pack.lanes_of(task.slope);
    V low, high;
    range_of_lanes<T>(raw_.data(), n, &low, &high);
    const V origin = nearest_to_zero(low, high), range = p * (high - low);
    const M mine = finite_lanes<T>(raw_.data(), n) & (c < T(1e30)) & (p > 0) & (p < T(1e30)) & (range < T(1e30));
    for (long i = 0; i < n; ++i) sorted_[i] = mine ? p * (raw_[i] - origin) : V{};
    sort_packs<T>(sorted_.data(), places_.data(), n);
    std::copy(sorted_.data(), sorted_.data() + n, in_.data());
    const V atol = pack.lanes_of(task.atol), resolution = pack_of(static_cast<T>(task.resolution));
    M unique = {};
    const M equal = mine & (range == 0);  // z = y then: there is nothing that would part the units
    PackFound<T> found{equal ? V{} : pack_of(std::numeric_limits<T>::infinity()), V{}, equal};
    // z is up to c farther out than y
    running_.table.fine = false;
    by_way(n, mine & ~equal, c + range, [&](auto& solver, M now) {
      std::copy(sorted_.data(), sorted_.data() + n, solver.y());
      M proven;
      const auto part = solver.find_minima(c, atol, resolution, now, &proven);
      unique |= now & proven;
      found.residual = now ? part.residual : found.residual, found.steps = now ? part.steps : found.steps;
      found.solved |= now & part.solved;
      for (long i = 0; i < n; ++i) in_[i] = now ? solver.z()[i] : in_[i];
    });
    const bool asked = task.unique && n <= PackDefinite<T>::longest;
    if (asked && any_lane(mine & found.solved & ~unique)) unique |= definite_.test(in_.data(), c / static_cast<T>(n), n);
    unsort(n);
    const V none = pack_of(std::numeric_limits<T>::quiet_NaN());
    for (long i = 0; i < n; ++i) raw_[i] = mine ? origin + out_[i] / p : none;
    pack.write(raw_.data(), task.z);
    for (int lane = 0; lane < pack.count(); ++lane) {
      const long row = pack.row(lane);
      task.residual[row] = found.residual[lane], task.steps[row] = static_cast<int>(found.steps[lane]);
      task.solved[row] = found.solved[lane] != 0;
      if (task.unique) task.unique[row] = unique[lane] != 0 && task.solved[row];
    }
  }

  // The error of a row is 1 where J is not positive definite, 2 where it is not within a crowd alone and v is right, and
  // otherwise at most a half.
  void solve_jacobian(const JacobianTask<T>& task, const RowPack<T>& pack) {
    const long n = task.units;
    reserve(n);
    pack.read(task.z, raw_.data());
    pack.read(task.g, g_.data());
    const V c = pack.lanes_of(task.strength);
    V low, high;
    range_of_lanes<T>(raw_.data(), n, &low, &high);
    const V origin = nearest_to_zero(low, high), range = high - low;
    const M finite = finite_lanes<T>(raw_.data(), n) & finite_lanes<T>(g_.data(), n);
    const M mine = finite & (c < T(1e30)) & (range < T(1e30));
    // J passes a constant on unchanged; without it the rest keeps its digits. Squares of g stay within the floats.
    V mean = {}, size = pack_of(std::numeric_limits<T>::min()), squares = {};
    for (long i = 0; i < n; ++i) size = most_of(size, mine ? size_of(g_[i]) : V{});
    const V scale = 1 / size;
    for (long i = 0; i < n; ++i) mean += mine ? scale * g_[i] : V{};
    mean /= static_cast<T>(n);
    for (long i = 0; i < n; ++i) {
      out_[i] = mine ? scale * g_[i] - mean : V{};
      sorted_[i] = mine ? raw_[i] - origin : V{};
    }
    sort_packs<T>(sorted_.data(), places_.data(), n);
    std::copy(sorted_.data(), sorted_.data() + n, in_.data());
    const T* from = reinterpret_cast<const T*>(out_.data());
    for (long i = 0; i < n; ++i) {
      T lanes[kLanes<T>];
      for (int lane = 0; lane < kLanes<T>; ++lane) lanes[lane] = from[places_[i][lane] * kLanes<T> + lane];
      g_[i] = load_pack<T>(lanes);
    }
    V dots = {}, wrong = {};
    M flat = {}, saddle = {};
    running_.table.fine = true;
    by_way(n, mine, range, [&](auto& solver, M now) {
      std::copy(sorted_.data(), sorted_.data() + n, solver.z());
      std::copy(g_.data(), g_.data() + n, solver.y());
      V part, error;
      M parts;
      flat |= now & solver.solve_jacobian(c, now, &part, &error, &parts);
      saddle |= now & parts;
      dots = now ? part : dots, wrong = now ? error : wrong;
      for (long i = 0; i < n; ++i) in_[i] = now ? solver.v()[i] : in_[i];
    });
    unsort(n);
    const V none = pack_of(std::numeric_limits<T>::quiet_NaN());
    for (long i = 0; i < n; ++i) {
      const V v = mean + out_[i];
      squares += v * v;
      out_[i] = mine ? size * v : none;
    }
    pack.write(out_.data(), task.v);
    V error = squares > 0 ? root_of(wrong / squares) : V{};
    saddle &= ~flat & (error <= kGradientError<T>);
    error = flat ? pack_of(T(1)) : (saddle ? pack_of(T(2)) : least_of(error, pack_of(T(0.5))));
    for (int lane = 0; lane < pack.count(); ++lane) {
      const long row = pack.row(lane);
      task.error[row] = mine[lane] ? error[lane] : std::numeric_limits<double>::infinity();
      task.dots[row] = mine[lane] ? static_cast<double>(size[lane]) * dots[lane] : std::numeric_limits<double>::quiet_NaN();
    }
  }

 private:
  // Rows of up to so many units are summed pair by pair: that costs n^2, and running sums n.
  static constexpr long kPairs = sizeof(T) == 4 ? 24 : 32;
  PackDescent<PairTable<Sigma::tanh, T>, T> pairs_;
  PackDescent<SortedTable<T>, T> running_;
  PackDefinite<T> definite_;
  Array<V> raw_, g_, sorted_, in_, out_;
  Array<M> places_;

  void reserve(long n) {
    for (auto* a : {&raw_, &g_, &sorted_, &in_, &out_}) a->resize(n);
    places_.resize(n);
  }

  // Calls run with a solver and its lanes; units are counted from one of them or from 0, and within `reach` of it.
  template <class Run> void by_way(long n, M mine, V reach, Run run) {
    if (n > kPairs) {
      running_.series = sizeof(T) == 4 ? T(1e-6) : T(4e-11);  // (sorted_table.h)
      running_.resize(n);
      if (any_lane(mine)) run(running_, mine);
      return;
    }
    pairs_.resize(n);
    const M near = mine & (reach <= T(0.5) * kUsual<T>);
    pairs_.table.reach = Reach::usual;
    if (any_lane(near)) run(pairs_, near);
    pairs_.table.reach = Reach::far;
    if (any_lane(mine & ~near)) run(pairs_, mine & ~near);
  }

  // out_ = in_, every unit back in its place.
  void unsort(long n) {
    T* to = reinterpret_cast<T*>(out_.data());
    for (long i = 0; i < n; ++i)
      for (int lane = 0; lane < kLanes<T>; ++lane) to[places_[i][lane] * kLanes<T> + lane] = in_[i][lane];
  }

  static V nearest_to_zero(V low, V high) { return low > 0 ? low : (high < 0 ? high : V{}); }
};

}  // namespace ibnn
