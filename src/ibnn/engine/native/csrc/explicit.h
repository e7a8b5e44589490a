// One explicit step with uniform weights: which way a batch of rows goes, by their length.
#pragma once
#include <vector>

#include "basics/threads.h"
#include "packs/explicit_lanes.h"
#include "packs/explicit_nodes.h"
#include "rows/row_sums.h"

namespace ibnn {

// Nanoseconds, about, for a unit on nodes and for a pair of units in lanes; a row by itself takes ten times as long.
constexpr double kExplicitUnit = 4, kExplicitPair = 0.2;

template <Sigma kind> ExplicitLanes<kind>& explicit_lanes() {
  static thread_local ExplicitLanes<kind> lanes;  // (declared where its own thread comes by, and frees it)
  return lanes;
}

// on_nodes(engine, first row, end, otherwise) and in_lanes(engine, pack, otherwise) take what they can; alone(row) the rest.
template <Sigma kind, class T, class Nodes, class Lanes, class Alone>
int explicit_rows(long rows, long n, int threads, Nodes on_nodes, Lanes in_lanes, Alone alone) {
  if constexpr (sizeof(T) == 4) {
    const bool short_rows = n >= 2 && n <= ExplicitLanes<kind>::longest;
    if constexpr (kind == Sigma::tanh)
      if (n >= ExplicitNodes::shortest) {
        const long each = (rows + threads - 1) / threads, block = std::max(1L, std::min(ExplicitNodes::rows_at_once(n), each));
        const double cost = kExplicitUnit * static_cast<double>(n * block);
        return for_each((rows + block - 1) / block, threads, cost, [&, block](long k) {
          static thread_local ExplicitNodes nodes;
          static thread_local std::vector<long> left;
          left.clear();
          on_nodes(nodes, k * block, std::min(rows, (k + 1) * block), [&](long row) { left.push_back(row); });
          if (left.empty()) return;
          if (short_rows)
            in_lanes(explicit_lanes<kind>(), RowPack<T>(n, left.data(), static_cast<long>(left.size())), alone);
          else
            for (long row : left) alone(row);
        });
      }
    if (short_rows) {
      const long packs = (rows + kLanes<T> - 1) / kLanes<T>;
      const double of_unit = kExplicitUnit + kExplicitPair * static_cast<double>(std::min(n, 40L));
      const double cost = static_cast<double>(n * kLanes<T>) * of_unit;
      return for_each(packs, threads, cost,
                      [&](long k) { in_lanes(explicit_lanes<kind>(), RowPack<T>(n, k * kLanes<T>, rows), alone); });
    }
  }
  return for_each(rows, threads, 10 * kExplicitUnit * static_cast<double>(n), alone);
}

template <Sigma kind, class T> int explicit_step(const StepTask<T>& task, int threads) {
  return explicit_rows<kind, T>(
      task.rows, task.units, threads,
      [&](auto& nodes, long first, long end, auto otherwise) { nodes.step(task, first, end, otherwise); },
      [&](auto& lanes, const auto& pack, auto otherwise) { lanes.step(task, pack, otherwise); },
      [&](long row) { row_sums<kind, T>().step(task, row); });
}

template <Sigma kind, class T> int explicit_gradient(const StepGradientTask<T>& task, int threads) {
  return explicit_rows<kind, T>(
      task.rows, task.units, threads,
      [&](auto& nodes, long first, long end, auto otherwise) { nodes.step_gradient(task, first, end, otherwise); },
      [&](auto& lanes, const auto& pack, auto otherwise) { lanes.step_gradient(task, pack, otherwise); },
      [&](long row) { row_sums<kind, T>().step_gradient(task, row); });
}

template <Sigma kind, class T>
int pair_sum(const T* z, const T* a, long rows, long n, int order, T* out, int threads) {
  return for_each(rows, threads, 10 * kExplicitUnit * static_cast<double>(n), [=](long row) {
    row_sums<kind, T>().pair_sum(z + row * n, a ? a + row * n : nullptr, n, order, out + row * n);
  });
}

template <Sigma kind, class T> int bias_change(const T* z, const T* v, long rows, long n, T* out, int threads) {
  return for_each(rows, threads, 10 * kExplicitUnit * static_cast<double>(n), [=](long row) {
    row_sums<kind, T>().bias_change(z + row * n, v + row * n, n, out + row * n);
  });
}

}  // namespace ibnn
