// Above the threshold, for a pack of rows: the minimum of the energy that descent from z = y reaches.
//
// For c > 0 the energy is |z - y|^2 / 2 minus a convex sum over pairs. The step z <- y - c G(z) = z - r minimizes the bound that
// comes of replacing this sum by its tangent, which touches the energy at z and lies above it elsewhere: no step climbs. It
// keeps the order of the units, and equal units equal. These steps say which of several minima is found. Units between two
// crowds slide slowly, though, up to thousands of steps. So from the fourth step on z moves by (J + shift)^-1 (-r): Newton's
// step where J is positive definite, and elsewhere as far as a plain step goes in about 1 / shift of them, each unit its own
// way. What does not go downhill to its end is taken back, and shorter the next time.
//
// Equal units are a crowd that moves as one, and J is asked for moves of whole crowds only: the background of an image may be
// so dense that J has negative eigenvalues within it (nothing ever parts it), which say nothing of the way down.
#pragma once
#include "packs/crowd_table.h"
#include "packs/pack_newton.h"

namespace ibnn {

template <class T> inline constexpr T kGradientError = sizeof(T) == 4 ? T(5e-5) : T(5e-9);  // of v, half of what is promised

// Rows are sorted, whatever the table, so that equal units are neighbors.
template <class Table, class T> class PackDescent : public PackNewton<CrowdTable<Table, T>, T> {
 public:
  using Base = PackNewton<CrowdTable<Table, T>, T>;
  using typename Base::Found;
  using typename Base::M;
  using typename Base::V;
  using Base::table;
  T series = 0;  // what the sums of slopes leave out

  void resize(long n) {
    Base::resize(n);
    for (auto* a : {&old_r_, &v_, &mean_}) a->resize(n);
  }

  // Lanes that are not `active` are left alone; those that have not settled come back as far as they got.
  // `proven` are lanes in which J is positive definite there by its density alone.
  Found find_minima(V c, V atol, V resolution, M active, M* proven) {
    c_ = c, share_ = c / static_cast<T>(n_);
    for (long i = 0; i < n_; ++i) z_[i] = y_[i];
    table.gather(y_.data());
    evaluate(z_.data());
    Found found{pack_of(std::numeric_limits<T>::infinity()), V{}, M{}};
    V before = found.residual, limit = pack_of(kLongest), caution = pack_of(T(1)), calm = {};
    *proven = M{};
    M going = active, fresh = M{} - 1;
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

      M newton = step < kPlain ? M{} : going & fresh;
      V length = now.worst;
      if (any_lane(newton)) {
        table.shift = shift_for(now.diagonal, caution);
        for (long i = 0; i < n_; ++i) {
          trial_[i] = -r_[i];
          scale_[i] = reciprocal(most_of(1 + table.shift - share_ * table.others[i], pack_of(kLeast)));
        }
        const V rtol = least_of(most_of(T(0.3) * now.enough / now.worst, T(0.1) * now.worst), pack_of(T(0.01)));
        const M flat = newton & conjugate_gradients(trial_.data(), rtol, newton);
        newton &= ~flat;
        caution = flat ? more(caution) : caution;
        V longest = {};
        for (long i = 0; i < n_; ++i) longest = most_of(longest, size_of(step_[i]));
        const V shorter = longest > limit ? limit / longest : pack_of(T(1));
        for (long i = 0; i < n_; ++i) step_[i] *= shorter;
        length = newton ? longest * shorter : length;
        // Newton's step is the error itself.
        found.solved |= newton & (table.shift == 0) & (longest <= now.allowed) & (now.worst < T(0.1));
      }
      V start = {};
      for (long i = 0; i < n_; ++i) {
        const V by = newton ? step_[i] : -r_[i];
        start += r_[i] * by;
        step_[i] = by, old_r_[i] = r_[i];
        trial_[i] = going ? z_[i] + by : z_[i];
      }
      keep_order();
      evaluate(trial_.data());
      V end = {}, least = pack_of(T(1));
      for (long i = 0; i < n_; ++i) {
        end += r_[i] * step_[i];
        least = least_of(least, 1 - share_ * table.others[i]);
      }
      const M good = (end <= T(0.3) * size_of(start)) & ((least > 0) | (table.shift > 0));
      const M back = newton & ~good & ~found.solved;
      for (long i = 0; i < n_; ++i) {
        z_[i] = back ? z_[i] : trial_[i];
        r_[i] = back ? old_r_[i] : r_[i];
      }
      limit = back ? T(0.25) * length : (newton ? least_of(2 * limit, pack_of(kLongest)) : limit);
      caution = newton & ~back ? T(0.5) * caution : caution;
      calm = newton & ~back ? V{} : calm + 1;
      fresh = ~back;
      before = now.worst;
    }
    table.shift = V{};
    return found;
  }

  // J v = y at z. `dots` is v . sum_k s(z_k - z_i) / n, `wrong` the square of the error that the true residual J v - y leaves
  // in v. Returns lanes in which J is not positive definite for moves of whole crowds: v is as far as conjugate gradients got.
  // In lanes at a `saddle` it is not within a crowd, which would part if its units differed: v is J^-1 y there all the same.
  M solve_jacobian(V c, M active, V* dots, V* wrong, M* saddle) {
    c_ = c, share_ = c / static_cast<T>(n_);
    table.gather(best_z_.data());
    evaluate_at(best_z_.data());
    V densest = {}, diagonal = pack_of(T(1));
    M flat = {};
    *saddle = M{};
    for (long i = 0; i < n_; ++i) {
      densest = most_of(densest, table.degree[i]);
      diagonal = least_of(diagonal, 1 - share_ * table.others[i]);
      const M crowd = active & (table.company[i] > 0);
      flat |= crowd & (size_of(table.within(i, share_)) < kGradientError<T>);
      *saddle |= crowd & (table.within(i, share_) < 0);
    }
    const V margin = 1 - share_ * (densest + 1);
    flat |= active & ~(diagonal > 0);
    const V rtol = most_of(3 * kDigits * margin, pack_of(T(0.3) * kDigits));
    flat |= solve_with_crowds(y_.data(), rtol, active & ~flat);
    V dot = {}, squares = {};
    for (long i = 0; i < n_; ++i) v_[i] = step_[i], dot += step_[i] * table.bias[i];
    *dots = dot / static_cast<T>(n_);
    table.Table::product(v_.data(), share_, cg_q_.data());
    for (long i = 0; i < n_; ++i) trial_[i] = y_[i] - cg_q_[i], squares += trial_[i] * trial_[i];
    *wrong = squares / (margin * margin);
    const M unproven = active & ~flat & ~(margin > most_of(pack_of(T(0.02)), series * c_ / kGradientError<T>));
    if (any_lane(unproven)) {
      // What J makes of the true residual is the error. That is made of the same sums, and does not show what their series
      // leaves out of J v: at most 2 c times that of v, of which J makes what it makes of v.
      flat |= solve_with_crowds(trial_.data(), pack_of(T(0.1)), unproven);
      V error = {}, hidden = {};
      for (long i = 0; i < n_; ++i) error += step_[i] * step_[i];
      if (series > 0) {
        flat |= solve_with_crowds(v_.data(), pack_of(T(0.1)), unproven);
        for (long i = 0; i < n_; ++i) hidden += step_[i] * step_[i];
      }
      error = root_of(error) + 2 * series * c_ * root_of(hidden);
      *wrong = unproven ? error * error : *wrong;
    }
    return flat;
  }
  V* v() { return v_.data(); }

 private:
  using Base::best_z_, Base::c_, Base::cg_q_, Base::conjugate_gradients, Base::kDigits, Base::kUlp, Base::n_, Base::r_, Base::scale_,
      Base::share_, Base::step_, Base::trial_, Base::y_, Base::z_;
  // 57,600 normal rows of 2 to 48 units, std 0.1 to 1, slope 10, lam up to 3 thresholds took at most 20, with plain steps alone
  // thousands; maps of images up to 60.
  static constexpr int kMostDescent = 200, kPlain = 3;
  static constexpr T kLongest = 1;  // of a step: sigma, and with it J, varies over 1
  static constexpr T kLeast = 1e-3;  // of the diagonal that conjugate gradients are scaled by
  static constexpr T kSure = 1e-3;  // the slopes of running sums are off by 1.5e-4 on the way (sorted_table.h)
  // How many times the accuracy asked for the one promised is, with a factor of 2 to spare.
  static constexpr T kLooser = sizeof(T) == 4 ? T(2.5) : T(50);
  Array<V> old_r_, v_, mean_;

  void evaluate_at(const V* z) {
    table.evaluate(z);
    for (long i = 0; i < n_; ++i) scale_[i] = reciprocal(1 - share_ * table.others[i]);
  }

  void evaluate(const V* z) {
    evaluate_at(z);
    for (long i = 0; i < n_; ++i) r_[i] = z[i] - y_[i] + share_ * table.bias[i];
    table.equalize(r_.data());
  }

  // step = J^-1 b at best_z: the means of crowds by conjugate gradients (see there), the rest by itself.
  M solve_with_crowds(const V* b, V rtol, M going) {
    std::copy(b, b + n_, mean_.data());
    table.average(mean_.data());
    const M flat = conjugate_gradients(mean_.data(), rtol, going);
    if (!table.crowded()) return flat;
    for (long i = 0; i < n_; ++i)
      step_[i] += table.company[i] > 0 ? (b[i] - mean_[i]) / table.within(i, share_) : V{};
    return flat;
  }

  struct Verdict {
    V worst, above, allowed, enough, margin, diagonal;
  };

  // The largest residual, also without what rounding leaves of each unit; the error allowed in z; the residual that is little
  // enough for it, where J is proven positive definite; by how much it is so; and the least of J's diagonal for crowds.
  Verdict verdict(V atol, V resolution) {
    V worst = {}, above = {}, densest = {}, diagonal = pack_of(T(1)), low = z_[0], high = z_[0];
    for (long i = 0; i < n_; ++i) {
      const V size = size_of(r_[i]);
      worst = most_of(worst, size);
      above = most_of(above, size - kUlp * most_of(size_of(y_[i]), size_of(z_[i])));
      densest = most_of(densest, table.degree[i]);
      diagonal = least_of(diagonal, 1 - share_ * table.others[i]);
      low = least_of(low, z_[i]), high = most_of(high, z_[i]);
    }
    const V reach = least_of(high - low, pack_of(T(1)));
    const V near = resolution * reach;
    const V allowed = (near > 0) & (near < atol) ? near : atol;
    // s' is positive definite as a kernel, so J is at least 1 - c times the largest density.
    const V margin = 1 - share_ * (densest + 1), positive = most_of(margin, V{});
    const V noise = least_of(Table::kNoise * c_ * reach, kLooser * allowed * positive);
    return {worst, above, allowed, most_of(allowed * positive, noise), margin, diagonal};
  }

  // J's least eigenvalue for crowds is near its least diagonal, and may be below. A diagonal well above 0 is trusted until J
  // turns out not to be positive definite; then steps that go well need less and less caution. Half or twice these numbers
  // take as many steps.
  static V shift_for(V diagonal, V caution) {
    const V shift = T(1.5) * most_of(-diagonal, V{}) + T(0.01) * caution;
    return ((diagonal > T(0.02)) & (caution <= 1)) | ((diagonal > 0) & (caution < T(0.1))) ? V{} : shift;
  }
  static V more(V caution) { return least_of(most_of(4 * caution, pack_of(T(2))), pack_of(T(64))); }

  // Differences of z are at least those of y, and 0 where those are.
  void keep_order() {
    for (long i = 1; i < n_; ++i) {
      const V gap = y_[i] - y_[i - 1];
      trial_[i] = gap > 0 ? most_of(trial_[i], trial_[i - 1] + T(0.5) * gap) : trial_[i - 1];
    }
  }
};

}  // namespace ibnn
