// Newton's method with conjugate gradients for one row whose units are coupled in pairs. The sums come from a table.
//
// r(z) = z + c B(z) - y is the gradient of the energy. Where that is known to be convex a step is judged by
// r(z + t step) . step, which grows with t; where it may not be, by the size of r, and once a direction of negative curvature
// was met (above the threshold), by the energy itself, so that what is found is a minimum and not a saddle. An s that falls
// has no primitive to make an energy of: there a bound says that it has not grown, from the first step on.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "weighted/pair_energy.h"
#include "basics/row_values.h"
#include "weighted/window_table.h"

namespace ibnn {

// Sums of products, in double: a share of 1e-7 of squares as small as those of 1e-30 are to count.
template <class T> double dot_of(const T* a, const T* b, long n) {
  double sum = 0;
  for (long i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// Table: evaluate(z, reach) sets bias and degree; product(v, out); for_each_pair(f); total (see WindowTable).
template <class Table, Sigma kind, class T> class PairNewton {
 public:
  Table table;
  T* y() { return y_.data(); }       // in
  T* z() { return best_z_.data(); }  // in: the start; out: the solution; in of solve_jacobian: where J stands
  T* v() { return step_.data(); }    // out of solve_jacobian

  void resize(long n) {
    n_ = n;
    for (auto* a : {&y_, &z_, &best_z_, &r_, &step_, &trial_, &scale_, &cg_r_, &cg_p_, &cg_q_}) {
      a->resize(padded<T>(n));
      std::fill(a->data() + n, a->data() + padded<T>(n), T(0));
    }
  }

  // z is known to be within low and high. Units are counted from a place such that the rule for their reach applies.
  Outcome find_roots(T c, T atol, T low, T high) {
    c_ = c, low_ = low, high_ = high, sums_ = 0, by_energy_ = false;
    convex_ = 2 * taken_by_pairs(table.total) < T(0.95);
    std::copy(best_z_.data(), best_z_.data() + n_, z_.data());
    evaluate(z_.data());
    Outcome out{std::numeric_limits<double>::infinity(), 0, false};
    T best = std::numeric_limits<T>::infinity();
    for (int stalled = 0;; ++out.steps) {
      judge(atol);
      stalled = excess_ < T(0.9) * best ? 0 : stalled + 1;
      if (excess_ < best) {
        best = excess_, out.residual = worst_;
        std::copy(z_.data(), z_.data() + n_, best_z_.data());
      }
      if (excess_ <= 1 && convex_) return settled(out);
      if (!(excess_ < std::numeric_limits<T>::infinity()) || stalled > (best < 100 ? 3 : 40)) return out;
      if (out.steps == kMostSteps || sums_ > kMostSums) return out;
      direction();
      // Equal units stay equal. Where parting them would lower the energy, rounding shows that once the residual is no more
      // than rounding; it is not followed, or ties would be broken by chance.
      const bool tied = kFalls<kind> && indefinite_ && excess_ <= 1;
      if (excess_ <= best && (tied || step_is_small(atol))) return settled(out);
      advance();
    }
  }

  // J v = y at z; `bias_dot` is v . B. Returns an estimate of the relative error of v, from its true residual J v - y: no
  // eigenvalue of J is below 1 for c < 0, and for c > 0 J is near its diagonal where that is small.
  double solve_jacobian(T c, double* bias_dot) {
    c_ = c, sums_ = 0;
    evaluate_at(best_z_.data());
    // |v| may be as little as |y| over the largest eigenvalue of J.
    const T largest = 1 + 2 * std::max(T(0), -c) * table.total;
    conjugate_gradients(y_.data(), std::max(3 * kDigits / largest, T(0.3) * kDigits), 500);
    apply(step_.data(), cg_q_.data());
    double wrong = 0;
    for (long i = 0; i < n_; ++i) {
      const double error = static_cast<double>(cg_q_[i] - y_[i]) * std::max(scale_[i], T(1));
      wrong += error * error;
    }
    *bias_dot = dot_of(step_.data(), table.bias.data(), n_);
    const double size = dot_of(step_.data(), step_.data(), n_);
    const double error = size > 0 ? std::sqrt(wrong / size) : (wrong > 0 ? 1 : 0);
    return indefinite_ ? std::max(1.0, error) : error;  // above the threshold: conjugate gradients have not ended
  }

 private:
  static constexpr int kMostSteps = 100, kMostSums = 2000, kMostHalvings = 30;
  static constexpr T kDigits = sizeof(T) == 4 ? T(1e-6) : T(1e-13);  // of v, about
  static constexpr T kUlp = std::numeric_limits<T>::epsilon();
  long n_ = 0;
  int sums_ = 0;
  bool convex_ = true, indefinite_ = false, by_energy_ = false;
  T c_ = 0, low_ = 0, high_ = 0, worst_ = 0, excess_ = 0, noise_ = 0, softest_ = 1;
  Array<T> y_, z_, best_z_, r_, step_, trial_, scale_, cg_r_, cg_p_, cg_q_;

  // By Gershgorin no eigenvalue of J is below 1 - 2 times this, if the slopes of a unit's pairs sum to `degree` at most. Where
  // s falls they cancel in such a sum, and those below 0 count for c < 0.
  T taken_by_pairs(T degree) const {
    if (!kFalls<kind>) return c_ * degree;
    return (c_ > 0 ? c_ : -c_ * T(kSteepestFall)) * table.total;
  }

  void evaluate_at(const T* z) {
    T low, high;
    ends_of(z, n_, &low, &high);
    const T far = std::max(high, -low);
    const Reach reach = far <= T(0.5 * kClose) ? Reach::close : (far <= T(0.5) * kUsual<T> ? Reach::usual : Reach::far);
    table.evaluate(z, reach);
    ++sums_;
    // What rounding leaves of B, which is at most the sum of weights, and that times the range of z.
    noise_ = 2 * kUlp * std::fabs(c_) * table.total * (reach == Reach::close ? std::min(T(1), high - low) : T(1));
    for (long i = 0; i < n_; ++i) {
      const T diagonal = 1 - c_ * table.degree[i];
      scale_[i] = diagonal > 0 ? 1 / diagonal : 1;
    }
  }

  void evaluate(const T* z) {
    evaluate_at(z);
    for (long i = 0; i < n_; ++i) r_[i] = z[i] - y_[i] + c_ * table.bias[i];
  }

  // The largest residual, and that in units of the one allowed: what rounding leaves of each unit is not counted.
  void judge(T atol) {
    T worst = 0, above = 0, densest = 0;
    for (long i = 0; i < n_; ++i) {
      const T size = std::fabs(r_[i]);
      worst = std::max(worst, size);
      above = std::max(above, size - kUlp * std::max(std::fabs(y_[i]), std::fabs(z_[i])));
      densest = std::max(densest, table.degree[i]);
    }
    // A residual is an error of at most itself over the least eigenvalue of J, by Gershgorin at least this.
    const T least = std::min(T(1), std::max(T(0.05), 1 - 2 * taken_by_pairs(densest)));
    worst_ = worst;
    excess_ = above / std::max(atol * least, noise_);
  }

  // Whether z is solved although its residual is not small enough, or although that proves nothing: the step is the error,
  // wherever J hardly changes along it. Where J is stiff, the rounding of z alone leaves a large residual.
  bool step_is_small(T atol) const {
    if (indefinite_ || worst_ > T(0.1) * softest_ || noise_ > atol * softest_) return false;
    for (long i = 0; i < n_; ++i)
      if (std::fabs(step_[i]) > std::max(T(0.5) * atol, kUlp * std::fabs(y_[i]))) return false;
    return true;
  }

  // The mean of z is that of y, since pairs pull in opposite ways. For c < 0 a residual may be little beside y and much
  // beside z, which is narrower: what it leaves in the mean is known, and taken away if it is more than rounding.
  Outcome settled(Outcome out) {
    double shift = 0;
    for (long i = 0; i < n_; ++i) shift += static_cast<double>(best_z_[i]) - static_cast<double>(y_[i]);
    shift /= static_cast<double>(n_);
    out.solved = true;
    if (c_ > 0 || std::fabs(shift) <= 4 * kUlp * (high_ - low_)) return out;
    T worst = 0;
    for (long i = 0; i < n_; ++i) {
      best_z_[i] -= static_cast<T>(shift);
      worst = std::max(worst, std::fabs(r_[i] - static_cast<T>(shift)));
    }
    out.residual = worst;
    return out;
  }

  void direction() {
    for (long i = 0; i < n_; ++i) trial_[i] = -r_[i];
    const T rtol = std::min(std::max(T(0.3) / excess_, T(0.1) * worst_), T(0.1));
    conjugate_gradients(trial_.data(), rtol, 200);
  }

  void advance() {
    if constexpr (kFalls<kind>) {
      if (!convex_) return descend_by_bound();
    } else {
      by_energy_ = by_energy_ || indefinite_;
      if (by_energy_) return descend();
    }
    const double start = dot_of(r_.data(), step_.data(), n_), size = dot_of(r_.data(), r_.data(), n_);
    double t = 1, low = 0, high = -1, at_low = start, at_high = 0;
    for (int k = 0;; ++k) {
      try_step(static_cast<T>(t));
      const double here = dot_of(r_.data(), step_.data(), n_);
      if (k == kMostHalvings || sums_ > kMostSums) break;
      if (!convex_) {
        if (dot_of(r_.data(), r_.data(), n_) <= (1 - 1e-4 * t) * size) break;
        t *= 0.5;
        continue;
      }
      const bool over = here > 0.3 * std::fabs(start), under = high > 0 && here < -0.3 * std::fabs(start);
      if (!over && !under) break;
      if (over)
        high = t, at_high = here;
      else
        low = t, at_low = here;
      // Regula falsi kept away from the ends of its bracket, so that it shrinks by a tenth at least.
      const double share = at_low < 0 ? at_low / (at_low - at_high) : 0.5;
      t = low + (high - low) * std::min(0.9, std::max(0.1, share));
    }
    std::copy(trial_.data(), trial_.data() + n_, z_.data());
  }

  // z + t step with the first t = 1, 1/2, ... that lowers the energy.
  void descend() {
    double terms, unused;
    const double before = energy(z_.data(), &terms), start = dot_of(r_.data(), step_.data(), n_);
    T t = 1;
    for (int k = 0; k < kMostHalvings && sums_ <= kMostSums; ++k, t *= T(0.5)) {
      try_step(t);
      if (energy(trial_.data(), &unused) <= before + 1e-4 * t * start + 4 * kUlp * terms) break;
    }
    std::copy(trial_.data(), trial_.data() + n_, z_.data());
  }

  // z + d, d = t step with the first t = 1, 1/2, ... for which the energy is known to fall. It changes by the integral of
  // r . d, by the trapezoidal rule the mean of both ends but for a twelfth of its second derivative along d; and that is at
  // most |c| / 2 sum over i, k of w |s''| |d_k - d_i|^3 <= 2 |c| total max|s''| (range of d) |d|^2.
  void descend_by_bound() {
    std::copy(r_.data(), r_.data() + n_, cg_r_.data());
    T t = 1;
    for (int k = 0; k < kMostHalvings && sums_ <= kMostSums; ++k, t *= T(0.5)) {
      try_step(t);
      double before = 0, after = 0, square = 0, low = 0, high = 0, rounding = 0;
      for (long i = 0; i < n_; ++i) {
        const double d = static_cast<double>(trial_[i]) - z_[i];
        before += d * cg_r_[i], after += d * r_[i], square += d * d;
        low = std::min(low, d), high = std::max(high, d);
        rounding += std::fabs(d) * (noise_ + kUlp * std::fabs(y_[i]));
      }
      const double bend = std::fabs(c_) * table.total * kMostBend * (high - low) * square / 6;
      if (0.5 * (before + after) + bend <= 1e-4 * before + rounding) break;
    }
    std::copy(trial_.data(), trial_.data() + n_, z_.data());
  }

  void try_step(T t) {
    for (long i = 0; i < n_; ++i) trial_[i] = std::min(std::max(z_[i] + t * step_[i], low_), high_);
    evaluate(trial_.data());
  }

  // Also the size of the terms that it is the difference of.
  double energy(const T* z, double* terms) {
    PairEnergy<kind> pairs;
    table.for_each_pair([&](T weight, long i, long k) { pairs.add(weight, static_cast<double>(z[k]) - z[i]); });
    double distance = 0;
    for (long i = 0; i < n_; ++i) distance += 0.5 * (static_cast<double>(z[i]) - y_[i]) * (static_cast<double>(z[i]) - y_[i]);
    const double coupled = c_ * pairs.total();
    *terms = distance + std::fabs(coupled);
    ++sums_;
    return distance - coupled;
  }

  void apply(const T* v, T* out) {
    table.product(v, out);
    ++sums_;
    for (long i = 0; i < n_; ++i) out[i] = v[i] + c_ * out[i];
  }

  // J step = b to the share rtol of |b|, sizes taken with the inverse of J's diagonal. A direction of negative curvature ends
  // it: what there is by then is kept, or the plain gradient, still a way down the energy.
  void conjugate_gradients(const T* b, T rtol, int limit) {
    T unit = std::numeric_limits<T>::min();
    for (long i = 0; i < n_; ++i) unit = std::max(unit, std::fabs(b[i]));
    // Squares of numbers far from 1 would under- or overflow.
    int exponent;
    std::frexp(unit, &exponent);
    const T up = std::ldexp(T(1), std::min(-exponent, sizeof(T) == 4 ? 126 : 1022)), down = 1 / up;
    double rho = 0;
    softest_ = 1, indefinite_ = false;
    for (long i = 0; i < n_; ++i) {
      step_[i] = 0, cg_r_[i] = up * b[i], cg_p_[i] = cg_r_[i] * scale_[i];
      rho += static_cast<double>(cg_r_[i] * cg_p_[i]);
    }
    const double goal = static_cast<double>(rtol) * rtol * rho;
    for (int k = 0; k < limit && rho > goal; ++k) {
      apply(cg_p_.data(), cg_q_.data());
      double curvature = 0, length = 0;
      for (long i = 0; i < n_; ++i)
        curvature += static_cast<double>(cg_p_[i] * cg_q_[i]), length += static_cast<double>(cg_p_[i] * cg_p_[i]);
      softest_ = std::min(softest_, static_cast<T>(curvature / length));
      if (!(curvature > 0)) {
        indefinite_ = true;
        if (k == 0) std::copy(cg_r_.data(), cg_r_.data() + n_, step_.data());
        break;
      }
      const T alpha = static_cast<T>(rho / curvature);
      double next = 0;
      for (long i = 0; i < n_; ++i) {
        step_[i] += alpha * cg_p_[i];
        cg_r_[i] -= alpha * cg_q_[i];
        next += static_cast<double>(cg_r_[i] * cg_r_[i] * scale_[i]);
      }
      const T beta = static_cast<T>(next / rho);
      rho = next;
      for (long i = 0; i < n_; ++i) cg_p_[i] = cg_r_[i] * scale_[i] + beta * cg_p_[i];
    }
    for (long i = 0; i < n_; ++i) step_[i] *= down;
  }
};

}  // namespace ibnn
