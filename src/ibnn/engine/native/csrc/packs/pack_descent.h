// Above the threshold, for a pack of rows: the minimum of the energy that descent from z = y reaches.
//
// For c > 0 the energy is |z - y|^2 / 2 minus a convex sum over pairs. The step z <- y - c G(z) = z - r minimizes the bound that
// comes of replacing this sum by its tangent, which touches the energy at z and lies above it elsewhere: no step climbs. It
// keeps the order of the units, and equal units equal. These steps say which of several minima is found. Longer ones shorten
// the way where they go downhill to their end: every fourth step is Newton's, if conjugate gradients find J positive definite
// and J's diagonal is positive where it ends, and the next ones while that goes well; else, if only one direction is left in
// which z moves, several steps along it at once. What does not go well is taken back, and shorter the next time.
#pragma once
#include "packs/pack_newton.h"

namespace ibnn {

// Rows are sorted, whatever the table, so that equal units are neighbors.
template <class Table, class T> class PackDescent : public PackNewton<Table, T> {
 public:
  using Base = PackNewton<Table, T>;
  using typename Base::Found;
  using typename Base::M;
  using typename Base::V;
  using Base::table;
  T series = 0;  // what the sums of slopes leave out

  void resize(long n) {
    Base::resize(n);
    old_r_.resize(n);
  }

  // Lanes that are not `active` are left alone; those that have not settled come back as far as they got.
  // `proven` are lanes in which J is positive definite there by its density alone.
  Found find_minima(V c, V atol, V resolution, M active, M* proven) {
    c_ = c, share_ = c / static_cast<T>(n_);
    for (long i = 0; i < n_; ++i) z_[i] = y_[i];
    evaluate(z_.data());
    Found found{pack_of(std::numeric_limits<T>::infinity()), V{}, M{}};
    V before = found.residual, limit = pack_of(kLongest), calm = {};
    *proven = M{};
    M going = active, eager = {}, fresh = M{} - 1;
    for (int step = 0;; ++step) {
      const Verdict now = verdict(atol, resolution);
      // Plain steps shrink like a geometric series near the end: what is left is the sum of its rest.
      const V rate = least_of(most_of(now.worst / before, pack_of(T(0.3))), pack_of(T(1)));
      const M rests = (calm >= 2) & (now.above * rate <= T(0.5) * (1 - rate) * now.allowed);
      const M settled = found.solved | (going & fresh & ((now.above <= 0) | (now.above <= now.enough) | rests));
      for (long i = 0; i < n_; ++i) best_z_[i] = going ? z_[i] : best_z_[i];
      found.residual = going & fresh ? now.worst : found.residual;
      found.solved |= settled;
      *proven = settled & going ? now.margin > kSure : *proven;
      going &= ~settled;
      if (step == kMostDescent || !any_lane(going)) break;
      found.steps = going ? found.steps + 1 : found.steps;

      const M turn = step % kEvery == kEvery - 1 ? M{} - 1 : M{};
      M newton = going & fresh & (eager | turn) & (now.diagonal > 0), stretch = going & fresh & turn;
      V length = kStretch * now.worst;
      if (any_lane(newton)) {
        for (long i = 0; i < n_; ++i) trial_[i] = -r_[i];
        const V rtol = least_of(most_of(T(0.3) * now.enough / now.worst, T(0.1) * now.worst), pack_of(T(0.1)));
        newton &= ~conjugate_gradients(trial_.data(), rtol, newton);
        V longest = {};
        for (long i = 0; i < n_; ++i) longest = most_of(longest, size_of(step_[i]));
        const V shorter = longest > limit ? limit / longest : pack_of(T(1));
        for (long i = 0; i < n_; ++i) step_[i] *= shorter;
        length = newton ? longest * shorter : length;
        // The step is the error itself.
        found.solved |= newton & (longest <= now.allowed) & (now.worst < T(0.1));
        stretch &= ~newton;
      }
      if (any_lane(stretch)) stretch &= (steadiness() > T(0.9)) & (length <= T(0.5) * limit);
      V start = {};
      for (long i = 0; i < n_; ++i) {
        const V by = newton ? step_[i] : (stretch ? -kStretch * r_[i] : -r_[i]);
        start += r_[i] * by;
        step_[i] = by, old_r_[i] = r_[i];
        trial_[i] = going ? z_[i] + by : z_[i];
      }
      keep_order();
      evaluate(trial_.data());
      V end = {}, least = pack_of(T(1));
      for (long i = 0; i < n_; ++i) {
        end += r_[i] * step_[i];
        least = least_of(least, 1 - share_ * table.degree[i]);
      }
      const M far = newton | stretch, good = (end <= T(0.3) * size_of(start)) & ((least > 0) | stretch);
      const M back = far & ~good & ~found.solved;
      for (long i = 0; i < n_; ++i) {
        z_[i] = back ? z_[i] : trial_[i];
        r_[i] = back ? old_r_[i] : r_[i];
      }
      limit = back ? T(0.25) * length : (far ? least_of(2 * limit, pack_of(kLongest)) : limit);
      calm = far & ~back ? V{} : calm + 1;
      fresh = ~back, eager = newton & ~back;
      before = now.worst;
    }
    return found;
  }

  // J v = y at z. `dots` is v . sum_k s(z_k - z_i) / n, `wrong` the square of the error that the true residual J v - y leaves
  // in v. Returns lanes in which J is not positive definite: v is as far as conjugate gradients got there.
  M solve_jacobian(V c, M active, V* dots, V* wrong) {
    c_ = c, share_ = c / static_cast<T>(n_);
    evaluate_at(best_z_.data());
    V densest = {};
    for (long i = 0; i < n_; ++i) densest = most_of(densest, table.degree[i]);
    const V margin = 1 - share_ * (densest + 1);
    M flat = active & ~(1 - share_ * densest > 0);
    const V rtol = most_of(3 * kDigits * margin, pack_of(T(0.3) * kDigits));
    flat |= conjugate_gradients(y_.data(), rtol, active & ~flat);
    V dot = {}, squares = {};
    for (long i = 0; i < n_; ++i) best_z_[i] = step_[i], dot += step_[i] * table.bias[i];
    *dots = dot / static_cast<T>(n_);
    table.product(best_z_.data(), share_, cg_q_.data());
    for (long i = 0; i < n_; ++i) trial_[i] = y_[i] - cg_q_[i], squares += trial_[i] * trial_[i];
    *wrong = squares / (margin * margin);
    const M unproven = active & ~flat & ~(margin > T(0.02));
    if (any_lane(unproven)) {
      // What J makes of the true residual is the error.
      flat |= conjugate_gradients(trial_.data(), pack_of(T(0.1)), unproven);
      squares = V{};
      for (long i = 0; i < n_; ++i) squares += step_[i] * step_[i];
      *wrong = unproven ? squares : *wrong;
    }
    // The true residual, made of the same sums, does not show what their series leaves out.
    const M drowned = series * c_ > kShown * margin;
    *wrong = (series > 0 ? drowned : M{}) ? pack_of(std::numeric_limits<T>::infinity()) : *wrong;
    return flat;
  }
  V* v() { return best_z_.data(); }

 private:
  using Base::best_z_, Base::c_, Base::cg_q_, Base::conjugate_gradients, Base::evaluate, Base::evaluate_at, Base::kDigits, Base::kUlp,
      Base::n_, Base::r_, Base::share_, Base::step_, Base::trial_, Base::y_, Base::z_;
  // 83,000 normal rows of 3 to 32 units, std 0.1 to 1, slope 10, lam up to 3 thresholds took at most 199 (with z - r alone up
  // to 2,000 and more); most take 4 to 6.
  static constexpr int kMostDescent = 200, kEvery = 4;
  static constexpr T kLongest = 1;  // of a step: sigma, and with it J, varies over 1
  static constexpr T kStretch = 8;  // steps at once; with the three before it the next eleven are four
  static constexpr T kSure = 1e-3;  // the slopes of running sums are off by 1.5e-4 on the way (sorted_table.h)
  static constexpr T kShown = sizeof(T) == 4 ? T(5e-5) : T(5e-9);  // of v, half of what is promised
  // How many times the accuracy asked for the one promised is, with a factor of 2 to spare.
  static constexpr T kLooser = sizeof(T) == 4 ? T(2.5) : T(50);
  Array<V> old_r_;

  struct Verdict {
    V worst, above, allowed, enough, margin, diagonal;
  };

  // The largest residual, also without what rounding leaves of each unit; the error allowed in z; the residual that is little
  // enough for it, where J is proven positive definite; by how much it is so; and the least of J's diagonal.
  Verdict verdict(V atol, V resolution) {
    V worst = {}, above = {}, densest = {}, low = z_[0], high = z_[0];
    for (long i = 0; i < n_; ++i) {
      const V size = size_of(r_[i]);
      worst = most_of(worst, size);
      above = most_of(above, size - kUlp * most_of(size_of(y_[i]), size_of(z_[i])));
      densest = most_of(densest, table.degree[i]);
      low = least_of(low, z_[i]), high = most_of(high, z_[i]);
    }
    const V reach = least_of(high - low, pack_of(T(1)));
    const V near = resolution * reach;
    const V allowed = (near > 0) & (near < atol) ? near : atol;
    // s' is positive definite as a kernel, so J is at least 1 - c times the largest density.
    const V margin = 1 - share_ * (densest + 1), positive = most_of(margin, V{});
    const V noise = least_of(Table::kNoise * c_ * reach, kLooser * allowed * positive);
    return {worst, above, allowed, most_of(allowed * positive, noise), margin, 1 - share_ * densest};
  }

  // The square of the cosine between this residual and the one before: near 1 where a single soft direction is left.
  V steadiness() const {
    V both = {}, now = {}, then = {};
    for (long i = 0; i < n_; ++i) both += r_[i] * old_r_[i], now += r_[i] * r_[i], then += old_r_[i] * old_r_[i];
    return both > 0 ? both * both / (now * then) : V{};
  }

  // Differences of z are at least those of y, and 0 where those are.
  void keep_order() {
    for (long i = 1; i < n_; ++i) {
      const V gap = y_[i] - y_[i - 1];
      trial_[i] = gap > 0 ? most_of(trial_[i], trial_[i - 1] + T(0.5) * gap) : trial_[i - 1];
    }
  }
};

}  // namespace ibnn
