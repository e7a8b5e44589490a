// Newton's method with conjugate gradients for a pack of rows, a row in each lane. The sums come from a table of its units.
//
// Below the threshold the energy is strictly convex with gradient r(z) = z + c G(z) - y, so a step is judged by
// r(z + t step) . step, which grows with t. Each lane stops by itself, and what happens in it depends on its own row only.
#pragma once
#include <limits>

#include "basics/checked.h"
#include "basics/packs.h"

namespace ibnn {

template <class T> struct PackFound {
  Pack<T> residual, steps;
  Mask<T> solved;
};

// Table: evaluate(z) sets bias and degree; product(v, share, out); admit(y, c, z) mends a trial point; kNoise, kPositive.
template <class Table, class T> class PackNewton {
 public:
  Table table;
  using V = Pack<T>;
  using M = Mask<T>;
  using Found = PackFound<T>;

  V* y() { return y_.data(); }       // in: the rows, unit by unit
  V* z() { return best_z_.data(); }  // out: their solutions; in of solve_jacobian: where J stands
  V* v() { return step_.data(); }    // out of solve_jacobian

  void resize(long n) {
    n_ = n;
    table.resize(n);
    for (auto* a : {&y_, &z_, &best_z_, &r_, &step_, &trial_, &scale_, &cg_r_, &cg_p_, &cg_q_}) a->resize(n);
  }

  // Lanes that are not `active` are left alone.
  Found find_roots(V c, V atol, M active) {
    c_ = c, share_ = c / static_cast<T>(n_);
    guess();
    evaluate(z_.data());
    Found found{pack_of(std::numeric_limits<T>::infinity()), V{}, M{}};
    V best = found.residual, stalled = {};
    M going = active;
    for (int step = 0;; ++step) {
      judge(atol);
      const M better = going & (excess_ < best);
      stalled = excess_ < T(0.9) * best ? V{} : stalled + 1;
      best = better ? excess_ : best;
      found.residual = better ? worst_ : found.residual;
      for (long i = 0; i < n_; ++i) best_z_[i] = better ? z_[i] : best_z_[i];
      going &= (best > 1) & (excess_ < std::numeric_limits<T>::infinity());
      going &= stalled < (best < 100 ? pack_of(T(3)) : pack_of(T(20)));
      if (step == kMostSteps || !any_lane(going)) break;
      found.steps = going ? found.steps + 1 : found.steps;
      direction(going);
      advance(going);
    }
    found.solved = best <= 1;
    found.residual += keep_mean(active);
    return found;
  }

  // J v = y at z; `dots` is v . sum_k s(z_k - z_i) / n. Returns the square of the error that the true residual J v - y
  // leaves in v: no eigenvalue of J is below 1 for c < 0, and for c > 0 J is near its diagonal where that is small.
  V solve_jacobian(V c, M active, V* dots) {
    c_ = c, share_ = c / static_cast<T>(n_);
    evaluate_at(best_z_.data());
    // |v| may be as little as |y| over the largest eigenvalue of J, or an error as large as 1 over the least.
    const V condition = c_ < 0 ? 1 - c_ : 1 / (1 - c_);
    const V rtol = most_of(3 * kDigits / condition, pack_of(T(0.3) * kDigits));
    conjugate_gradients(y_.data(), rtol, active);
    table.product(step_.data(), share_, cg_q_.data());
    V wrong = {}, dot = {};
    for (long i = 0; i < n_; ++i) {
      const V error = (cg_q_[i] - y_[i]) * most_of(scale_[i], pack_of(T(1)));
      wrong += error * error;
      dot += step_[i] * table.bias[i];
    }
    *dots = dot / static_cast<T>(n_);
    return wrong;
  }

 protected:
  static constexpr int kMostSteps = 60;
  static constexpr T kDigits = sizeof(T) == 4 ? T(1e-6) : T(1e-13);  // of v, about
  static constexpr T kUlp = std::numeric_limits<T>::epsilon();
  long n_ = 0;
  V c_ = {}, share_ = {}, worst_ = {}, excess_ = {};
  Array<V> y_, z_, best_z_, r_, step_, trial_, scale_, cg_r_, cg_p_, cg_q_;

  // The mean of z is that of y, since pairs pull in opposite ways. For c < 0 a residual may be little beside y and much
  // beside z, which is narrower: what it leaves in the mean is known, and taken away if it is more than rounding.
  // Returns by how much.
  V keep_mean(M active) {
    V shift = {}, low = y_[0], high = y_[0];
    for (long i = 0; i < n_; ++i) {
      shift += best_z_[i] - y_[i];
      low = least_of(low, y_[i]), high = most_of(high, y_[i]);
    }
    shift /= static_cast<T>(n_);
    shift = active & (c_ < 0) & (size_of(shift) > 4 * kUlp * (high - low)) ? shift : V{};
    for (long i = 0; i < n_; ++i) best_z_[i] -= shift;
    return size_of(shift);
  }

  void evaluate_at(const V* z) {
    table.evaluate(z);
    for (long i = 0; i < n_; ++i) scale_[i] = reciprocal(1 - share_ * table.degree[i]);
  }

  void evaluate(const V* z) {
    evaluate_at(z);
    for (long i = 0; i < n_; ++i) r_[i] = z[i] - y_[i] + share_ * table.bias[i];
  }

  // The largest residual, and that in units of the one allowed: what rounding leaves of each unit is not counted.
  void judge(V atol) {
    V worst = {}, above = {}, densest = {}, low = z_[0], high = z_[0];
    for (long i = 0; i < n_; ++i) {
      const V size = size_of(r_[i]);
      worst = most_of(worst, size);
      above = most_of(above, size - kUlp * most_of(size_of(y_[i]), size_of(z_[i])));
      densest = most_of(densest, table.degree[i]);
      low = least_of(low, z_[i]), high = most_of(high, z_[i]);
    }
    // A residual r is an error of at most r over the least eigenvalue of J: if s' is positive definite as a kernel, J is at
    // least 1 - c times the largest density.
    const V density = Table::kPositive ? least_of((densest + 1) / static_cast<T>(n_), pack_of(T(1))) : pack_of(T(1));
    const V least = least_of(1 - c_ * density, pack_of(T(1)));
    const V noise = Table::kNoise * size_of(c_) * least_of(high - low, pack_of(T(1)));
    worst_ = worst;
    excess_ = above / most_of(atol * least, noise);
  }

  // The solution of a row whose units were normally distributed (see node_guess.h), to a Newton step.
  void guess() {
    V mean = {}, squares = {};
    for (long i = 0; i < n_; ++i) mean += y_[i];
    mean /= static_cast<T>(n_);
    for (long i = 0; i < n_; ++i) squares += (y_[i] - mean) * (y_[i] - mean);
    const V k = T(kPi) * squares / static_cast<T>(n_);
    // std(z) / std(y) = a: Newton's method for a (1 - c / sqrt(1 + k a^2)) = 1, from the side without overshoot.
    V a = 1 / (1 - c_);
    for (int step = 0; step < 4; ++step) {
      const V d = 1 / root_of(1 + k * a * a);
      a -= (a * (1 - c_ * d) - 1) / (1 - c_ * d * d * d);
    }
    const V b = 1 / root_of(1 + T(0.5) * k * a * a), steepest = 1 / (1 - c_ * b);
    for (long i = 0; i < n_; ++i) {
      const V from = y_[i] - mean, x = size_of(from), near = x * steepest, far = x + c_;
      V t = c_ > 0 ? least_of(near, far) : most_of(near, far);
      const V e = exp_pack(-2 * b * t), inverse = reciprocal(1 + e), tanh = (1 - e) * inverse;
      t -= (t - c_ * tanh - x) * reciprocal(1 - c_ * b * (1 - tanh * tanh));
      z_[i] = mean + (from < 0 ? -t : t);
    }
  }

  void direction(M going) {
    for (long i = 0; i < n_; ++i) trial_[i] = -r_[i];
    const V rtol = least_of(most_of(T(0.3) / excess_, T(0.1) * worst_), pack_of(T(0.1)));
    conjugate_gradients(trial_.data(), rtol, going);
  }

  // z + t step, t such that the slope of the energy along the step has all but vanished, or t = 1.
  void advance(M going) {
    V start = {};
    for (long i = 0; i < n_; ++i) start += r_[i] * step_[i];
    V t = pack_of(T(1)), low = {}, high = -t, at_low = start, at_high = {};
    for (int k = 0;; ++k) {
      for (long i = 0; i < n_; ++i) trial_[i] = going ? z_[i] + t * step_[i] : z_[i];
      table.admit(y_.data(), c_, trial_.data());
      evaluate(trial_.data());
      V here = {};
      for (long i = 0; i < n_; ++i) here += r_[i] * step_[i];
      const V much = T(0.3) * size_of(start);
      const M over = going & (here > much), under = going & (high > 0) & (here < -much);
      if (k == kMostHalvings || !any_lane(over | under)) break;
      high = over ? t : high, at_high = over ? here : at_high;
      low = under ? t : low, at_low = under ? here : at_low;
      // Regula falsi kept away from the ends of its bracket, so that it shrinks by a tenth at least.
      V part = at_low < 0 ? at_low / (at_low - at_high) : pack_of(T(0.5));
      part = most_of(least_of(part, pack_of(T(0.9))), pack_of(T(0.1)));
      t = (over | under) ? low + (high - low) * part : t;
    }
    for (long i = 0; i < n_; ++i) z_[i] = trial_[i];
  }
  static constexpr int kMostHalvings = 30;

  // J step = b to the share rtol of |b|, sizes taken with the inverse of J's diagonal; step = 0 in lanes not going. Returns
  // the lanes in which a direction was met along which J is not positive: above the threshold that may be.
  M conjugate_gradients(const V* b, V rtol, M going) {
    V rho = {};
    M flat = {};
    for (long i = 0; i < n_; ++i) {
      step_[i] = V{}, cg_r_[i] = b[i], cg_p_[i] = b[i] * scale_[i];
      rho += b[i] * cg_p_[i];
    }
    const V goal = rtol * rtol * rho;
    going &= rho > 0;
    for (long k = 0; k < 3 * n_ + 20 && any_lane(going); ++k) {
      const V curvature = table.product(cg_p_.data(), share_, cg_q_.data());
      flat |= going & ~(curvature > 0);
      going &= curvature > 0;
      const V alpha = going ? rho / curvature : V{};
      V next = {};
      for (long i = 0; i < n_; ++i) {
        step_[i] += alpha * cg_p_[i];
        cg_r_[i] -= alpha * cg_q_[i];
        next += cg_r_[i] * cg_r_[i] * scale_[i];
      }
      going &= next > goal;
      const V beta = going ? next / rho : V{};
      rho = next;
      for (long i = 0; i < n_; ++i) cg_p_[i] = cg_r_[i] * scale_[i] + beta * cg_p_[i];
    }
    return flat;
  }
};

}  // namespace ibnn
