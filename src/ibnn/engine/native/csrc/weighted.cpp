// Entry points of the compiled CPU engine: solves with a window or a matrix of weights.
//
// Compiled beside engine.cpp at the same time, which halves how long the first use of the library takes.
#include "weighted/weighted_rows.h"

namespace ibnn {

// A map and its window as three numbers each, or null and null for a matrix.
template <class T> Weights<T> weights_of(const T* weight, long n, const long* units, const long* window) {
  if (!window) return {weight, {{1, 1, n}}, {{0, 0, 0}}};
  return {weight, {{units[0], units[1], units[2]}}, {{window[0], window[1], window[2]}}};
}

}  // namespace ibnn

#define IBNN_ENTRY_POINTS(T, suffix)                                                                                  \
  extern "C" int ibnn_find_weighted_roots_##suffix(                                                                   \
      const T* y, const double* strength, const double* atol, const double* slope, long rows, long n, long step,      \
      const T* weight, const long* units, const long* window, double resolution, int sigma, T* z, double* residual,   \
      int* steps, bool* solved, int threads) {                                                                        \
    const ibnn::RootTask<T> task{rows, n, y, {strength, step}, {atol, step}, {slope, step},                           \
                                 resolution, z, residual, steps, solved};                                             \
    const auto weights = ibnn::weights_of(weight, n, units, window);                                                  \
    return ibnn::with_pair_sigma(                                                                                     \
        sigma, [&](auto kind) { return ibnn::find_weighted_roots<kind.value>(task, weights, threads); });             \
  }                                                                                                                   \
  extern "C" int ibnn_solve_weighted_jacobian_##suffix(                                                               \
      const T* z, const T* g, const double* strength, long rows, long n, long step, const T* weight,                  \
      const long* units, const long* window, int sigma, T* v, double* error, double* dots, int threads) {             \
    const ibnn::JacobianTask<T> task{rows, n, z, g, {strength, step}, v, error, dots};                                \
    const auto weights = ibnn::weights_of(weight, n, units, window);                                                  \
    return ibnn::with_pair_sigma(                                                                                     \
        sigma, [&](auto kind) { return ibnn::solve_weighted_jacobian<kind.value>(task, weights, threads); });         \
  }

IBNN_ENTRY_POINTS(float, f32)
IBNN_ENTRY_POINTS(double, f64)
