// Uniform weights: which way a batch of rows is solved, by their length.
#pragma once
#include "packs/descent_engine.h"
#include "packs/node_pack_engine.h"
#include "packs/pack_engine.h"
#include "rows/row_solver.h"
#include "basics/threads.h"

namespace ibnn {

// arctan and erf of doubles have no packs.
template <Sigma kind, class T> constexpr bool kInLanes = sizeof(T) == 4 || kind == Sigma::tanh || kind == Sigma::hardtanh;

template <Sigma kind, class T> PackEngine<kind, T>& pack_engine() {
  static thread_local PackEngine<kind, T> engine;
  return engine;
}

// A row of any layout as contiguous numbers: itself, or copied to `buffer`.
template <class T> const T* gathered(const Layout& layout, const T* from, long row, Array<T>& buffer) {
  from += layout.start(row);
  if (layout.unit_step == 1) return from;
  buffer.resize(layout.units);
  for (long i = 0; i < layout.units; ++i) buffer[i] = from[i * layout.unit_step];
  return buffer.data();
}

// Where a row of any layout is to be written as contiguous numbers, and how it gets to its place then.
template <class T> T* place_of(const Layout& layout, T* to, long row, Array<T>& buffer) {
  if (layout.unit_step == 1) return to + layout.start(row);
  buffer.resize(layout.units);
  return buffer.data();
}
template <class T> void scatter(const Layout& layout, const T* from, long row, T* to) {
  to += layout.start(row);
  if (from == to) return;
  for (long i = 0; i < layout.units; ++i) to[i * layout.unit_step] = from[i];
}

template <Sigma kind, class T> void find_roots_alone(const RootTask<T>& task, long row) {
  static thread_local Array<T> from, to;
  const T* y = gathered(task.layout, task.y, row, from);
  T* z = place_of(task.layout, task.z, row, to);
  find_roots_of_row<kind, T>(y, task.strength[row], task.atol[row], task.slope[row], task.layout.units,
                             task.resolution, z, task.residual + row, task.steps + row, task.solved + row);
  scatter(task.layout, z, row, task.z);
}

template <Sigma kind, class T> void solve_jacobian_alone(const JacobianTask<T>& task, long row) {
  static thread_local Array<T> from, rhs, to;
  const T *z = gathered(task.layout, task.z, row, from), *g = gathered(task.layout, task.g, row, rhs);
  T* v = place_of(task.layout, task.v, row, to);
  solve_jacobian_of_row<kind, T>(z, g, task.strength[row], task.layout.units, v, task.error + row,
                                 task.dots ? task.dots + row : nullptr);
  scatter(task.layout, v, row, task.v);
}

// Nanoseconds, about, that a row or a pack of short rows takes.
inline double cost_of_row(long n) { return 40.0 * static_cast<double>(n); }
// What a long row takes: floats on nodes a few nanoseconds a unit, all others a hundred.
template <Sigma kind, class T> double cost_of_long_row(long n) {
  return (sizeof(T) == 4 && kind != Sigma::hardtanh ? 5.0 : 100.0) * static_cast<double>(n);
}
inline double cost_of_pack(long n) { return 100.0 * static_cast<double>(n) + 8.0 * static_cast<double>(n * n); }

template <class T> long packs_of(long rows) { return (rows + kLanes<T> - 1) / kLanes<T>; }

// Rows that go to the nodes a pack at a time: floats of a length at which there are fewer nodes than units.
template <Sigma kind, class T> bool for_node_packs(const Layout& layout) {
  if (kind != Sigma::tanh || sizeof(T) != 4) return false;
  return layout.unit_step == 1 && layout.units >= NodePackEngine::shortest && layout.units <= NodePackEngine::longest;
}
template <Sigma kind, class T> bool for_packs(const Layout& layout) {
  return kInLanes<kind, T> && layout.units >= 2 && layout.units <= PackEngine<kind, T>::longest;
}

// Rows go to the nodes, in packs; what they leave is collected and goes on in packs of its own, or one by one.
// run_nodes(engine, first row, end, otherwise), run(engine, pack, after nodes, otherwise) and alone(row) solve them.
template <Sigma kind, class T, class RunNodes, class Run, class Alone>
int solve_packs(const Layout& layout, int threads, RunNodes run_nodes, Run run, Alone alone) {
  const long n = layout.units;
  if constexpr (kind == Sigma::tanh && sizeof(T) == 4)
    if (for_node_packs<kind, T>(layout)) {
      // What several packs leave fills packs of its own; but all threads are to have some, if need be with packs half empty.
      const long share = (layout.rows + threads - 1) / threads, packs = std::min(4L, share / (2 * kLanes<T>));
      const long rows = packs > 0 ? packs * kLanes<T> : std::min<long>(std::max(share, 1L), kLanes<T>);
      const double cost = 0.5 * cost_of_row(n) * static_cast<double>(rows);
      return for_each((layout.rows + rows - 1) / rows, threads, cost, [&, rows](long block) {
        static thread_local NodePackEngine nodes;
        static thread_local std::vector<long> left, single;
        left.clear(), single.clear();
        auto leave = [&](long row, bool tried) {
          const bool packed = n <= (tried ? PackEngine<kind, T>::longest_left : PackEngine<kind, T>::longest);
          (packed ? left : single).push_back(row);
        };
        run_nodes(nodes, block * rows, std::min(layout.rows, (block + 1) * rows), leave);
        std::sort(left.begin(), left.end());
        for (size_t k = 0; k < left.size(); k += kLanes<T>)
          run(pack_engine<kind, T>(),
              RowPack<T>(layout, &left[k], std::min<long>(kLanes<T>, static_cast<long>(left.size() - k))), true, alone);
        for (long row : single) alone(row);
      });
    }
  if constexpr (kInLanes<kind, T>)
    if (for_packs<kind, T>(layout))
      return for_each(packs_of<T>(layout.rows), threads, cost_of_pack(n), [&](long pack) {
        run(pack_engine<kind, T>(), RowPack<T>(layout, pack * kLanes<T>), false, alone);
      });
  // Fewer long rows than threads: all work at each of them. Of hardtanh most is a sort, which nobody shares.
  const int team = kind != Sigma::hardtanh && n > kChunk ? worth_leading(threads, cost_of_long_row<kind, T>(n)) : 1;
  if (team > layout.rows) return for_each_led(layout.rows, team, alone);
  return for_each(layout.rows, threads, cost_of_row(n), alone);
}

inline bool is_above(double strength) { return strength >= 1 && strength < 1e30; }

// Rows above the threshold, which descend in packs of their own; only of tanh, and not too long.
template <Sigma kind, class T> std::vector<long> rows_above(const Layout& layout, const PerRow& strength) {
  std::vector<long> found;
  if (kind != Sigma::tanh || layout.units < 2 || layout.units > DescentEngine<T>::longest) return found;
  if (strength.first && strength.step == 0 && !is_above(strength[0])) return found;
  for (long row = 0; row < layout.rows; ++row)
    if (is_above(strength[row])) found.push_back(row);
  return found;
}

// run(engine, pack) for all of them.
template <class T, class Run>
int descend_packs(const Layout& layout, const std::vector<long>& rows, int threads, Run run) {
  const long count = static_cast<long>(rows.size()), n = layout.units;
  return for_each(packs_of<T>(count), threads, 500.0 * static_cast<double>(n * kLanes<T>), [&](long pack) {
    static thread_local DescentEngine<T> engine;
    const long first = pack * kLanes<T>;
    run(engine, RowPack<T>(layout, &rows[static_cast<size_t>(first)], std::min<long>(kLanes<T>, count - first)));
  });
}

// Rows of a pack whose gradients floats do not give well enough, where J is nearly singular, once more in doubles.
inline void solve_jacobian_in_doubles(const JacobianTask<float>& task, const RowPack<float>& pack) {
  static thread_local DescentEngine<double> engine;
  static thread_local Array<double> z, g, v;
  const long n = task.layout.units, step = task.layout.unit_step;
  long rows[kLanes<float>], count = 0;
  for (int lane = 0; lane < pack.count(); ++lane) {
    const double error = task.error[pack.row(lane)];
    if (error > kGradientError<float> && error <= 1) rows[count++] = pack.row(lane);
  }
  for (auto* a : {&z, &g, &v}) a->resize(count * n);
  double strength[kLanes<float>], error[kLanes<float>], dots[kLanes<float>];
  for (long k = 0; k < count; ++k) {
    const long start = task.layout.start(rows[k]);
    strength[k] = task.strength[rows[k]];
    for (long i = 0; i < n; ++i) z[k * n + i] = task.z[start + i * step], g[k * n + i] = task.g[start + i * step];
  }
  const JacobianTask<double> again{Layout::plain(count, n), z.data(), g.data(), {strength, 1}, v.data(), error, dots};
  for (long first = 0; first < count; first += kLanes<double>) engine.solve_jacobian(again, RowPack<double>(again.layout, first));
  for (long k = 0; k < count; ++k) {
    const long start = task.layout.start(rows[k]);
    for (long i = 0; i < n; ++i) task.v[start + i * step] = static_cast<float>(v[k * n + i]);
    task.error[rows[k]] = error[k];
    if (task.dots) task.dots[rows[k]] = dots[k];
  }
}

template <Sigma kind, class T> int find_roots(const RootTask<T>& task, int threads) {
  const std::vector<long> above = rows_above<kind, T>(task.layout, task.strength);
  int failed = 0;
  if (static_cast<long>(above.size()) < task.layout.rows)
    failed = solve_packs<kind, T>(
        task.layout, threads,
        [&](auto& nodes, long first, long end, auto otherwise) { nodes.find_roots(task, first, end, otherwise); },
        [&](auto& engine, const RowPack<T>& pack, bool after_nodes, auto otherwise) {
          engine.find_roots(task, pack, after_nodes, otherwise);
        },
        [&](long row) {
          if (above.empty() || !is_above(task.strength[row])) find_roots_alone<kind>(task, row);
        });
  if (!above.empty())
    failed |= descend_packs<T>(task.layout, above, threads,
                               [&](auto& engine, const RowPack<T>& pack) { engine.find_roots(task, pack); });
  return failed;
}

template <Sigma kind, class T> int solve_jacobian(const JacobianTask<T>& task, int threads) {
  const std::vector<long> above = rows_above<kind, T>(task.layout, task.strength);
  int failed = 0;
  if (static_cast<long>(above.size()) < task.layout.rows)
    failed = solve_packs<kind, T>(
        task.layout, threads,
        [&](auto& nodes, long first, long end, auto otherwise) { nodes.solve_jacobian(task, first, end, otherwise); },
        [&](auto& engine, const RowPack<T>& pack, bool after_nodes, auto otherwise) {
          engine.solve_jacobian(task, pack, after_nodes, otherwise);
        },
        [&](long row) {
          if (above.empty() || !is_above(task.strength[row])) solve_jacobian_alone<kind>(task, row);
        });
  if (!above.empty())
    failed |= descend_packs<T>(task.layout, above, threads,
                               [&](auto& engine, const RowPack<T>& pack) {
                                 engine.solve_jacobian(task, pack);
                                 if constexpr (sizeof(T) == 4) solve_jacobian_in_doubles(task, pack);
                               });
  return failed;
}

}  // namespace ibnn
