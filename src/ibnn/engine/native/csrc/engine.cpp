// Entry points of the compiled CPU engine: weighted sums, and solves with uniform weights. Plain C interface for ctypes.
#include "uniform.h"
#include "weighted/weighted_pairs.h"

namespace ibnn {

template <class T>
int window_sum(const T* z, const T* a, long rows, long n, const T* taps, const long* units, const long* window,
               int order, Apply<T> s, T* out, int threads) {
  const Extent map{{units[0], units[1], units[2]}}, kernel{{window[0], window[1], window[2]}};
  return for_each(rows, threads, static_cast<double>(n * kernel.total()), [=](long row) {
    static thread_local WindowSum<T> sums;
    sums.sum(z + row * n, a ? a + row * n : nullptr, map, taps, kernel, order, s, out + row * n);
  });
}

template <class T>
int matrix_sum(const T* z, const T* a, long rows, long n, const T* weight, Apply<T> s, T* out, int threads) {
  return for_each(rows, threads, static_cast<double>(n * n), [=](long row) {
    static thread_local MatrixSum<T> sums;
    sums.sum(z + row * n, a ? a + row * n : nullptr, weight, n, s, out + row * n);
  });
}

}  // namespace ibnn

#define IBNN_ENTRY_POINTS(T, suffix)                                                                                  \
  extern "C" int ibnn_window_sum_##suffix(const T* z, const T* a, long rows, long n, const T* taps,                   \
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
                                          const double* slope, long rows, long n, long step, double resolution,       \
                                          int sigma, T* z, double* residual, int* steps, bool* solved,                \
                                          bool* unique, int threads) {                                                \
    const ibnn::RootTask<T> task{rows, n, y, {strength, step}, {atol, step}, {slope, step},                           \
                                 resolution, z, residual, steps, solved, unique};                                     \
    return ibnn::with_sigma(sigma, [&](auto kind) { return ibnn::find_roots<kind.value, T>(task, threads); });        \
  }                                                                                                                   \
  extern "C" int ibnn_solve_jacobian_##suffix(const T* z, const T* g, const double* strength, long rows, long n,      \
                                              long step, int sigma, T* v, double* error, double* dots,                \
                                              int threads) {                                                          \
    const ibnn::JacobianTask<T> task{rows, n, z, g, {strength, step}, v, error, dots};                                \
    return ibnn::with_sigma(sigma, [&](auto kind) { return ibnn::solve_jacobian<kind.value, T>(task, threads); });    \
  }

IBNN_ENTRY_POINTS(float, f32)
IBNN_ENTRY_POINTS(double, f64)

// Parallel regions that solves of any kind have begun so far.
extern "C" long ibnn_regions_begun() { return ibnn::regions_begun; }

// 1 in the build with checked arrays (which then stops at the wrong index), 0 otherwise.
extern "C" int ibnn_index_outside() {
#ifdef IBNN_CHECKED
  return ibnn::for_each(1, 1, 0, [](long) {
    ibnn::Array<float> three;
    three.resize(3);
    three[3] = 0;
  });
#else
  return 0;
#endif
}
