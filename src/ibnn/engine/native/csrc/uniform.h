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

template <Sigma kind, class T> void find_roots_alone(const RootTask<T>& task, long row) {
  const long n = task.units;
  find_roots_of_row<kind, T>(task.y + row * n, task.strength[row], task.atol[row], task.slope[row], n, task.resolution,
                             task.z + row * n, task.residual + row, task.steps + row, task.solved + row);
}

template <Sigma kind, class T> void solve_jacobian_alone(const JacobianTask<T>& task, long row) {
  const long n = task.units;
  solve_jacobian_of_row<kind, T>(task.z + row * n, task.g + row * n, task.strength[row], n, task.v + row * n,
                                 task.error + row, task.dots + row);
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
template <Sigma kind, class T> bool for_node_packs(long n) {
  return kind == Sigma::tanh && sizeof(T) == 4 && n >= NodePackEngine::shortest && n <= NodePackEngine::longest;
}
template <Sigma kind, class T> bool for_packs(long n) {
  return kInLanes<kind, T> && n >= 2 && n <= PackEngine<kind, T>::longest;
}

// Rows go to the nodes, in packs; what they leave is collected and goes on in packs of its own, or one by one.
// run_nodes(engine, first row, end, otherwise), run(engine, pack, after nodes, otherwise) and alone(row) solve them.
template <Sigma kind, class T, class RunNodes, class Run, class Alone>
int solve_packs(long rows, long n, int threads, RunNodes run_nodes, Run run, Alone alone) {
  if constexpr (kind == Sigma::tanh && sizeof(T) == 4)
    if (for_node_packs<kind, T>(n)) {
      // What several packs leave fills packs of its own; but all threads are to have some, if need be with packs half empty.
      const long share = (rows + threads - 1) / threads, packs = std::min(4L, share / (2 * kLanes<T>));
      const long block = packs > 0 ? packs * kLanes<T> : std::min<long>(std::max(share, 1L), kLanes<T>);
      const double cost = 0.5 * cost_of_row(n) * static_cast<double>(block);
      return for_each((rows + block - 1) / block, threads, cost, [&, block](long k) {
        static thread_local NodePackEngine nodes;
        static thread_local std::vector<long> left, single;
        left.clear(), single.clear();
        auto leave = [&](long row, bool tried) {
          const bool packed = n <= (tried ? PackEngine<kind, T>::longest_left : PackEngine<kind, T>::longest);
          (packed ? left : single).push_back(row);
        };
        run_nodes(nodes, k * block, std::min(rows, (k + 1) * block), leave);
        std::sort(left.begin(), left.end());
        for (size_t i = 0; i < left.size(); i += kLanes<T>)
          run(pack_engine<kind, T>(),
              RowPack<T>(n, &left[i], std::min<long>(kLanes<T>, static_cast<long>(left.size() - i))), true, alone);
        for (long row : single) alone(row);
      });
    }
  if constexpr (kInLanes<kind, T>)
    if (for_packs<kind, T>(n))
      return for_each(packs_of<T>(rows), threads, cost_of_pack(n), [&](long pack) {
        run(pack_engine<kind, T>(), RowPack<T>(n, pack * kLanes<T>, rows), false, alone);
      });
  // Fewer long rows than threads: all work at each of them. Of hardtanh most is a sort, which nobody shares.
  const int team = kind != Sigma::hardtanh && n > kChunk ? worth_leading(threads, cost_of_long_row<kind, T>(n)) : 1;
  if (team > rows) return for_each_led(rows, team, alone);
  return for_each(rows, threads, cost_of_row(n), alone);
}

inline bool is_above(double strength) { return strength >= 1 && strength < 1e30; }

// Rows above the threshold, which descend in packs of their own; only of tanh, and not too long.
template <Sigma kind, class T> std::vector<long> rows_above(long rows, long n, const PerRow& strength) {
  std::vector<long> found;
  if (kind != Sigma::tanh || n < 2 || n > DescentEngine<T>::longest) return found;
  if (strength.step == 0 && !is_above(strength[0])) return found;
  for (long row = 0; row < rows; ++row)
    if (is_above(strength[row])) found.push_back(row);
  return found;
}

// run(engine, pack) for all of them.
template <class T, class Run>
int descend_packs(long n, const std::vector<long>& rows, int threads, Run run) {
  const long count = static_cast<long>(rows.size());
  return for_each(packs_of<T>(count), threads, 500.0 * static_cast<double>(n * kLanes<T>), [&](long pack) {
    static thread_local DescentEngine<T> engine;
    const long first = pack * kLanes<T>;
    run(engine, RowPack<T>(n, &rows[static_cast<size_t>(first)], std::min<long>(kLanes<T>, count - first)));
  });
}

// Rows whose gradients floats do not give well enough, once more in doubles, by solve(task, pack, otherwise); no more than lanes
// of floats. Those it leaves go to `otherwise`, too.
template <class Solve, class Otherwise>
void solve_jacobian_in_doubles(const JacobianTask<float>& task, const long* rows, long count, Solve solve, Otherwise otherwise) {
  static thread_local Array<double> z, g, v;
  const long n = task.units;
  for (auto* a : {&z, &g, &v}) a->resize(count * n);
  double strength[kLanes<float>], error[kLanes<float>], dots[kLanes<float>];
  bool left[kLanes<float>] = {};
  for (long k = 0; k < count; ++k) {
    strength[k] = task.strength[rows[k]];
    std::copy(task.z + rows[k] * n, task.z + (rows[k] + 1) * n, z.data() + k * n);
    std::copy(task.g + rows[k] * n, task.g + (rows[k] + 1) * n, g.data() + k * n);
  }
  const JacobianTask<double> again{count, n, z.data(), g.data(), {strength, 1}, v.data(), error, dots};
  for (long first = 0; first < count; first += kLanes<double>)
    solve(again, RowPack<double>(n, first, count), [&](long k) { left[k] = true; });
  for (long k = 0; k < count; ++k) {
    if (left[k]) {
      otherwise(rows[k]);
      continue;
    }
    for (long i = 0; i < n; ++i) task.v[rows[k] * n + i] = static_cast<float>(v[k * n + i]);
    task.error[rows[k]] = error[k], task.dots[rows[k]] = dots[k];
  }
}

// Those where J is nearly singular, above the threshold.
inline void descend_in_doubles(const JacobianTask<float>& task, const RowPack<float>& pack) {
  static thread_local DescentEngine<double> engine;
  long rows[kLanes<float>], count = 0;
  for (int lane = 0; lane < pack.count(); ++lane) {
    const double error = task.error[pack.row(lane)];
    if (error > kGradientError<float> && error <= 1) rows[count++] = pack.row(lane);
  }
  solve_jacobian_in_doubles(
      task, rows, count, [](auto& again, const auto& some, auto) { engine.solve_jacobian(again, some); }, [](long) {});
}

// A pack in floats, and those of its rows that are too steep in doubles.
template <Sigma kind, class T, class Otherwise>
void solve_jacobian_of_pack(PackEngine<kind, T>& engine, const JacobianTask<T>& task, const RowPack<T>& pack, bool after_nodes,
                            Otherwise otherwise) {
  long steep[kLanes<T>], count = 0;
  engine.solve_jacobian(task, pack, after_nodes, otherwise, [&](long row) { steep[count++] = row; });
  if constexpr (kind == Sigma::tanh && sizeof(T) == 4)
    solve_jacobian_in_doubles(
        task, steep, count,
        [](auto& again, const auto& some, auto leave) {
          pack_engine<kind, double>().solve_jacobian(again, some, true, leave, [](long) {});  // no row is too steep in doubles
        },
        otherwise);
}

template <Sigma kind, class T> int find_roots(const RootTask<T>& task, int threads) {
  const std::vector<long> above = rows_above<kind, T>(task.rows, task.units, task.strength);
  int failed = 0;
  if (static_cast<long>(above.size()) < task.rows)
    failed = solve_packs<kind, T>(
        task.rows, task.units, threads,
        [&](auto& nodes, long first, long end, auto otherwise) { nodes.find_roots(task, first, end, otherwise); },
        [&](auto& engine, const RowPack<T>& pack, bool after_nodes, auto otherwise) {
          engine.find_roots(task, pack, after_nodes, otherwise);
        },
        [&](long row) {
          if (above.empty() || !is_above(task.strength[row])) find_roots_alone<kind>(task, row);
        });
  if (!above.empty())
    failed |= descend_packs<T>(task.units, above, threads,
                               [&](auto& engine, const RowPack<T>& pack) { engine.find_roots(task, pack); });
  return failed;
}

template <Sigma kind, class T> int solve_jacobian(const JacobianTask<T>& task, int threads) {
  const std::vector<long> above = rows_above<kind, T>(task.rows, task.units, task.strength);
  int failed = 0;
  if (static_cast<long>(above.size()) < task.rows)
    failed = solve_packs<kind, T>(
        task.rows, task.units, threads,
        [&](auto& nodes, long first, long end, auto otherwise) { nodes.solve_jacobian(task, first, end, otherwise); },
        [&](auto& engine, const RowPack<T>& pack, bool after_nodes, auto otherwise) {
          solve_jacobian_of_pack(engine, task, pack, after_nodes, otherwise);
        },
        [&](long row) {
          if (above.empty() || !is_above(task.strength[row])) solve_jacobian_alone<kind>(task, row);
        });
  if (!above.empty())
    failed |= descend_packs<T>(task.units, above, threads,
                               [&](auto& engine, const RowPack<T>& pack) {
                                 engine.solve_jacobian(task, pack);
                                 if constexpr (sizeof(T) == 4) descend_in_doubles(task, pack);
                               });
  return failed;
}

}  // namespace ibnn
