// Entry points: sums over pairs with uniform weights, and the explicit step that is made of them.
#include "explicit.h"

#define IBNN_SUM_ENTRY_POINTS(T, suffix)                                                                              \
  extern "C" int ibnn_pair_sum_##suffix(const T* z, const T* a, long rows, long n, int order, int sigma, T* out,      \
                                        int threads) {                                                                \
    return ibnn::with_sigma(                                                                                          \
        sigma, [=](auto kind) { return ibnn::pair_sum<kind.value, T>(z, a, rows, n, order, out, threads); });         \
  }                                                                                                                   \
  extern "C" int ibnn_bias_change_##suffix(const T* z, const T* v, long rows, long n, int sigma, T* out, int threads) { \
    return ibnn::with_sigma(                                                                                          \
        sigma, [=](auto kind) { return ibnn::bias_change<kind.value, T>(z, v, rows, n, out, threads); });             \
  }                                                                                                                   \
  extern "C" int ibnn_explicit_step_##suffix(const T* y, long rows, long n, double lam, double slope, int sigma, T* z, \
                                             T* scaled, int threads) {                                                \
    const ibnn::StepTask<T> task{rows, n, y, lam, slope, z, scaled};                                                  \
    return ibnn::with_sigma(sigma, [&](auto kind) { return ibnn::explicit_step<kind.value, T>(task, threads); });     \
  }                                                                                                                   \
  extern "C" int ibnn_explicit_gradient_##suffix(const T* z, const T* g, long rows, long n, double strength, int sigma, \
                                                 T* v, double* dots, int threads) {                                   \
    const ibnn::StepGradientTask<T> task{rows, n, z, g, strength, v, dots};                                           \
    return ibnn::with_sigma(sigma, [&](auto kind) { return ibnn::explicit_gradient<kind.value, T>(task, threads); }); \
  }

IBNN_SUM_ENTRY_POINTS(float, f32)
IBNN_SUM_ENTRY_POINTS(double, f64)
