// Entry points of the compiled CPU engine: rows in parallel, plain C interface for ctypes.
#include <limits>
#include <vector>

#include "weighted_pairs.h"
#include "node_solver.h"
#include "tiny.h"
#include "unit_newton.h"

#ifdef _OPENMP
#include <omp.h>
#endif

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

// Runs job(row) for all rows; 0, or 1 if a checked array was indexed outside.
template <class Job> int for_rows(long rows, int threads, Job job) {
  int failed = 0;
  (void)threads;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 4) num_threads(threads) reduction(| : failed) if (threads > 1 && rows > 1)
#endif
  for (long row = 0; row < rows; ++row) {
    try {
      job(row);
    } catch (const std::exception&) {
      failed |= 1;
    }
  }
  return failed;
}

template <class T> void spoil(T* z, long n) { std::fill(z, z + n, std::numeric_limits<T>::quiet_NaN()); }

template <Sigma kind, class T> Rows<kind, T>& buffers() {
  static thread_local Rows<kind, T> rows;
  return rows;
}

template <Sigma kind, class T>
int pair_sum(const T* z, const T* a, long rows, long n, int order, T* out, int threads) {
  return for_rows(rows, threads, [=](long row) {
    const T* zr = z + row * n;
    const T* ar = a ? a + row * n : nullptr;
    if (!finite_row(zr, n) || (ar && !finite_row(ar, n))) return spoil(out + row * n, n);
    buffers<kind, T>().pair_sum(zr, ar, n, order, out + row * n);
  });
}

// Rows come and go in units of the caller: slope times them (1 without a slope) is what is solved. The accuracy asked
// for is atol, or the share `resolution` of the row's range if that is less (and not 0).
template <Sigma kind, class T>
int find_roots(const T* y, const double* strength, const double* atol, const double* slope, long rows, long n,
               double resolution, T* z, double* residual, int* steps, bool* solved, int threads) {
  return for_rows(rows, threads, [=](long row) {
    T* zr = z + row * n;
    const T p = slope ? static_cast<T>(slope[row]) : T(1);
    const T* yr = buffers<kind, T>().scaled(y + row * n, n, p);
    residual[row] = 0, steps[row] = 0, solved[row] = true;
    if (!finite_row(yr, n) || !std::isfinite(strength[row])) {
      spoil(zr, n);
      residual[row] = std::numeric_limits<double>::infinity(), solved[row] = false;
      return;
    }
    if (strength[row] == 0 || n < 2) {
      std::copy(y + row * n, y + (row + 1) * n, zr);
      return;
    }
    std::copy(yr, yr + n, zr);
    const double near = resolution * range(yr, n);
    const double wanted = near > 0 ? std::min(atol[row], near) : atol[row];
    const Outcome out = buffers<kind, T>().find_roots(yr, n, strength[row], wanted, zr);
    residual[row] = out.residual, steps[row] = out.steps, solved[row] = out.solved;
    if (p != T(1))
      for (long i = 0; i < n; ++i) zr[i] /= p;
  });
}

template <Sigma kind, class T>
int solve_jacobian(const T* z, const T* g, const double* strength, long rows, long n, T* v, double* residual,
                   double* dots, int threads) {
  return for_rows(rows, threads, [=](long row) {
    const T *zr = z + row * n, *gr = g + row * n;
    T* vr = v + row * n;
    residual[row] = 0;
    if (dots) dots[row] = 0;
    if (!finite_row(zr, n) || !finite_row(gr, n) || !std::isfinite(strength[row])) {
      spoil(vr, n);
      residual[row] = std::numeric_limits<double>::infinity();
      if (dots) dots[row] = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    std::copy(gr, gr + n, vr);
    if (n < 2 || (strength[row] == 0 && !dots)) return;
    residual[row] = buffers<kind, T>().solve_jacobian(zr, gr, n, strength[row], vr, dots ? dots + row : nullptr);
  });
}

template <class T>
int window_sum(const T* z, const T* a, long rows, long n, const T* taps, const long* units, const long* window,
               int order, Apply<T> s, T* out, int threads) {
  const Extent map{{units[0], units[1], units[2]}}, kernel{{window[0], window[1], window[2]}};
  return for_rows(rows, threads, [=](long row) {
    static thread_local WindowSum<T> sums;
    sums.sum(z + row * n, a ? a + row * n : nullptr, map, taps, kernel, order, s, out + row * n);
  });
}

template <class T>
int matrix_sum(const T* z, const T* a, long rows, long n, const T* weight, Apply<T> s, T* out, int threads) {
  return for_rows(rows, threads, [=](long row) {
    static thread_local MatrixSum<T> sums;
    sums.sum(z + row * n, a ? a + row * n : nullptr, weight, n, s, out + row * n);
  });
}

// Calls f with the nonlinearity as a compile-time constant.
template <class F> int with_sigma(int sigma, F f) {
  switch (static_cast<Sigma>(sigma)) {
    case Sigma::tanh: return f(std::integral_constant<Sigma, Sigma::tanh>());
    case Sigma::hardtanh: return f(std::integral_constant<Sigma, Sigma::hardtanh>());
    case Sigma::arctan: return f(std::integral_constant<Sigma, Sigma::arctan>());
    case Sigma::erf: return f(std::integral_constant<Sigma, Sigma::erf>());
  }
  return 2;
}

}  // namespace ibnn

#define IBNN_ENTRY_POINTS(T, suffix)                                                                                  \
  extern "C" int ibnn_pair_sum_##suffix(const T* z, const T* a, long rows, long n, int order, int sigma, T* out,      \
                                        int threads) {                                                                \
    return ibnn::with_sigma(                                                                                          \
        sigma, [=](auto kind) { return ibnn::pair_sum<kind.value, T>(z, a, rows, n, order, out, threads); });         \
  }                                                                                                                   \
  extern "C" int ibnn_window_sum_##suffix(const T* z, const T* a, long rows, long n, const T* taps,                    \
                                          const long* units, const long* window, int order, int sigma, T* out,        \
                                          int threads) {                                                              \
    return ibnn::with_sigma(sigma, [=](auto kind) {                                                                   \
      return ibnn::window_sum(z, a, rows, n, taps, units, window, order, ibnn::derivative_of<kind.value, T>(order),   \
                              out, threads);                                                                          \
    });                                                                                                               \
  }                                                                                                                   \
  extern "C" int ibnn_matrix_sum_##suffix(const T* z, const T* a, long rows, long n, const T* weight, int order,      \
                                          int sigma, T* out, int threads) {                                           \
    return ibnn::with_sigma(sigma, [=](auto kind) {                                                                   \
      return ibnn::matrix_sum(z, a, rows, n, weight, ibnn::derivative_of<kind.value, T>(order), out, threads);        \
    });                                                                                                               \
  }                                                                                                                   \
  extern "C" int ibnn_find_roots_##suffix(const T* y, const double* strength, const double* atol,                     \
                                          const double* slope, long rows, long n, double resolution, int sigma, T* z, \
                                          double* residual, int* steps, bool* solved, int threads) {                  \
    return ibnn::with_sigma(sigma, [=](auto kind) {                                                                   \
      return ibnn::find_roots<kind.value, T>(y, strength, atol, slope, rows, n, resolution, z, residual, steps,       \
                                             solved, threads);                                                        \
    });                                                                                                               \
  }                                                                                                                   \
  extern "C" int ibnn_solve_jacobian_##suffix(const T* z, const T* g, const double* strength, long rows, long n,      \
                                              int sigma, T* v, double* residual, double* dots, int threads) {         \
    return ibnn::with_sigma(sigma, [=](auto kind) {                                                                   \
      return ibnn::solve_jacobian<kind.value, T>(z, g, strength, rows, n, v, residual, dots, threads);                \
    });                                                                                                               \
  }

IBNN_ENTRY_POINTS(float, f32)
IBNN_ENTRY_POINTS(double, f64)

// 1 in the build with checked arrays (which then stops at the wrong index), 0 otherwise.
extern "C" int ibnn_index_outside() {
#ifdef IBNN_CHECKED
  return ibnn::for_rows(1, 1, [](long) {
    ibnn::Array<float> three;
    three.resize(3);
    three[3] = 0;
  });
#else
  return 0;
#endif
}
