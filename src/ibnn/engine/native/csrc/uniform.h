// Uniform weights: which way a batch of rows is solved, by their length.
#pragma once
#include "row_solver.h"
#include "pack_engine.h"
#include "threads.h"

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
inline double cost_of_pack(long n) { return 100.0 * static_cast<double>(n) + 8.0 * static_cast<double>(n * n); }

template <class T> long packs_of(const Layout& layout) { return (layout.rows + kLanes<T> - 1) / kLanes<T>; }

template <Sigma kind, class T> int find_roots(const RootTask<T>& task, int threads) {
  const long n = task.layout.units, rows = task.layout.rows;
  if constexpr (kInLanes<kind, T>)
    if (n >= 2 && n <= PackEngine<kind, T>::longest)
      return for_each(packs_of<T>(task.layout), threads, cost_of_pack(n), [&](long pack) {
        pack_engine<kind, T>().find_roots(task, pack * kLanes<T>, [&](long row) { find_roots_alone<kind>(task, row); });
      });
  return for_each(rows, threads, cost_of_row(n), [&](long row) { find_roots_alone<kind>(task, row); });
}

template <Sigma kind, class T> int solve_jacobian(const JacobianTask<T>& task, int threads) {
  const long n = task.layout.units, rows = task.layout.rows;
  if constexpr (kInLanes<kind, T>)
    if (n >= 2 && n <= PackEngine<kind, T>::longest)
      return for_each(packs_of<T>(task.layout), threads, cost_of_pack(n), [&](long pack) {
        pack_engine<kind, T>().solve_jacobian(task, pack * kLanes<T>,
                                               [&](long row) { solve_jacobian_alone<kind>(task, row); });
      });
  return for_each(rows, threads, cost_of_row(n), [&](long row) { solve_jacobian_alone<kind>(task, row); });
}

template <Sigma kind, class T>
int pair_sum(const T* z, const T* a, long rows, long n, int order, T* out, int threads) {
  return for_each(rows, threads, cost_of_row(n), [=](long row) {
    const T* zr = z + row * n;
    const T* ar = a ? a + row * n : nullptr;
    if (!finite_row(zr, n) || (ar && !finite_row(ar, n))) return spoil(out + row * n, n);
    buffers<kind, T>().pair_sum(zr, ar, n, order, out + row * n);
  });
}

template <Sigma kind, class T> int bias_change(const T* z, const T* v, long rows, long n, T* out, int threads) {
  return for_each(rows, threads, cost_of_row(n), [=](long row) {
    if (!finite_row(z + row * n, n) || !finite_row(v + row * n, n)) return spoil(out + row * n, n);
    buffers<kind, T>().bias_change(z + row * n, v + row * n, n, out + row * n);
  });
}

}  // namespace ibnn
