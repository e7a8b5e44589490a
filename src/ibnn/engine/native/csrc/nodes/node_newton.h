// Newton's method on the nodes: Z_s + c sum_r q_r s(Z_r - Z_s) = Y_s.
#pragma once
#include "sums/even_sums.h"
#include "nodes/gmres.h"
#include "nodes/node_guess.h"
#include "sums/node_sums.h"
#include "nodes/nodes.h"

namespace ibnn {

constexpr float kUlps = 2.5e-7f;  // residuals below this share of |y| are rounding

template <Sigma kind> class NodeNewton {
 public:
  Array<float> points, potential, density, density_slope, m;  // Z, G, d, d' and 1 / (1 - c d) at Z
  Array<float> r;                                             // residual at Z, 0 where it is rounding
  float worst = 0;                                            // its largest entry
  float least = 1;                                            // a lower bound of the eigenvalues of J at Z

  float noise() const { return sums_.noise(); }
  // 1 - c d where d is largest.
  float slope_at_densest() const { return steepest_; }

  // Stands at the starting point.
  void start(const Nodes& nodes, float c) {
    y_ = &nodes, c_ = c, total_ = nodes.total;
    for (auto* a : {&points, &potential, &density, &density_slope, &m, &r, &old_, &step_, &work_}) a->resize(total_);
    sums_.set_weights(nodes.q.data(), total_);
    std::copy(nodes.x.data(), nodes.x.data() + total_, points.data());
    if (nodes.even() && total_ > NodeSums<kind>::few && start_evenly()) return;
    even_ = false;
    // Far units say nothing about the others.
    if (!nodes.split) normal_guess(nodes.x.data(), nodes.q.data(), total_, c, points.data());
    evaluate();
  }

  // Until the error of Z is below atol, or what rounding allows.
  bool finish(float atol, int* steps) {
    const float floor = 3 * noise() * std::fabs(c_) + kUlps;
    for (int k = 0; k < 40 && worst > atol * least; ++k) {
      ++*steps;
      direction(atol * least);
      std::copy(points.data(), points.data() + total_, old_.data());
      const double before = size_;
      const float worst_before = worst;
      double t = 1;
      for (int halvings = 0;; ++halvings, t *= 0.5) {
        move(static_cast<float>(t));
        evaluate();
        if (size_ <= (1 - 0.1 * t) * before) break;
        if (worst_before <= floor || worst <= floor) return true;  // rounding: as good as it gets
        if (halvings >= 8) return false;
      }
      even_ = even_ && worst < 0.2f * worst_before;
      if (even_ && k == 0) set_mean_spacing();
    }
    return std::isfinite(size_) && worst <= std::max(atol * least, floor);
  }

 private:
  const Nodes* y_ = nullptr;
  float c_ = 0, steepest_ = 1;
  long total_ = 0;
  double size_ = 0, even_rtol_ = 0;
  bool even_ = false;
  NodeSums<kind> sums_;
  EvenSums<kind> even_sums_;
  Gmres gmres_;
  Array<float> old_, step_, work_;

  // Many evenly spaced nodes, weakly coupled: Z = Y is a good start, sums and J at Y are cheap, and later steps may take
  // J as if Z were evenly spaced too.
  bool start_evenly() {
    even_sums_.set_points(y_->grid.step, total_);
    even_sums_.fields(y_->q.data(), potential.data(), density.data(), density_slope.data());
    take_residual();
    const double strength = std::fabs(1 - steepest_);
    even_rtol_ = std::max(1e-5, 0.03 * strength * strength);  // what a Newton step leaves anyway
    return even_ = strength < 0.3;
  }

  void set_mean_spacing() {
    double mean = 0, weight = 0;
    for (long s = 0; s < total_; ++s) mean += y_->q[s] * m[s], weight += y_->q[s];
    const float flat = 0.6f * kFlat<kind>;  // to 1e-4, in a J that is not exact anyway
    even_rtol_ = 1e-3;
    even_sums_.set_points(y_->grid.step * static_cast<float>(mean / weight), total_, flat);
  }

  void evaluate() {
    sums_.set_points(points.data(), total_);
    sums_.fields(potential.data(), density.data(), density_slope.data());
    take_residual();
  }

  void take_residual() {
    const float *y = y_->x.data(), *z = points.data(), *g = potential.data(), *d = density.data();
    float *slope = m.data(), *left = r.data();
    Lanes most = {}, densest = load_lanes(d), squares = {};
    for (long s = 0; s < total_; s += 8) {
      const Lanes dense = load_lanes(d + s), place = load_lanes(y + s);
      const Lanes now = load_lanes(z + s) - place + c_ * load_lanes(g + s), size = larger(now, -now);
      // Else the rounding of one unit at 1e6 would hide how well the others are solved.
      const Lanes kept = size <= kUlps * larger(place, -place) ? Lanes{} : now;
      store_lanes(slope + s, 1 / (1 - c_ * dense)), store_lanes(left + s, kept);
      most = larger(most, larger(kept, -kept)), densest = larger(densest, dense), squares += kept * kept;
    }
    float sum = 0, high = densest[0];
    worst = 0;
    for (int k = 0; k < 8; ++k) sum += squares[k], worst = std::max(worst, most[k]), high = std::max(high, densest[k]);
    size_ = std::sqrt(sum);
    steepest_ = 1 - c_ * std::min(1.0f, high);
    least = std::min(1.0f, steepest_);
  }

  // -J^-1 r, J = (I + c K diag(q m)) diag(1 / m) with K the matrix of s'.
  void direction(float tol) {
    const float *q = y_->q.data(), *slope = m.data();
    float *b = work_.data(), *step = step_.data();
    for (long s = 0; s < total_; ++s) b[s] = -r[s];
    const double rtol = std::min(0.02, std::max(even_ ? even_rtol_ : 1e-5, 0.3 * tol / worst));
    gmres_.solve(b, step, total_, rtol, [&](const float* v, float* out) {
      float* w = even_ ? even_sums_.weights() : work_.data();
      for (long s = 0; s < total_; ++s) w[s] = q[s] * slope[s] * v[s];
      even_ ? even_sums_.smooth(out) : sums_.smooth(w, out);
      for (long s = 0; s < total_; ++s) out[s] = v[s] + c_ * out[s];
    });
    for (long s = 0; s < total_; ++s) step[s] *= slope[s];
  }

  // Z = old + t step, kept in order: differences of z are at least those of y times 1 / (1 + |c|) (1 for c > 0).
  void move(float t) {
    const float share = 0.5f * (c_ > 0 ? 1.0f : 1.0f / (1.0f - c_));
    float* z = points.data();
    const float* y = y_->x.data();
    for (long s = 0; s < total_; ++s) z[s] = old_[s] + t * step_[s];
    int crossed = 0;
    for (long s = 1; s < total_; ++s) crossed |= z[s] - z[s - 1] < share * (y[s] - y[s - 1]);
    if (!crossed) return;
    for (long s = 1; s < total_; ++s) z[s] = std::max(z[s], z[s - 1] + share * (y[s] - y[s - 1]));
  }
};

}  // namespace ibnn
