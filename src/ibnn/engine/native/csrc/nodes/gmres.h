// GMRES for the small systems on nodes (not symmetric: the quadrature weights may be slightly negative).
#pragma once
#include <cmath>

#include "basics/checked.h"

namespace ibnn {

inline double dot(const float* a, const float* b, long n) {
  float s = 0;
  for (long i = 0; i < n; ++i) s += a[i] * b[i];
  return s;
}

class Gmres {
 public:
  // x = 0 on entry is assumed; apply(v, out) is the operator. Returns |b - A x| / |b| as the recurrence sees it.
  template <class Apply> double solve(const float* b, float* x, long n, double rtol, Apply apply) {
    basis_.resize((kDepth + 1) * n);
    for (long i = 0; i < n; ++i) x[i] = 0;
    const double size = std::sqrt(dot(b, b, n));
    if (!(size > 0)) return 0;
    scaled(b, 1 / size, basis_.slot(0, n), n);
    double g[kDepth + 1] = {size}, cosine[kDepth], sine[kDepth];
    int k = 0;
    while (k < kDepth && std::fabs(g[k]) > rtol * size) {
      float* next = basis_.slot((k + 1) * n, n);
      apply(basis_.slot(k * n, n), next);
      double* h = hessenberg_[k];
      // Classical Gram-Schmidt: its products do not wait for each other, and a dozen vectors stay orthogonal enough.
      for (int j = 0; j <= k; ++j) h[j] = dot(next, basis_.slot(j * n, n), n);
      for (int j = 0; j <= k; ++j) {
        const float* v = basis_.slot(j * n, n);
        const float hj = static_cast<float>(h[j]);
        for (long i = 0; i < n; ++i) next[i] -= hj * v[i];
      }
      double below = std::sqrt(dot(next, next, n));
      if (below > 0) scaled(next, 1 / below, next, n);
      for (int j = 0; j < k; ++j) {
        const double t = cosine[j] * h[j] + sine[j] * h[j + 1];
        h[j + 1] = -sine[j] * h[j] + cosine[j] * h[j + 1];
        h[j] = t;
      }
      const double r = std::sqrt(h[k] * h[k] + below * below);
      if (!(r > 0)) break;
      cosine[k] = h[k] / r, sine[k] = below / r;
      h[k] = r;
      g[k + 1] = -sine[k] * g[k];
      g[k] *= cosine[k];
      ++k;
      if (!(below > 1e-7 * r)) break;
    }
    combine(g, k, x, n);
    return std::fabs(g[k]) / size;
  }

 private:
  static constexpr int kDepth = 40;
  Array<float> basis_;
  double hessenberg_[kDepth][kDepth + 1];

  static void scaled(const float* a, double factor, float* out, long n) {
    const float f = static_cast<float>(factor);
    for (long i = 0; i < n; ++i) out[i] = f * a[i];
  }

  void combine(double* g, int k, float* x, long n) {
    for (int j = k - 1; j >= 0; --j) {
      for (int l = j + 1; l < k; ++l) g[j] -= hessenberg_[l][j] * g[l];
      g[j] /= hessenberg_[j][j];
      const float* v = basis_.slot(j * n, n);
      const float f = static_cast<float>(g[j]);
      for (long i = 0; i < n; ++i) x[i] += f * v[i];
    }
  }
};

}  // namespace ibnn
