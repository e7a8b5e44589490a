// The nodes of a pack of rows: evenly spaced in each lane, as many as the widest lane has, and what is solved on them.
//
// Newton's method of node_newton.h and the linear solve of node_adjoint.h with a row in each lane, so that a few dozen nodes
// fill whole registers. Lanes that need more than plain Newton steps are given up here: they are solved one by one.
#pragma once
#include "nodes/node_newton.h"
#include "packs/pack_gmres.h"
#include "packs/pack_node_sums.h"
#include "packs/pack_spread.h"

namespace ibnn {

class PackNodes {
 public:
  using V = Floats;
  using M = Mask<float>;
  static constexpr int kRows = kLanes<float>;
  Array<V> y, q, qg;                                          // places and weights, set by gather()
  Array<V> points, potential, density, density_slope, m, r;  // as in NodeNewton
  Array<V> step;                                             // what is still to be added to the points
  Array<V> u, u_slope;                                        // of the adjoint
  V worst = {}, least = {}, densest = {}, steps = {}, mean = {};
  long total = 0;
  V spacing() const { return h_; }
  V steepest() const { return 1 - c_ * least_of(densest, pack_of(1.0f)); }  // 1 - c d where d is largest

  // Before the rows of a pack, which have so many nodes at most.
  void clear(long most) {
    for (auto* a : {&q, &qg}) a->resize(padded(most));
    spread_.reserve(padded(most));
    total = 0, real_ = M{}, low_ = V{}, h_ = pack_of(1.0f);
  }

  // Puts the units of a row on its grid, or on another one than before; g may be null. On the nodes are slope times the units.
  void scatter(int lane, const Grid& grid, const float* x, float slope, const float* g, long n) {
    real_[lane] = static_cast<int>(grid.nodes());
    low_[lane] = slope * grid.node(0), h_[lane] = slope * grid.step;
    spread_.scatter(lane, grid, x, g, n);
  }

  // On this node of a lane are so many units, of the same value: a share of 0 for none.
  void set_tie(int lane, const Grid& grid, float tie, float share) {
    tie_node_[lane] = static_cast<int>(std::lround((tie - grid.low) * grid.inverse)) + 1;
    tie_share_[lane] = share;
  }

  // The weights of the lanes that were scattered since the last time. Lanes of fewer nodes than others end with nodes without
  // weight, which count for nothing. All have a multiple of 8, so that no sum is taken in another order for them.
  void gather(M fresh, long n, bool weighted) {
    const long before = total;
    for (int lane = 0; lane < kRows; ++lane) total = std::max(total, padded(real_[lane]));
    for (auto* a : {&y, &points, &potential, &density, &density_slope, &m, &r, &u, &u_slope, &old_, &step, &work_, &kept_})
      a->resize(total);
    for (long s = before; s < total; ++s) q[s] = qg[s] = V{};
    spread_.collect(real_, fresh, total, n, q.data(), weighted ? qg.data() : nullptr);
    for (long s = 0; s < total; ++s) y[s] = low_ + static_cast<float>(s) * h_;
    sums_.set_weights(q.data(), total);
  }

  // How unevenly the units fill the cells (see Nodes::roughness), but for those that are tied on a node: these are interpolated
  // without error.
  V roughness() const {
    V worst = {};
    auto untied = [&](long s) { return q[s] - (M{} + static_cast<int>(s) == tie_node_ ? tie_share_ : V{}); };
    V left = untied(0), here = untied(1);
    for (long s = 0; s + 2 < total; ++s) {
      const V right = untied(s + 2);
      worst = most_of(worst, live(s + 2) ? size_of(left - 2 * here + right) : V{});
      left = here, here = right;
    }
    return worst;
  }

  // Stands at the solution of normal rows (see node_guess.h).
  void start(V c) {
    c_ = c, steps = V{};
    guess();
    sums_.set_points(points.data(), total);
    sums_.fields_roughly(potential.data(), density.data());
    set_factors();
    take_residual();
  }

  // Newton until the errors are below atol, or what rounding allows. Returns the lanes that got there. The last step is left
  // in `step`: what is known of the points before it (densities, above all) is good enough behind it.
  M finish(V atol, M active) {
    const V floor = 3 * PackNodeSums::kNoise * size_of(c_) + kUlps;
    M going = active, failed = {}, settled = {};
    V left_behind = {};
    for (int k = 0; k < kMostSteps && any_lane(going); ++k) {
      steps = going ? steps + 1 : steps;
      const V left = direction(atol * least, going);
      if (k > 0) {
        const M last = going & settles(left, atol);
        for (long s = 0; s < total; ++s) kept_[s] = last ? step[s] : kept_[s], step[s] = last ? V{} : step[s];
        left_behind = last ? left : left_behind;
        settled |= last, going &= ~last;
        if (!any_lane(going)) break;
      }
      const V before = size_, worst_before = worst;
      move();
      sums_.set_points(points.data(), total);
      evaluate();
      take_residual();
      if (k > 0) {  // the first residual is a rough one
        const M closer = size_ <= 0.9f * before;
        failed |= going & ~closer & (worst_before > floor) & (worst > floor);  // otherwise rounding: as good as it gets
        going &= closer;
      }
      going &= worst > atol * least;
    }
    // The others take the step of each node by itself.
    for (long s = 0; s < total; ++s) step[s] = settled ? kept_[s] : -r[s] * m[s];
    worst = settled ? left_behind : worst;
    return active & ~failed & ~going;
  }

  // Stands at y, as z of the adjoint.
  void stand(V c) {
    c_ = c;
    sums_.set_even_points(h_, total);
    evaluate();
    densest = V{};
    for (long s = 0; s < total; ++s) densest = most_of(densest, live(s) ? density[s] : V{});
  }

  // u with (I + c K diag(q m)) u = K (qg m), and its slope, without the mean of g; dots = v . B / n. Returns the lanes in
  // which that went well.
  M solve_adjoint(M active, V* dots) {
    V high = pack_of(1.0f), sum = {}, weight = {};
    for (long s = 0; s < total; ++s) {
      high = most_of(high, live(s) ? m[s] : V{});
      sum += qg[s], weight += q[s];
    }
    // What GMRES leaves in u goes once more through c K diag(q m), by which u is made of v in the end.
    const V wanted = 1e-5f / ((1 + size_of(c_)) * least_of(high, pack_of(20.0f)));
    const V rtol = wanted / most_of(least_of(size_of(c_) * densest * high, pack_of(1.0f)), pack_of(0.05f));
    mean = active ? sum / weight : V{};
    for (long s = 0; s < total; ++s) qg[s] -= mean * q[s], work_[s] = qg[s] * m[s];
    sums_.smooth(work_.data(), r.data());
    for (long s = 0; s < total; ++s) r[s] = live(s) ? r[s] : V{};
    const V share = gmres_.solve(r.data(), u.data(), total, rtol, active, [&](const V* x, V* out) { apply<false>(x, out); });
    V dot = {};
    for (long s = 0; s < total; ++s) {
      work_[s] = (qg[s] - c_ * q[s] * u[s]) * m[s];  // v as node weights
      dot += work_[s] * potential[s];
    }
    *dots = dot;
    sums_.smooth(work_.data(), u.data(), u_slope.data());
    return active & (share <= 10 * rtol);
  }

 private:
  static constexpr int kMostSteps = 6;
  V c_ = {}, low_ = {}, h_ = {}, size_ = {};
  M real_ = {}, tie_node_ = {};
  V tie_share_ = {};
  PackNodeSums sums_;
  PackGmres gmres_;
  PackSpread spread_;
  Array<V> old_, work_, kept_;

  static long padded(long nodes) { return (nodes + 7) / 8 * 8; }
  M live(long s) const { return M{} + static_cast<int>(s) < real_; }

  void evaluate() {
    sums_.fields(potential.data(), density.data(), density_slope.data());
    set_factors();
  }

  void set_factors() {
    for (long s = 0; s < total; ++s) m[s] = reciprocal(1 - c_ * density[s]);
  }

  void take_residual() {
    V most = {}, squares = {};
    densest = V{};
    for (long s = 0; s < total; ++s) {
      const V now = points[s] - y[s] + c_ * potential[s], size = size_of(now);
      // Else the rounding of one unit at 1e6 would hide how well the others are solved.
      const V kept = live(s) & (size > kUlps * size_of(y[s])) ? now : V{};
      r[s] = kept;
      most = most_of(most, size_of(kept)), squares += kept * kept;
      densest = most_of(densest, live(s) ? density[s] : V{});
    }
    worst = most, size_ = root_of(squares);
    least = least_of(steepest(), pack_of(1.0f));
  }

  // out = (I + c K diag(q m)) v
  template <bool roughly> void apply(const V* v, V* out) {
    for (long s = 0; s < total; ++s) work_[s] = q[s] * m[s] * v[s];
    roughly ? sums_.smooth_roughly(work_.data(), out) : sums_.smooth(work_.data(), out);
    for (long s = 0; s < total; ++s) out[s] = live(s) ? v[s] + c_ * out[s] : V{};
  }

  // step = -J^-1 r, J = (I + c K diag(q m)) diag(1 / m) with K the matrix of s'. Returns the size of what is left of r, which is
  // larger than any part of it.
  V direction(V tol, M going) {
    for (long s = 0; s < total; ++s) old_[s] = -r[s];
    // No better than Newton's step itself, which leaves about |c| worst^2 / 2 of the residual by the curvature of s; nor than
    // the rough series, which leaves up to 1.5e-4 |c| / least of it.
    const V reached = size_of(c_) * most_of(0.1f * worst, 3e-4f / least);
    const V rtol = least_of(most_of(0.3f * tol / worst, reached), pack_of(0.02f));
    const V share =
        gmres_.solve(old_.data(), step.data(), total, rtol, going, [&](const V* x, V* out) { apply<true>(x, out); });
    for (long s = 0; s < total; ++s) step[s] *= m[s];
    return share * size_;
  }

  // Whether a step that leaves so much of the residual is the last one. Densities d were taken before it: they change by
  // 2 d |step| at most (the integral of |s''| is that of s'), hence m by c m^2 times that, and z between the nodes by 0.15 h
  // times the change of its slopes at both ends. By its curvature it leaves 2 |c| d step^2.
  M settles(V left, V atol) const {
    V far = {};
    for (long s = 0; s < total; ++s) far = most_of(far, size_of(step[s]));
    const V change = 2 * size_of(c_) * densest * far;
    return (left + change * far <= 0.5f * atol * least) & (0.3f * h_ * change <= atol * least * least);
  }

  // Z + step, kept in order: differences of z are at least those of y times 1 / (1 + |c|) (1 for c > 0).
  void move() {
    const V gap = 0.5f * h_ * (c_ > 0 ? pack_of(1.0f) : 1 / (1 - c_));
    points[0] += step[0];
    for (long s = 1; s < total; ++s) points[s] = most_of(points[s] + step[s], points[s - 1] + gap);
  }

  void guess() {
    V first = {}, squares = {};
    for (long s = 0; s < total; ++s) {
      const V x = static_cast<float>(s) * h_;
      first += q[s] * x, squares += q[s] * x * x;
    }
    const V middle = low_ + first, k = static_cast<float>(kPi) * most_of(squares - first * first, V{});
    V a = 1 / (1 - c_);
    for (int step = 0; step < 4; ++step) {
      const V d = 1 / root_of(1 + k * a * a);
      a -= (a * (1 - c_ * d) - 1) / (1 - c_ * d * d * d);
    }
    const V b = 1 / root_of(1 + 0.5f * k * a * a), steep = 1 / (1 - c_ * b);
    for (long s = 0; s < total; ++s) {
      const V from = y[s] - middle, x = size_of(from), near = x * steep, far = x + c_;
      V t = c_ > 0 ? least_of(near, far) : most_of(near, far);
      const V e = exp_pack(-2 * b * t), tanh = (1 - e) * reciprocal(1 + e);
      t -= (t - c_ * tanh - x) * reciprocal(1 - c_ * b * (1 - tanh * tanh));
      points[s] = middle + (from < 0 ? -t : t);
    }
  }
};

}  // namespace ibnn
