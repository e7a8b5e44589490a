// One row at a time, uniform weights: nodes where they serve, the units themselves otherwise; and its buffers.
#pragma once
#include <limits>
#include <vector>

#include "node_solver.h"
#include "tiny.h"
#include "unit_newton.h"

namespace ibnn {

// Terms of the Chebyshev moments of a cell: enough for the type the caller works in.
template <class T> constexpr int terms = sizeof(T) == 4 ? 10 : 18;

// By the bits: the compiler is allowed to reorder sums, so arithmetic with NaN and inf would prove nothing.
inline double range(const float* x, long n) {
  float low, high;
  range_of(x, n, &low, &high);
  return static_cast<double>(high) - low;
}
inline double range(const double* x, long n) {
  const auto ends = std::minmax_element(x, x + n);
  return *ends.second - *ends.first;
}

template <class T> bool finite_row(const T* x, long n) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr Bits exponent = sizeof(T) == 4 ? Bits(0x7f800000) : Bits(0x7ff0000000000000);
  Bits bad = 0;
  for (long i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, x + i, sizeof(T));
    bad |= (bits & exponent) == exponent;
  }
  return bad == 0;
}

// Whatever the sigma, hardtanh never comes to the nodes (its kinks spoil the splines).
template <Sigma kind> struct FastRows : NodeSolver<kind> {};
template <> struct FastRows<Sigma::hardtanh> {};

// Solvers and buffers of one thread.
template <Sigma kind, class T> struct Rows {
  static constexpr bool on_nodes = kind != Sigma::hardtanh;
  UnitSums<terms<T>> sums{kind};
  UnitNewton<terms<T>> newton{kind};
  FastRows<kind> nodes;
  Tiny<kind> tiny;
  Array<double> a, b, c, d;
  Array<T> row;
  Array<float> y32, z32;
  Array<T> in_order;
  std::vector<std::pair<T, long>> order;

  // slope * x; x itself where that is all the same.
  const T* scaled(const T* x, long n, T slope) {
    if (slope == T(1)) return x;
    row.resize(n);
    T* out = row.data();
    for (long i = 0; i < n; ++i) out[i] = slope * x[i];
    return out;
  }

  const double* widen(const T* x, long n, Array<double>& buffer) {
    buffer.resize(n);
    std::copy(x, x + n, buffer.data());
    return buffer.data();
  }

  void pair_sum(const T* z, const T* weight, long n, int order, T* out) {
    c.resize(n);
    sums.set_points(widen(z, n, a), n);
    sums.sum(weight ? widen(weight, n, b) : nullptr, order, c.data());
    std::copy(c.data(), c.data() + n, out);
  }

  Outcome find_roots(const T* y, long n, double strength, double atol, T* z) {
    Outcome out;
    // For c > 0 an error of z is up to 1 / (1 - c) times the residual.
    const double tol = atol * (strength > 0 && strength < 1 ? 1 - strength : 1);
    if (on_nodes && strength < 1) {
      if (n <= Tiny<kind>::most) {
        if (find_tiny(y, n, strength, tol, z, &out)) return out;
      } else if (find_on_nodes(y, n, strength, atol, z, &out)) {
        return out;
      }
    }
    if (kind == Sigma::hardtanh) sort_units(y, n);
    const double* wide = widen(kind == Sigma::hardtanh ? in_order.data() : y, n, a);
    widen(kind == Sigma::hardtanh ? in_order.data() : z, n, c);
    const double floor = 4 * largest(wide, n) * std::numeric_limits<double>::epsilon();
    const int before = out.steps;
    out = newton.find_roots(wide, n, strength, std::max(tol, floor), c.data());
    out.steps += before;
    if (kind == Sigma::hardtanh)
      for (long i = 0; i < n; ++i) z[order[i].second] = static_cast<T>(c[i]);
    else
      std::copy(c.data(), c.data() + n, z);
    return out;
  }

  bool find_tiny(const T* y, long n, double strength, double tol, T* z, Outcome* out) {
    const double* wide = widen(y, n, a);
    const double floor = 4 * largest(wide, n) * std::numeric_limits<double>::epsilon();
    c.resize(n);
    if (!tiny.find_roots(wide, n, strength, std::max(tol, floor), c.data(), out)) return false;
    std::copy(c.data(), c.data() + n, z);
    return true;
  }

  // hardtanh sums need sorted units; the solution keeps their order, so sorting once is enough.
  void sort_units(const T* y, long n) {
    order.resize(n), in_order.resize(n);
    for (long i = 0; i < n; ++i) order[i] = {y[i], i};
    std::sort(order.begin(), order.end());
    for (long i = 0; i < n; ++i) in_order[i] = order[i].first;
  }

  // True if the nodes solved the row. A double row takes their answer as its starting point.
  bool find_on_nodes(const T* y, long n, double strength, double atol, T* z, Outcome* out) {
    if constexpr (on_nodes && sizeof(T) == 4) {
      if (nodes.find_roots(y, n, static_cast<float>(strength), static_cast<float>(atol), z, &out->residual, &out->steps))
        return true;
      std::copy(y, y + n, z);
    } else if constexpr (on_nodes) {
      y32.resize(n), z32.resize(n);
      std::copy(y, y + n, y32.data());
      const float rough = 2e-6f * (1 + static_cast<float>(std::fabs(strength)));
      if (finite_row(y32.data(), n) && nodes.find_roots(y32.data(), n, static_cast<float>(strength), rough, z32.data(),
                                                        &out->residual, &out->steps))
        for (long i = 0; i < n; ++i) z[i] = y[i] + (static_cast<double>(z32[i]) - y32[i]);
    }
    return false;
  }

  double solve_jacobian(const T* z, const T* g, long n, double strength, T* v, double* dot_out) {
    if (n <= Tiny<kind>::most && strength < 1) {
      c.resize(n);
      if (tiny.solve_jacobian(widen(z, n, a), widen(g, n, b), n, strength, c.data(), dot_out)) {
        std::copy(c.data(), c.data() + n, v);
        return 0;
      }
    }
    if constexpr (on_nodes && sizeof(T) == 4) {
      double residual;
      if (n > Tiny<kind>::most && strength < 1 && nodes.solve_jacobian(z, g, n, static_cast<float>(strength), v, &residual, dot_out))
        return residual;
    }
    c.resize(n), d.resize(n);
    const double rtol = sizeof(T) == 4 ? 1e-6 : 1e-12;
    const double residual = newton.solve_jacobian(widen(z, n, a), widen(g, n, b), n, strength, rtol, c.data());
    if (dot_out) {
      newton.potential(d.data());
      *dot_out = dot(c.data(), d.data(), n);
    }
    std::copy(c.data(), c.data() + n, v);
    return residual;
  }
};

template <class T> void spoil(T* z, long n) { std::fill(z, z + n, std::numeric_limits<T>::quiet_NaN()); }

template <Sigma kind, class T> Rows<kind, T>& buffers() {
  static thread_local Rows<kind, T> rows;
  return rows;
}

// Rows come and go in units of the caller: slope times them (1 without a slope) is what is solved. The accuracy asked
// for is atol, or the share `resolution` of the row's range if that is less (and not 0).
template <Sigma kind, class T>
void find_roots_of_row(const T* y, double strength, double atol, double slope, long n, double resolution, T* z,
                       double* residual, int* steps, bool* solved) {
  const T p = static_cast<T>(slope);
  const T* yr = buffers<kind, T>().scaled(y, n, p);
  *residual = 0, *steps = 0, *solved = true;
  if (!finite_row(yr, n) || !std::isfinite(strength)) {
    spoil(z, n);
    *residual = std::numeric_limits<double>::infinity(), *solved = false;
    return;
  }
  if (strength == 0 || n < 2) {
    std::copy(y, y + n, z);
    return;
  }
  std::copy(yr, yr + n, z);
  const double near = resolution * range(yr, n);
  const Outcome out = buffers<kind, T>().find_roots(yr, n, strength, near > 0 ? std::min(atol, near) : atol, z);
  *residual = out.residual, *steps = out.steps, *solved = out.solved;
  if (p != T(1))
    for (long i = 0; i < n; ++i) z[i] /= p;
}

template <Sigma kind, class T>
void solve_jacobian_of_row(const T* z, const T* g, double strength, long n, T* v, double* residual, double* dot) {
  *residual = 0;
  if (dot) *dot = 0;
  if (!finite_row(z, n) || !finite_row(g, n) || !std::isfinite(strength)) {
    spoil(v, n);
    *residual = std::numeric_limits<double>::infinity();
    if (dot) *dot = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  std::copy(g, g + n, v);
  if (n < 2 || (strength == 0 && !dot)) return;
  *residual = buffers<kind, T>().solve_jacobian(z, g, n, strength, v, dot);
}

}  // namespace ibnn
