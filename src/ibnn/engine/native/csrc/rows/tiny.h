// Rows of a few units: every pair summed, J factorised on the stack. No grid or tree pays off there.
#pragma once
#include <algorithm>
#include <cmath>

#include "basics/sigma.h"
#include "rows/unit_newton.h"

namespace ibnn {

template <Sigma kind> class Tiny {
 public:
  static constexpr long most = 12;

  // False: not solved (J was not positive definite, or the steps ran out): take the general way.
  bool find_roots(const double* y, long n, double c, double tol, double* z, Outcome* out) {
    n_ = n, c_ = c;
    std::copy(y, y + n, z);
    double size = evaluate(y, z);
    for (out->steps = 0; largest(r_, n) > tol; ++out->steps) {
      if (out->steps == 60 || !factorise()) return false;
      double step[most], trial[most];
      for (long i = 0; i < n; ++i) step[i] = -r_[i];
      solve(step);
      // -J^-1 r always lowers |r|, if the step is short enough
      double t = 1, next = 0;
      for (int halvings = 0;; ++halvings, t *= 0.5) {
        for (long i = 0; i < n; ++i) trial[i] = z[i] + t * step[i];
        next = evaluate(y, trial);
        if (next <= (1 - 1e-4 * t) * size) break;
        if (halvings == 40) return false;
      }
      std::copy(trial, trial + n, z);
      size = next;
    }
    out->residual = largest(r_, n), out->solved = true;
    return true;
  }

  // J v = g, and v . B; false where J is not positive definite.
  bool solve_jacobian(const double* z, const double* g, long n, double c, double* v, double* dot_out) {
    n_ = n, c_ = c;
    evaluate(z, z);
    if (!factorise()) return false;
    std::copy(g, g + n, v);
    solve(v);
    *dot_out = 0;
    for (long i = 0; i < n; ++i) *dot_out += v[i] * bias_[i];
    return true;
  }

 private:
  long n_ = 0;
  double c_ = 0;
  double r_[most], bias_[most], slope_[most][most], factor_[most][most];

  // The residual (its size comes back) and the slopes s'(z_k - z_i) / D.
  double evaluate(const double* y, const double* z) {
    const double share = 1.0 / static_cast<double>(n_);
    std::fill(bias_, bias_ + n_, 0.0);
    for (long i = 0; i < n_; ++i)
      for (long k = 0; k < i; ++k) {
        const double x = z[k] - z[i], s = share * Nonlinearity<kind>::value(x);
        bias_[i] += s, bias_[k] -= s;
        slope_[i][k] = share * Nonlinearity<kind>::slope(x);
      }
    double sum = 0;
    for (long i = 0; i < n_; ++i) {
      r_[i] = above_rounding(z[i] - y[i] + c_ * bias_[i], y[i]);
      sum += r_[i] * r_[i];
    }
    return std::sqrt(sum);
  }

  // J = L L^T.
  bool factorise() {
    for (long i = 0; i < n_; ++i) factor_[i][i] = 1;
    for (long i = 0; i < n_; ++i)
      for (long k = 0; k < i; ++k) {
        const double entry = c_ * slope_[i][k];
        factor_[i][k] = entry;
        factor_[i][i] -= entry, factor_[k][k] -= entry;
      }
    for (long i = 0; i < n_; ++i)
      for (long k = 0; k <= i; ++k) {
        double sum = factor_[i][k];
        for (long m = 0; m < k; ++m) sum -= factor_[i][m] * factor_[k][m];
        if (i == k && !(sum > 1e-12)) return false;
        factor_[i][k] = i == k ? std::sqrt(sum) : sum / factor_[k][k];
      }
    return true;
  }

  void solve(double* x) const {
    for (long i = 0; i < n_; ++i) {
      for (long k = 0; k < i; ++k) x[i] -= factor_[i][k] * x[k];
      x[i] /= factor_[i][i];
    }
    for (long i = n_ - 1; i >= 0; --i) {
      for (long k = i + 1; k < n_; ++k) x[i] -= factor_[k][i] * x[k];
      x[i] /= factor_[i][i];
    }
  }
};

}  // namespace ibnn
