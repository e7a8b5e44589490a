// Sums over all pairs of one row, uniform weights, and what one explicit step is made of; with its buffers.
#pragma once
#include "basics/row_values.h"
#include "basics/tasks.h"
#include "sums/quick_cells.h"
#include "sums/sums.h"

namespace ibnn {

// Powers are not for hardtanh, whose kinks they cannot follow.
template <Sigma kind> struct FastSums : QuickCells<kind> {};
template <> struct FastSums<Sigma::hardtanh> {};

// Those of one thread.
template <Sigma kind, class T> class RowSums {
 public:
  // out_i = (1/n) sum_k a_k s_order(z_k - z_i), or of kStretch; no weights are ones.
  void pair_sum(const T* z, const T* weight, long n, int order, T* out) {
    if (!finite_row(z, n) || (weight && !finite_row(weight, n))) return spoil(out, n);
    if (order == kStretch && range(z, n) < kNarrow) return stretch_narrow(z, n, out);
    if constexpr (kQuick)
      if ((order < 2 || order == kStretch) && quick_.set_points(z, weight, !weight, n)) return quick_.sum(order, out);
    c_.resize(n);
    sums_.set_points(widen(z, n, a_), n);
    sums_.sum(weight ? widen(weight, n, b_) : nullptr, order, c_.data());
    std::copy(c_.data(), c_.data() + n, out);
  }

  // (1/n) sum_k s'(z_k - z_i) (v_k - v_i): how the sum of s changes as z moves by v. `dot`, if asked for: v . (the sum of s).
  void bias_change(const T* z, const T* v, long n, T* out, double* dot_out = nullptr) {
    if (!finite_row(z, n) || !finite_row(v, n)) {
      if (dot_out) *dot_out = std::numeric_limits<double>::quiet_NaN();
      return spoil(out, n);
    }
    if constexpr (kQuick)
      if (quick_.set_points(z, v, true, n)) {
        if (dot_out) *dot_out = quick_.dot();
        return quick_.change(out);
      }
    c_.resize(n), d_.resize(n);
    sums_.set_points(widen(z, n, a_), n);
    widen(v, n, b_);
    if (dot_out) {
      sums_.sum(nullptr, 0, c_.data());
      *dot_out = 0;
      for (long i = 0; i < n; ++i) *dot_out += b_[i] * c_[i];
    }
    sums_.sum(nullptr, 1, c_.data());
    sums_.sum(b_.data(), 1, d_.data());
    for (long i = 0; i < n; ++i) out[i] = static_cast<T>(d_[i] - c_[i] * b_[i]);
  }

  void step(const StepTask<T>& task, long row) {
    const long n = task.units;
    const T* y = task.y + row * n;
    T *z = task.z + row * n, *scaled = task.scaled ? task.scaled + row * n : row_for(n);
    const T slope = static_cast<T>(task.slope), lam = static_cast<T>(task.lam);
    for (long i = 0; i < n; ++i) scaled[i] = slope * y[i];
    pair_sum(scaled, nullptr, n, 0, z);
    for (long i = 0; i < n; ++i) z[i] = y[i] - lam * z[i];
  }

  void step_gradient(const StepGradientTask<T>& task, long row) {
    const long n = task.units;
    const T *z = task.z + row * n, *g = task.g + row * n, c = static_cast<T>(task.strength);
    T* v = task.v + row * n;
    bias_change(z, g, n, v, task.dots + row);
    for (long i = 0; i < n; ++i) v[i] = g[i] - c * v[i];
  }

 private:
  static constexpr bool kQuick = kind != Sigma::hardtanh && sizeof(T) == 4;
  UnitSums<terms<T>> sums_{kind};
  FastSums<kind> quick_;
  Array<double> a_, b_, c_, d_;
  Array<T> row_;

  // Sums of s' times differences keep the digits of a row that has next to no range, as sums of x s'(x) do those of a wide one.
  static constexpr double kNarrow = 2;
  void stretch_narrow(const T* z, long n, T* out) {
    T* from_first = row_for(n);
    for (long i = 0; i < n; ++i) from_first[i] = z[i] - z[0];
    bias_change(z, from_first, n, out);
  }

  T* row_for(long n) {
    row_.resize(n);
    return row_.data();
  }

  static const double* widen(const T* x, long n, Array<double>& buffer) {
    buffer.resize(n);
    std::copy(x, x + n, buffer.data());
    return buffer.data();
  }
};

template <Sigma kind, class T> RowSums<kind, T>& row_sums() {
  static thread_local RowSums<kind, T> sums;
  return sums;
}

}  // namespace ibnn
