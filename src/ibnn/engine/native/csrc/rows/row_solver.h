// One row at a time, uniform weights, and its buffers: moments where it is narrow, nodes where they serve, else the units.
#pragma once
#include <limits>
#include <vector>

#include "rows/narrow.h"
#include "nodes/node_solver.h"
#include "basics/row_values.h"
#include "sums/sorted_hardtanh.h"
#include "rows/tiny.h"
#include "rows/unit_newton.h"
#include "rows/unit_order.h"

namespace ibnn {

// Whatever the sigma, hardtanh never comes to the nodes (its kinks spoil the splines).
template <Sigma kind> struct FastRows : NodeSolver<kind> {};
template <> struct FastRows<Sigma::hardtanh> {};

// Solvers and buffers of one thread.
template <Sigma kind, class T> struct Rows {
  static constexpr bool on_nodes = kind != Sigma::hardtanh;
  UnitNewton<UnitSums<terms<T>>> newton{kind};
  UnitNewton<UnitSums<terms<double>>> finer{kind};  // for floats near the threshold, or strongly coupled
  UnitNewton<SortedHardtanh, T> hard{kind};
  UnitNewton<SortedHardtanh> finer_hard{kind};  // where T is not enough for its linear systems
  FastRows<kind> nodes;
  Tiny<kind> tiny;
  Narrow<kind> narrow;
  Array<double> a, b, c, d;
  Array<T> row, near_one, in_order;
  Array<float> y32, z32;
  UnitOrder<T> order;

  // slope * (x - origin); x itself where that is all the same.
  const T* scaled(const T* x, long n, T slope, T origin) {
    if (slope == T(1) && origin == T(0)) return x;
    row.resize(n);
    T* out = row.data();
    in_chunks(n, [=](long first, long end) {
      for (long i = first; i < end; ++i) out[i] = slope * (x[i] - origin);
    });
    return out;
  }

  // The unit nearest to 0, where all are within a factor of 2 of it and differences are therefore exact; else 0. Far from 0
  // a product with the slope would cost a narrow row its digits.
  static T origin_of(T low, T high) {
    if (low > 0 && high <= 2 * low) return low;
    return high < 0 && low >= 2 * high ? high : T(0);
  }

  const double* widen(const T* x, long n, Array<double>& buffer) {
    buffer.resize(n);
    copy_row(x, n, buffer.data());
    return buffer.data();
  }

  // slope * z solves the equation of slope * y. The accuracy asked for is atol, or the share `resolution` of the spread
  // if that is less (and not 0), both after the slope. For c > 0 what J makes of an error counts, too; and the spread as
  // 1 or 2 at most: over more than that sigma varies.
  Outcome find_roots(const T* y, long n, const Ends<T>& ends, double slope, double strength, double atol, double resolution,
                     T* z) {
    Outcome out;
    const double spread = ends.range();
    const double near = resolution * std::min(strength > 0 ? 1.0 : 2.0, slope * spread);
    if (narrow.find_roots(y, n, spread, strength, slope, z, &out)) return out;
    const T p = static_cast<T>(slope);
    const T origin = origin_of(ends.low, ends.high);
    if (!std::isfinite(p * (ends.low - origin)) || !std::isfinite(p * (ends.high - origin))) {
      spoil(z, n);
      return {std::numeric_limits<double>::infinity(), 0, false};
    }
    const T* wide = scaled(y, n, p, origin);
    // Sums of floats, and so the nodes, cannot tell residuals apart below this; B is at most 1, and the spread of z.
    const double spread_of_z = slope * spread / (strength > 0 && strength < 1 ? 1 - strength : 1);
    const double noise = sizeof(T) == 4 ? 2e-8 * std::fabs(strength) * std::min(1.0, spread_of_z) : 0;
    out = find_scaled(wide, n, strength, near > 0 ? std::min(atol, near) : atol, noise, z);
    // The mean of z is that of y (see pack_newton.h): what a residual leaves in it is taken away if it is more than rounding.
    double shift = strength < 0 ? sum_of_changes(wide, z, n) / static_cast<double>(n) : 0;
    if (std::fabs(shift) <= 4 * std::numeric_limits<T>::epsilon() * slope * spread) shift = 0;
    out.residual += std::fabs(shift);
    if (p != T(1) || origin != T(0) || shift != 0)
      in_chunks(n, [=](long first, long end) {
        for (long i = first; i < end; ++i) z[i] = origin + static_cast<T>(z[i] - shift) / p;
      });
    return out;
  }

  static double sum_of_changes(const T* from, const T* to, long n) {
    return sum_of_chunks(n, [=](long first, long end) {
      double sum = 0;
      for (long i = first; i < end; ++i) sum += to[i] - from[i];
      return sum;
    });
  }

  Outcome find_scaled(const T* y, long n, double strength, double atol, double noise, T* z) {
    Outcome out;
    bool begun = false;  // whether z has a starting point
    // For c > 0 an error of z is up to 1 / (1 - c) times the residual.
    const double tol = atol * (strength > 0 && strength < 1 ? 1 - strength : 1);
    if (on_nodes && strength < 1) {
      if (n <= Tiny<kind>::most) {
        if (find_tiny(y, n, strength, tol, z, &out)) return out;
      } else if (tol >= noise) {
        if (find_on_nodes(y, n, strength, atol, z, &out)) return out;
        begun = true;
      }
    }
    if (kind == Sigma::hardtanh && strength < 1 && find_in_order(y, n, strength, tol, z, &out)) return out;
    const double* wide = widen(y, n, a);
    widen(begun ? z : y, n, c);
    const int before = out.steps;
    out = tol < 5 * noise ? finer.find_roots(wide, n, strength, tol, c.data())
                          : newton.find_roots(wide, n, strength, tol, c.data());
    out.steps += before;
    copy_row(c.data(), n, z);
    return out;
  }

  // hardtanh below the threshold: z is in the order of y, so sorting once is enough.
  bool find_in_order(const T* y, long n, double strength, double tol, T* z, Outcome* out) {
    a.resize(n), in_order.resize(n), near_one.resize(n);
    order.sort(y, n);
    order.gather(y, n, in_order.data());
    const T share = T(1) / static_cast<T>(n);
    normal_guess_by<T>(in_order.data(), [=](long) { return share; }, n, static_cast<T>(strength), near_one.data());
    widen(in_order.data(), n, a), widen(near_one.data(), n, c);
    if (quick_hardtanh(strength)) *out = hard.find_roots(a.data(), n, strength, tol, c.data());
    if (sizeof(T) == 4 && !(out->solved && quick_hardtanh(strength)))
      *out = finer_hard.find_roots(a.data(), n, strength, tol, c.data());
    if (out->solved) order.scatter(c.data(), n, z);
    return out->solved;
  }

  bool find_tiny(const T* y, long n, double strength, double tol, T* z, Outcome* out) {
    const double* wide = widen(y, n, a);
    c.resize(n);
    if (!tiny.find_roots(wide, n, strength, tol, c.data(), out)) return false;
    std::copy(c.data(), c.data() + n, z);
    return true;
  }

  // True if the nodes solved the row; otherwise z is where to start. A double row takes their answer for that.
  bool find_on_nodes(const T* y, long n, double strength, double atol, T* z, Outcome* out) {
    if constexpr (on_nodes && sizeof(T) == 4) {
      if (nodes.find_roots(y, n, static_cast<float>(strength), static_cast<float>(atol), z, &out->residual, &out->steps))
        return true;
    } else if constexpr (on_nodes) {
      y32.resize(n), z32.resize(n);
      copy_row(y, n, y32.data());
      const float rough = 2e-6f * (1 + static_cast<float>(std::fabs(strength)));
      if (finite_row(y32.data(), n) && nodes.find_roots(y32.data(), n, static_cast<float>(strength), rough, z32.data(),
                                                        &out->residual, &out->steps)) {
        in_chunks(n, [&](long first, long end) {
          for (long i = first; i < end; ++i) z[i] = y[i] + (static_cast<double>(z32[i]) - y32[i]);
        });
        return false;
      }
    }
    copy_row(y, n, z);
    return false;
  }

  // J v = g, and v . B; `range` is that of z, `size` that of g. Returns an estimate of the relative error of v.
  double solve_jacobian(const T* z, const T* g, long n, double range, double size, double strength, T* v, double* dot_out) {
    double error;
    if (narrow.solve_jacobian(z, g, n, range, strength, v, dot_out, &error)) return error;
    int exponent;
    if (!std::frexp(size, &exponent)) {
      copy_row(g, n, v);
      return 0;
    }
    if (std::abs(exponent) <= 30) return solve_scaled(z, g, n, strength, v, dot_out);
    // Squares of numbers far from 1 would under- or overflow.
    near_one.resize(n);
    in_chunks(n, [&](long first, long end) {
      for (long i = first; i < end; ++i) near_one[i] = std::ldexp(g[i], -exponent);
    });
    error = solve_scaled(z, near_one.data(), n, strength, v, dot_out);
    in_chunks(n, [=](long first, long end) {
      for (long i = first; i < end; ++i) v[i] = std::ldexp(v[i], exponent);
    });
    *dot_out = std::ldexp(*dot_out, exponent);
    return error;
  }

  double solve_scaled(const T* z, const T* g, long n, double strength, T* v, double* dot_out) {
    if (n <= Tiny<kind>::most && strength < 1) {
      c.resize(n);
      if (tiny.solve_jacobian(widen(z, n, a), widen(g, n, b), n, strength, c.data(), dot_out)) {
        std::copy(c.data(), c.data() + n, v);
        return 0;  // factorised in double
      }
    }
    if constexpr (on_nodes && sizeof(T) == 4) {
      double residual;
      if (n > Tiny<kind>::most && strength < 1 && nodes.solve_jacobian(z, g, n, static_cast<float>(strength), v, &residual, dot_out))
        return residual;
    }
    a.resize(n), b.resize(n), c.resize(n), d.resize(n);
    const double rtol = sizeof(T) == 4 ? 5e-6 : 1e-12;  // of floats 1e-4 is promised
    auto solve_by = [&](auto& units, const auto* rhs, auto* x) {
      const double error = units.solve_jacobian(a.data(), rhs, n, strength, rtol, x);
      units.potential(d.data());
      *dot_out = dot(d.data(), x, n);
      return error;
    };
    if (kind == Sigma::hardtanh) {
      in_order.resize(n), row.resize(n);
      order.sort(z, n);
      order.gather(z, n, a.data());
      double error = std::numeric_limits<double>::infinity();
      if (quick_hardtanh(strength)) {
        order.gather(g, n, in_order.data());
        error = solve_by(hard, in_order.data(), row.data());
        order.scatter(row.data(), n, v);
      }
      if (sizeof(T) == 4 && !(error <= 4 * rtol)) {
        order.gather(g, n, b.data());
        error = solve_by(finer_hard, b.data(), c.data());
        order.scatter(c.data(), n, v);
      }
      return error;
    }
    widen(z, n, a), widen(g, n, b);
    const double error =
        strength > 0.98 || strength < -100 ? solve_by(finer, b.data(), c.data()) : solve_by(newton, b.data(), c.data());
    copy_row(c.data(), n, v);
    return error;
  }

  // Whether linear systems of a row may be solved in T: the condition of J, 1 - c or 1 / (1 - c), times a rounding is to be
  // well below the 5e-6 that they are solved to.
  static bool quick_hardtanh(double strength) { return sizeof(T) == 8 || (strength > -8 && strength < 0.96); }
};

template <Sigma kind, class T> Rows<kind, T>& buffers() {
  static thread_local Rows<kind, T> rows;
  return rows;
}

// Rows come and go in units of the caller: slope times them (1 without a slope) is what is solved. The accuracy asked
// for is atol, or the share `resolution` of the row's range if that is less (and not 0).
template <Sigma kind, class T>
void find_roots_of_row(const T* y, double strength, double atol, double slope, long n, double resolution, T* z,
                       double* residual, int* steps, bool* solved) {
  Outcome out;
  Ends<T> ends;
  if (!finite_row(y, n, &ends) || !std::isfinite(strength) || !std::isfinite(slope))
    out = {std::numeric_limits<double>::infinity(), 0, false}, spoil(z, n);
  else if (strength == 0 || n < 2)
    std::copy(y, y + n, z);
  else
    out = buffers<kind, T>().find_roots(y, n, ends, slope, strength, atol, resolution, z);
  *residual = out.residual, *steps = out.steps, *solved = out.solved;
}

template <Sigma kind, class T>
void solve_jacobian_of_row(const T* z, const T* g, double strength, long n, T* v, double* error, double* dot) {
  *error = *dot = 0;
  Ends<T> ends, ends_of_g;
  if (!finite_row(z, n, &ends) || !finite_row(g, n, &ends_of_g) || !std::isfinite(strength)) {
    spoil(v, n);
    *error = std::numeric_limits<double>::infinity();
    *dot = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  if (n < 2) return copy_row(g, n, v);
  *error = buffers<kind, T>().solve_jacobian(z, g, n, ends.range(), ends_of_g.size(), strength, v, dot);
}

}  // namespace ibnn
