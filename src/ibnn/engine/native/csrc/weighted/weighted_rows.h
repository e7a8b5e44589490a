// Rows coupled by a window or a matrix, in the units of the caller: scaled, counted from a place near 0, solved, and back.
//
// Floats are solved as floats where that is enough, and otherwise, or if it fails, as doubles.
#pragma once
#include <atomic>

#include "weighted/matrix_table.h"
#include "weighted/pair_newton.h"
#include "basics/tasks.h"
#include "basics/threads.h"

namespace ibnn {

// The solver and buffers of one thread.
template <template <Sigma, class> class Table, Sigma kind, class T> class WeightedRows {
 public:
  WeightedRows& with(const Weights<T>& weights, long call) {
    weights_ = &weights, call_ = call;
    return *this;
  }

  void find_roots(const RootTask<T>& task, long row) {
    const long n = task.units;
    const T* y = task.y + row * n;
    T* z = task.z + row * n;
    const double c = task.strength[row], slope = task.slope[row];
    Outcome out;
    if (!finite_row(y, n) || !std::isfinite(c) || !std::isfinite(2 * slope * size_of(y, n))) {
      spoil(z, n);
      out = {std::numeric_limits<double>::infinity(), 0, false};
    } else {
      std::copy(y, y + n, z);
      if (n > 1 && c != 0 && range(y, n) > 0) out = find(y, n, c, slope, task.atol[row], task.resolution, z);
    }
    task.residual[row] = out.residual, task.steps[row] = out.steps, task.solved[row] = out.solved;
  }

  void solve_jacobian(const JacobianTask<T>& task, long row) {
    const long n = task.units;
    const T *z = task.z + row * n, *g = task.g + row * n;
    T* v = task.v + row * n;
    double c = task.strength[row], error = 0, dot = 0;
    if (!finite_row(z, n) || !finite_row(g, n) || !std::isfinite(c) || !std::isfinite(2 * size_of(z, n))) {
      spoil(v, n);
      error = std::numeric_limits<double>::infinity(), dot = std::numeric_limits<double>::quiet_NaN();
    } else {
      std::copy(g, g + n, v);
      if (n > 1 && size_of(g, n) > 0) {
        if constexpr (sizeof(T) == 4)
          if (!(solve<float>(z, g, n, c, v, &error, &dot) <= kAllowed) || size_of(v, n) > kLargest * size_of(g, n))
            solve<double>(z, g, n, c, v, &error, &dot);
        if constexpr (sizeof(T) == 8) solve<double>(z, g, n, c, v, &error, &dot);
        if (c == 0) std::copy(g, g + n, v), error = 0;
      }
    }
    task.error[row] = error;
    task.dots[row] = dot;
  }

 private:
  template <class R> using Solver = PairNewton<Table<kind, R>, kind, R>;
  static constexpr double kAllowed = 3e-5;  // of the relative error of v as floats
  static constexpr double kLargest = 100;   // the rounding of c as a float, 6e-8, is enlarged in v as g is
  // Of a contracting row's range, which is at least y's over the largest eigenvalue of J: 1e-3 is promised.
  static constexpr double kContracted = 3e-4;
  const Weights<T>* weights_ = nullptr;
  long call_ = 0, prepared_ = 0, prepared_fine_ = 0;
  Solver<T> solver_;
  Solver<double> finer_;

  template <class R> Solver<R>& solver(long n) {
    if constexpr (std::is_same_v<R, T>)
      return made_ready(solver_, &prepared_, n);
    else
      return made_ready(finer_, &prepared_fine_, n);
  }
  template <class S> S& made_ready(S& solver, long* prepared, long n) {
    if (*prepared != call_) solver.table.prepare(*weights_);
    *prepared = call_;
    solver.resize(n);
    return solver;
  }

  // A row after the slope, counted from a place in it.
  struct Scale {
    double low, high, slope, origin = 0;
    double reach() const { return slope * (high - low); }
    // The middle, if sigma is to keep the digits of small differences, or if e^(2 z) would not fit its type otherwise; else
    // the place of the row that is nearest to 0.
    template <class R> Scale counted_for() const {
      const double nearest = nearest_to_zero(), farthest = slope * std::max(high - nearest, nearest - low);
      const bool centered = reach() <= kClose || (farthest > 0.4 * kUsual<R> && reach() <= 0.9 * kUsual<R>);
      return {low, high, slope, centered ? 0.5 * low + 0.5 * high : nearest};
    }
    double nearest_to_zero() const { return low > 0 ? low : (high < 0 ? high : 0); }
  };
  static Scale scale_of(const T* x, long n, double slope) {
    T low, high;
    ends_of(x, n, &low, &high);
    return {static_cast<double>(low), static_cast<double>(high), slope};
  }

  // Multiplies by a power of two that may be outside the doubles.
  struct Power {
    double first, second;
    explicit Power(int exponent) : first(std::ldexp(1.0, exponent / 2)), second(std::ldexp(1.0, exponent - exponent / 2)) {}
    double times(double x) const { return x * first * second; }
  };

  // The accuracy asked for is atol, or the share `resolution` of the range if that is less (and not 0).
  Outcome find(const T* y, long n, double c, double slope, double atol, double resolution, T* z) {
    const Scale scale = scale_of(y, n, slope);
    const double reach = scale.reach(), stiffest = 1 - 2 * c * solver<T>(n).table.total;
    const double near = c > 0 ? resolution * std::min(1.0, reach) : std::min(resolution, kContracted / stiffest) * reach;
    const double asked = near > 0 ? std::min(atol, near) : atol;
    int before = 0;
    if constexpr (sizeof(T) == 4) {
      // What rounding leaves of B must not be seen in z, nor must that of units that are nearer to 0 than the origin.
      const double ulp = std::numeric_limits<float>::epsilon(), total = solver<float>(n).table.total;
      const double moved = std::fabs(scale.template counted_for<float>().origin - scale.nearest_to_zero());
      if (ulp * std::max(std::fabs(c) * total * std::min(1.0, reach), slope * moved) <= atol && reach < 1e30 &&
          std::fabs(c) < 1e30) {
        const Outcome out = attempt<float>(y, n, c, scale, asked, z);
        if (out.solved) return out;
        before = out.steps;
        // The rounding of floats may have parted equal units, and have been followed down from there.
        if (kFalls<kind>) std::copy(y, y + n, z);
      }
    }
    Outcome out = attempt<double>(y, n, c, scale, asked, z);
    out.steps += before;
    return out;
  }

  // z is where it starts, and the solution then.
  template <class R> Outcome attempt(const T* y, long n, double c, const Scale& scale, double asked, T* z) {
    auto& newton = solver<R>(n);
    const double origin = scale.template counted_for<R>().origin, slope = scale.slope;
    const double widened = c > 0 ? c * newton.table.total : 0;
    // s is linear to a rounding within this range: a narrower row is solved as one that has it, or squares would underflow.
    constexpr double linear = sizeof(R) == 4 ? 0x1p-14 : 0x1p-27;
    int exponent = 0;
    if (scale.reach() < linear && 2 * widened < 0.95) std::frexp(linear / scale.reach(), &exponent);
    const Power up(exponent), down(-exponent);
    R *from = newton.y(), *at = newton.z();
    for (long i = 0; i < n; ++i) from[i] = static_cast<R>(up.times(slope * (y[i] - origin)));
    for (long i = 0; i < n; ++i) at[i] = static_cast<R>(up.times(slope * (z[i] - origin)));
    const R low = static_cast<R>(up.times(slope * (scale.low - origin)) - widened);
    const R high = static_cast<R>(up.times(slope * (scale.high - origin)) + widened);
    Outcome out = newton.find_roots(static_cast<R>(c), static_cast<R>(up.times(asked)), low, high);
    for (long i = 0; i < n; ++i) z[i] = static_cast<T>(origin + down.times(at[i]) / slope);
    out.residual = down.times(out.residual);
    return out;
  }

  template <class R> double solve(const T* z, const T* g, long n, double c, T* v, double* error, double* dot) {
    auto& newton = solver<R>(n);
    const double origin = scale_of(z, n, 1).template counted_for<R>().origin;
    int exponent;
    std::frexp(size_of(g, n), &exponent);
    const Power up(exponent), down(-exponent);  // squares of numbers far from 1 would under- or overflow
    R *at = newton.z(), *rhs = newton.y(), *found = newton.v();
    for (long i = 0; i < n; ++i) at[i] = static_cast<R>(z[i] - origin);
    for (long i = 0; i < n; ++i) rhs[i] = static_cast<R>(down.times(g[i]));
    *error = newton.solve_jacobian(static_cast<R>(c), dot);
    for (long i = 0; i < n; ++i) v[i] = static_cast<T>(up.times(found[i]));
    *dot = up.times(*dot);
    return *error;
  }
};

// A new number for every call: what a thread has prepared for one does not serve another.
inline long next_call() {
  static std::atomic<long> calls{0};
  return ++calls;
}

template <template <Sigma, class> class Table, Sigma kind, class T> WeightedRows<Table, kind, T>& weighted_rows() {
  static thread_local WeightedRows<Table, kind, T> rows;
  return rows;
}

// Nanoseconds, about: a dozen sums over half of the pairs.
template <class T> double cost_of_row(const Weights<T>& weights) {
  return 3.0 * static_cast<double>(weights.map.total() * weights.neighbors());
}

template <Sigma kind, class T> int find_weighted_roots(const RootTask<T>& task, const Weights<T>& weights, int threads) {
  const long call = next_call();
  return for_each(task.rows, threads, cost_of_row(weights), [&](long row) {
    if (weights.is_matrix())
      weighted_rows<MatrixTable, kind, T>().with(weights, call).find_roots(task, row);
    else
      weighted_rows<WindowTable, kind, T>().with(weights, call).find_roots(task, row);
  });
}

template <Sigma kind, class T>
int solve_weighted_jacobian(const JacobianTask<T>& task, const Weights<T>& weights, int threads) {
  const long call = next_call();
  return for_each(task.rows, threads, cost_of_row(weights), [&](long row) {
    if (weights.is_matrix())
      weighted_rows<MatrixTable, kind, T>().with(weights, call).solve_jacobian(task, row);
    else
      weighted_rows<WindowTable, kind, T>().with(weights, call).solve_jacobian(task, row);
  });
}

}  // namespace ibnn
