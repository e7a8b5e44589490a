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

template <class T> double dot(const double* a, const T* b, long n) {
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

// Sums: set_points(z, n), sum(a, order, out); admit(z, n), which mends points it could not take; product(v, density, c, out),
// which is J v and returns v . out. Linear systems are solved in Number: floats where that is all that is asked for.
template <class Sums, class Number = double> class UnitNewton {
 public:
  explicit UnitNewton(Sigma kind) : sums_(kind) {}

  // z holds the starting point and receives the best point found. tol bounds max |r|.
  Outcome find_roots(const double* y, long n, double c, double tol, double* z) {
    y_ = y, n_ = n, c_ = c, taken_ = 0;
    for (auto* a : {&r_, &trial_, &trial_r_, &best_}) a->resize(n);
    Outcome out;
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
  double solve_jacobian(const double* z, const Number* g, long n, double c, double rtol, Number* v) {
    n_ = n, c_ = c, taken_ = 0;
    sums_.set_points(z, n);
    slopes();
    conjugate_gradients(g, v, rtol, 500);
    Number* r = cg_r_.data();
    apply(v, r);
    const auto size = sum_of_chunks(n, [=](long first, long end) {
      Number sum = 0;
      for (long i = first; i < end; ++i) r[i] -= g[i], sum += v[i] * v[i];
      return sum;
    });
    return std::sqrt(error_from(r) / std::max(1e-300, static_cast<double>(size)));
  }
  void potential(double* out) { sums_.sum(nullptr, 0, out); }

 private:
  static constexpr int max_steps = 100;
  static constexpr int kMostSums = 2000;
  static constexpr double kFinest = sizeof(Number) == 4 ? 3e-6 : 1e-9;  // relative error of a step
  long n_ = 0;
  int taken_ = 0;
  double c_ = 0;
  const double* y_ = nullptr;
  Sums sums_;
  Array<double> r_, trial_, trial_r_, best_, slopes_;
  Array<Number> rhs_, step_, density_, inverse_, cg_r_, cg_p_, cg_q_;

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
    for (auto* a : {&density_, &inverse_, &cg_r_, &cg_p_, &cg_q_}) a->resize(n_);
    slopes_.resize(n_);
    sums_.sum(nullptr, 1, slopes_.data());
    ++taken_;
    each([&](long i) {
      const double entry = 1 - c_ * slopes_[i] + c_ / static_cast<double>(n_);
      density_[i] = static_cast<Number>(slopes_[i]);
      // Above the threshold: it preconditions, and must be positive.
      inverse_[i] = static_cast<Number>(entry > 0 ? 1 / entry : 1);
    });
  }

  // out = J v; returns v . out.
  double apply(const Number* v, Number* out) {
    ++taken_;
    return sums_.product(v, density_.data(), c_, out);
  }

  // The sums still stand at the current z: residual() was the last to place the points there.
  void newton_direction(double tol) {
    slopes();
    rhs_.resize(n_), step_.resize(n_);
    // Floats in units of the largest residual, whose square might be nothing.
    const double size = largest(r_.data(), n_), unit = sizeof(Number) == 4 ? size : 1;
    each([&](long i) { rhs_[i] = static_cast<Number>(-r_[i] / unit); });
    const double rtol = std::min(0.03, std::max(kFinest, std::max(0.1 * tol / size, 0.03 * std::min(1.0, size))));
    conjugate_gradients(rhs_.data(), step_.data(), rtol, 200);
    if (unit != 1) each([&](long i) { step_[i] *= static_cast<Number>(unit); });
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
  double error_from(const Number* r) const {
    return sum_of_chunks(n_, [&](long first, long end) {
      Number sum = 0;
      for (long i = first; i < end; ++i) {
        const Number error = r[i] * std::max(Number(1), inverse_[i]);
        sum += error * error;
      }
      return static_cast<double>(sum);
    });
  }

  // What a step of conjugate gradients leaves: |x|^2, the square of its error, r . r with the inverse of J's diagonal.
  struct Advance {
    double size = 0, left = 0, rho = 0;
    void operator+=(const Advance& next) { size += next.size, left += next.left, rho += next.rho; }
  };

  // Until the error of x is the share rtol of it.
  void conjugate_gradients(const Number* b, Number* x, double rtol, int limit) {
    Number *r = cg_r_.data(), *p = cg_p_.data(), *q = cg_q_.data();
    const Number* inverse = inverse_.data();
    Advance now = sum_of_chunks(n_, [=](long first, long end) {
      Number left = 0, rho = 0;
      for (long i = first; i < end; ++i) {
        const Number error = b[i] * std::max(Number(1), inverse[i]);
        x[i] = 0, r[i] = b[i];
        p[i] = b[i] * inverse[i];
        left += error * error, rho += b[i] * p[i];
      }
      return Advance{0, left, rho};
    });
    for (int k = 0; k < limit && taken_ < kMostSums && now.left > rtol * rtol * now.size; ++k) {
      const double curvature = apply(p, q);
      if (!(curvature > 0)) {  // above the threshold: keep what there is, or the plain gradient
        if (k == 0) copy_row(b, n_, x);
        return;
      }
      const Number alpha = static_cast<Number>(now.rho / curvature);
      const Advance to = sum_of_chunks(n_, [=](long first, long end) {
        Number size = 0, left = 0, rho = 0;
        for (long i = first; i < end; ++i) {
          const Number at = x[i] + alpha * p[i], rest = r[i] - alpha * q[i], error = rest * std::max(Number(1), inverse[i]);
          x[i] = at, r[i] = rest;
          size += at * at, left += error * error, rho += rest * rest * inverse[i];
        }
        return Advance{size, left, rho};
      });
      const Number beta = static_cast<Number>(to.rho / now.rho);
      now = to;
      each([=](long i) { p[i] = r[i] * inverse[i] + beta * p[i]; });
    }
  }
};

}  // namespace ibnn
