// The safe solver of a row: Newton on the units themselves, conjugate gradients inside, O(D) sums, all in double.
//
// Below the threshold the energy is strictly convex and its gradient is r(z) = z + c G(z) - y, so the line search needs
// no energy: it looks for a zero of r(z + t step) . step, which grows with t. Above the threshold nothing is promised:
// the best z found is returned with its residual. No row takes more than kMostSums sums.
#pragma once
#include <limits>

#include "basics/row_values.h"
#include "sums/sums.h"

namespace ibnn {

inline double dot(const double* a, const double* b, long n) {
  return sum_of_chunks(n, [=](long first, long end) {
    double s = 0;
    for (long i = first; i < end; ++i) s += a[i] * b[i];
    return s;
  });
}

inline double largest(const double* a, long n) { return size_of(a, n); }

// A residual, or 0 where it is only the rounding of its own unit: else that of one unit at 1e11 would hide how well the
// others are solved.
inline double above_rounding(double residual, double y) {
  return std::fabs(residual) <= 4 * std::numeric_limits<double>::epsilon() * std::fabs(y) ? 0 : residual;
}

// Sums: set_points(z, n), sum(a, order, out); begin() a row; admit(z, n), which mends points it could not take.
template <class Sums> class UnitNewton {
 public:
  explicit UnitNewton(Sigma kind) : sums_(kind) {}

  // z holds the starting point and receives the best point found. tol bounds max |r|.
  Outcome find_roots(const double* y, long n, double c, double tol, double* z) {
    y_ = y, n_ = n, c_ = c, taken_ = 0;
    for (auto* a : {&r_, &trial_, &trial_r_, &step_, &diag_, &best_}) a->resize(n);
    Outcome out;
    sums_.begin();
    sums_.admit(z, n);
    residual(z, r_.data());
    double best = largest(r_.data(), n);
    copy_row(z, n, best_.data());
    int stalled = 0;
    // Far from the solution the energy falls while the largest residual does not, for up to 60 steps (256 units, lam = -5,
    // slope 1000).
    while (out.steps < max_steps && taken_ < kMostSums && best > tol && stalled < (best < 100 * tol ? 3 : 90)) {
      newton_direction(tol);
      advance(z);
      ++out.steps;
      const double now = largest(r_.data(), n);
      stalled = now < 0.9 * best ? 0 : stalled + 1;
      if (now < best) {
        best = now;
        copy_row(z, n, best_.data());
      }
    }
    copy_row(best_.data(), n, z);
    out.residual = best;
    out.solved = best <= tol;
    return out;
  }

  // J v = g; returns the relative error of v that its true residual speaks of (see error_from), rtol if all went well.
  // Leaves G(z) readable by potential().
  double solve_jacobian(const double* z, const double* g, long n, double c, double rtol, double* v) {
    n_ = n, c_ = c, taken_ = 0;
    diag_.resize(n), r_.resize(n);
    sums_.begin();
    sums_.set_points(z, n);
    slopes();
    conjugate_gradients(g, v, rtol, 500);
    apply(v, r_.data());
    each([&](long i) { r_[i] -= g[i]; });
    return std::sqrt(error_from(r_.data()) / std::max(1e-300, dot(v, v, n)));
  }
  int sums_taken() const { return taken_; }
  void potential(double* out) { sums_.sum(nullptr, 0, out); }

 private:
  static constexpr int max_steps = 100;
  static constexpr int kMostSums = 2000;
  long n_ = 0;
  int taken_ = 0;
  double c_ = 0;
  const double* y_ = nullptr;
  Sums sums_;
  Array<double> r_, trial_, trial_r_, step_, diag_, inverse_, best_, density_, cg_r_, cg_p_, cg_q_;

  template <class Job> void each(Job job) const {
    in_chunks(n_, [&](long first, long end) {
      for (long i = first; i < end; ++i) job(i);
    });
  }

  void residual(const double* z, double* r) {
    sums_.set_points(z, n_);
    sums_.sum(nullptr, 0, r);
    ++taken_;
    each([&](long i) { r[i] = above_rounding(z[i] - y_[i] + c_ * r[i], y_[i]); });
  }

  void slopes() {
    density_.resize(n_), inverse_.resize(n_);
    sums_.sum(nullptr, 1, density_.data());
    ++taken_;
    each([&](long i) {
      const double entry = 1 - c_ * density_[i] + c_ / static_cast<double>(n_);
      diag_[i] = entry > 0 ? entry : 1;  // above the threshold: it preconditions, and must be positive
      inverse_[i] = 1 / diag_[i];
    });
  }

  void apply(const double* v, double* out) {
    sums_.sum(v, 1, out);
    ++taken_;
    each([&](long i) { out[i] = v[i] + c_ * (out[i] - density_[i] * v[i]); });
  }

  // The sums still stand at the current z: residual() was the last to place the points there.
  void newton_direction(double tol) {
    slopes();
    each([&](long i) { trial_r_[i] = -r_[i]; });
    const double size = largest(r_.data(), n_);
    const double rtol = std::min(0.03, std::max(1e-9, std::max(0.1 * tol / size, 0.03 * std::min(1.0, size))));
    conjugate_gradients(trial_r_.data(), step_.data(), rtol, 200);
  }

  void advance(double* z) {
    const double start = dot(r_.data(), step_.data(), n_);
    double t = 1, low = 0, high = -1, at_low = start, at_high = 0;
    for (int k = 0;; ++k) {
      each([&](long i) { trial_[i] = z[i] + t * step_[i]; });
      sums_.admit(trial_.data(), n_);
      residual(trial_.data(), trial_r_.data());
      const double here = dot(trial_r_.data(), step_.data(), n_);
      const bool overshoot = here > 0.3 * std::fabs(start);
      const bool undershoot = high > 0 && here < -0.3 * std::fabs(start);
      if (k >= 40 || taken_ >= kMostSums || !(overshoot || undershoot)) break;
      if (overshoot)
        high = t, at_high = here;
      else
        low = t, at_low = here;
      // Regula falsi kept away from the ends of its bracket, so that it shrinks by a tenth at least.
      double share = at_low < 0 ? at_low / (at_low - at_high) : 0.5;
      t = low + (high - low) * std::min(0.9, std::max(0.1, share));
    }
    copy_row(trial_.data(), n_, z);
    copy_row(trial_r_.data(), n_, r_.data());
  }

  // The square of the error that a residual of J x = b leaves in x. No eigenvalue of J is below 1 for c < 0; for c > 0 J is
  // near its diagonal where that is small.
  double error_from(const double* r) const {
    return sum_of_chunks(n_, [&](long first, long end) {
      double sum = 0;
      for (long i = first; i < end; ++i) {
        const double error = r[i] * std::max(1.0, inverse_[i]);
        sum += error * error;
      }
      return sum;
    });
  }

  // What a step of conjugate gradients leaves: |x|^2, the square of its error, r . r with the inverse of J's diagonal.
  struct Advance {
    double size = 0, left = 0, rho = 0;
    void operator+=(const Advance& next) { size += next.size, left += next.left, rho += next.rho; }
  };

  // Until the error of x is the share rtol of it.
  void conjugate_gradients(const double* b, double* x, double rtol, int limit) {
    for (auto* a : {&cg_r_, &cg_p_, &cg_q_}) a->resize(n_);
    double *r = cg_r_.data(), *p = cg_p_.data(), *q = cg_q_.data();
    const double* inverse = inverse_.data();
    double rho = sum_of_chunks(n_, [=](long first, long end) {
      double sum = 0;
      for (long i = first; i < end; ++i) {
        x[i] = 0, r[i] = b[i];
        p[i] = r[i] * inverse[i];
        sum += r[i] * p[i];
      }
      return sum;
    });
    double left = error_from(r), size = 0;
    for (int k = 0; k < limit && taken_ < kMostSums && left > rtol * rtol * size; ++k) {
      apply(p, q);
      const double curvature = dot(p, q, n_);
      if (!(curvature > 0)) {  // above the threshold: keep what there is, or the plain gradient
        if (k == 0) copy_row(b, n_, x);
        return;
      }
      const double alpha = rho / curvature;
      const Advance to = sum_of_chunks(n_, [=](long first, long end) {
        Advance here;
        for (long i = first; i < end; ++i) {
          const double at = x[i] + alpha * p[i], rest = r[i] - alpha * q[i], error = rest * std::max(1.0, inverse[i]);
          x[i] = at, r[i] = rest;
          here.size += at * at, here.left += error * error, here.rho += rest * rest * inverse[i];
        }
        return here;
      });
      left = to.left, size = to.size;
      const double beta = to.rho / rho;
      rho = to.rho;
      each([=](long i) { p[i] = r[i] * inverse[i] + beta * p[i]; });
    }
  }
};

}  // namespace ibnn
