// The fast solver of a float row: spread the units on a few dozen nodes, solve there, go back to the units once.
#pragma once
#include <limits>

#include "nodes/cell_tables.h"
#include "nodes/node_adjoint.h"
#include "nodes/node_newton.h"
#include "sums/true_residual.h"

namespace ibnn {

template <Sigma kind> class NodeSolver {
 public:
  // False: this row is not for nodes (or they failed to reach the accuracy): use the units.
  bool find_roots(const float* y, long n, float c, float atol, float* z, double* residual, int* steps) {
    *steps = 0;
    float share = 1;
    const Survey survey(y, n);
    for (int attempt = 0; attempt < 3; ++attempt, share *= 0.5f) {
      if (!place(survey, y, n, c, atol, share) || !newton_.finish(0.2f * atol, steps)) return false;
      expand(c);
      back(y, n, z);
      *residual = measured(y, z, n, c, newton_.worst, true_, &excess_);
      if (excess_ <= atol * newton_.least || nodes_.by_unit) break;
    }
    const float tol = atol * newton_.least;  // a residual r is an error of at most r / least
    return excess_ <= std::min(4.0f * tol, 2.0f * tol + 3 * newton_.noise() * std::fabs(c));
  }

  bool solve_jacobian(const float* z, const float* g, long n, float c, float* v, double* residual, double* dots) {
    return adjoint_.solve(z, g, n, c, v, residual, dots);
  }

  static constexpr float kWidest = 0.5f;  // node spacing

  // The error of z goes with h^4 |c| m roughness; measured: at most 0.009 times that. For c > 0, z(y) is steeper than y by
  // up to m, and the nearest point where it is not smooth comes closer with m^(3/2): so do the nodes.
  static float spacing(float c, float atol, float least, float roughness) {
    const float strength = std::fabs(c) / least * roughness;
    const float h = std::sqrt(std::sqrt(45 * atol / std::max(1e-6f, strength)));
    return kScale * std::min(kWidest, std::max(kClosest, h)) * std::min(1.0f, std::max(0.05f, 1.3f * least * std::sqrt(least)));
  }

  // The true residual at a few units: enough to see the spline error, which can be large for units crowded in one place
  // of a cell. `excess` is without what rounding explains; both start at the residual on the nodes.
  static double measured(const float* y, const float* z, long n, float c, float on_nodes, TrueResidual<kind>& true_sums,
                         double* excess) {
    double sums[kSamples];
    long places[kSamples];
    const int samples = n <= 16384 ? kSamples : 2;
    sample(n, places, samples);
    true_sums.sums(z, n, places, samples, sums);
    return measured(y, z, c, on_nodes, places, sums, samples, excess);
  }

  static constexpr int kSamples = 6;
  static void sample(long n, long* places, int samples = kSamples) {
    for (long k = 0; k < samples; ++k) places[k] = (2 * k + 1) * n / (2 * samples);
  }
  // The same from the sums of s at these units.
  static double measured(const float* y, const float* z, float c, float on_nodes, const long* places, const double* sums,
                         int samples, double* excess) {
    double worst = *excess = on_nodes;
    for (int k = 0; k < samples; ++k) {
      const long j = places[k];
      const double r = std::fabs(static_cast<double>(z[j]) + c * sums[k] - y[j]);
      if (!std::isfinite(r)) return *excess = std::numeric_limits<double>::infinity();
      worst = std::max(worst, r);
      *excess = std::max(*excess, r - kUlps * std::fabs(y[j]));
    }
    return worst;
  }

 private:
  // The poles of arctan are nearer (see node_adjoint.h): at 0.5 its residuals are those of 0.34, which are rounding.
  static constexpr float kScale = kind == Sigma::arctan ? 0.5f : 1.0f, kClosest = 0.1f;
  Nodes nodes_;
  NodeNewton<kind> newton_;
  NodeAdjoint<kind> adjoint_;
  CellTable table_;
  TrueResidual<kind> true_;
  double excess_ = 0;  // measured residual without what rounding explains
  Array<float> value_, slope_, curvature_;

  // Nodes as close as a normal row needs (or a share of that); closer if this row is denser somewhere, or less even.
  bool place(const Survey& survey, const float* y, long n, float c, float atol, float share) {
    const long fewest = c > 0.5f ? 30 : 20;
    const float deviation = survey.deviation;
    float least = 1 - c * normal_density(deviation * normal_contraction(c, deviation));
    float h = spacing(c, atol, least, normal_roughness(deviation, n));
    for (int attempt = 0;; ++attempt) {
      if (!nodes_.place(survey, y, nullptr, n, share * h, fewest, NodeSums<kind>::limit, NodeSums<kind>::even_limit))
        return false;
      if (!NodeSums<kind>::serves(nodes_.x.data(), nodes_.total)) return false;
      newton_.start(nodes_, c);
      if (nodes_.by_unit || attempt > 0) return true;
      h = spacing(c, atol, newton_.slope_at_densest(), nodes_.roughness());
      if (nodes_.grid.step <= 1.15f * h) return true;
    }
  }

  // Per cell a polynomial of degree 5 for z - y: value, slope and curvature of the inverse function are known at nodes.
  void expand(float c) {
    if (nodes_.by_unit) return;
    for (auto* a : {&value_, &slope_, &curvature_}) a->resize(nodes_.total);
    const float h = nodes_.grid.step;
    const auto& at = newton_;
    for (long s = 0; s < nodes_.total; ++s) {
      const float m = at.m[s];
      value_[s] = at.r[s] * (1 - m) - c * at.potential[s];
      slope_[s] = (m - 1) * h;
      curvature_[s] = c * at.density_slope[s] * m * m * m * h * h;
    }
    const long first = nodes_.before + 1, count = nodes_.grid.cells + 1;
    table_.set_quintic(nodes_.grid.cells, value_.slot(first, count), slope_.slot(first, count),
                       curvature_.slot(first, count));
  }

  void back(const float* y, long n, float* z) {
    nodes_.each_unit(
        y, nullptr, n, z,
        [&](const float* x, const float*, long count, float* out) {
          in_chunks(count, [&](long first, long end) {
            table_.add_quintic(nodes_.grid, x + first, end - first, out + first);
          });
        },
        [&](long s, long i) { z[i] = newton_.points[s] - newton_.r[s] * newton_.m[s]; });
  }
};

}  // namespace ibnn
