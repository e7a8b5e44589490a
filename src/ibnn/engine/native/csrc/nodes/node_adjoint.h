// The linear solve of the backward pass on nodes: J v = g, J v = v + c (P_1(z, v) - v P_1(z, 1)).
//
// v_i = (g_i - c u(z_i)) m(z_i) with m = 1 / (1 - c P_1(z, 1)) and u = P_1(z, v), both functions on the nodes. A constant
// passes through J unchanged: the mean of g is taken out before and added after, so that it is not amplified by m.
#pragma once
#include <limits>

#include "nodes/cell_tables.h"
#include "sums/even_sums.h"
#include "nodes/gmres.h"
#include "nodes/node_guess.h"
#include "sums/node_sums.h"
#include "nodes/nodes.h"
#include "sums/true_residual.h"

namespace ibnn {

template <Sigma kind> class NodeAdjoint {
 public:
  // False: not for nodes, or they failed to reach the accuracy. `error` is an estimate of the relative error of v.
  bool solve(const float* z, const float* g, long n, float c, float* v, double* error, double* dots) {
    if (c > kNearest) return false;
    float share = outweighs(g, n) ? 0.5f : 1;
    const Survey survey(z, n);
    for (int attempt = 0; attempt < 2; ++attempt, share *= 0.6f) {
      if (!place(survey, z, g, n, c, share)) return false;
      // The noise of the sums is amplified by up to 1 + |c|.
      if (!even_ && c * sums_.noise() < -1e-5f) return false;
      // m enlarges what rounding leaves of d, which a few units do not show.
      if (nodes_.by_unit && c > 0 && c * sums_.most_noise(total_) * largest_m() > kRounded) return false;
      if (!solve_nodes(dots, n)) return false;
      back(z, g, n, v);
      *error = measured(z, g, v, n, c, true_);
      if (*error <= kAllowed) return true;
      if (nodes_.by_unit) return false;
    }
    return false;
  }

  // 1e-4 is promised, and a few units are a sample: accepted at 4e-5, rows of 200 units with a spread of 0.006 were off by up to
  // 1.1e-4 at c = 0.95.
  static constexpr double kAllowed = 2e-5;
  // Nearer to the threshold they are none: they showed 5e-6 of an error of 1e-4 at 0.985. Layers stay below 0.95.
  static constexpr float kNearest = 0.96f;
  static constexpr float kRounded = 3e-5f;

  // The error of v goes with h^4 |c| m roughness; measured: at most 0.1 times that, and for c < 0, where v is smaller
  // than g, a larger share of v. For c > 0, m = 1 / (1 - c d) has poles at a distance of about sqrt(1 - c d). The error of
  // v . B goes with h^4 roughness whatever c is (kWeakest).
  static float spacing(float c, float density, float roughness) {
    const float least = 1 - c * std::min(1.0f, density);
    const float strength =
        std::max(std::fabs(c) / (c > 0 ? least : std::sqrt(std::sqrt(least))), kWeakest) * roughness;
    const float h = std::sqrt(std::sqrt(3e-4f / std::max(1e-3f, strength)));
    return kScale * std::min(kWidest, std::max(kClosest, h)) * std::sqrt(std::min(1.0f, std::max(0.01f, 1.5f * least)));
  }

  // Whether one unit has most of g. The error of B between nodes does not average out in v . B then: with one unit of 485
  // (lognormal, c = -0.008) it was 1.3e-4 |v| |B|; nodes twice as close leave a sixteenth.
  static bool outweighs(const float* g, long n) {
    struct Part {
      double top, squares;
    };
    const Part all = joined_chunks(
        n, [=](long first, long end) { return Part{size_of(g + first, end - first), square_of(g + first, end - first)}; },
        [](Part& all, const Part& next) { all = {std::max(all.top, next.top), all.squares + next.squares}; });
    return outweighs(all.top, all.squares);
  }
  static bool outweighs(double top, double squares) { return top * top > 0.25 * squares; }

  // The relative error of v that its true residual, J v - g, speaks of at a few units: where J is near its diagonal the
  // error is m times it. The unit with the largest g is one of them, for it may outweigh all others.
  static double measured(const float* z, const float* g, const float* v, long n, float c, TrueResidual<kind>& true_sums) {
    double products[kSamples + 1], density[kSamples + 1];
    long places[kSamples + 1];
    sample(n, places);
    places[kSamples] = largest_of(g, n);
    true_sums.products(z, v, n, places, kSamples + 1, products, density);
    return measured(g, v, n, c, places, products, density, square_of(v, n));
  }

  static constexpr int kSamples = 6;
  static void sample(long n, long* places) {
    for (long k = 0; k < kSamples; ++k) places[k] = (2 * k + 1) * n / (2 * kSamples);
  }
  // The same from the sums at these units and at the one with the largest g; `size` is |v|^2.
  static double measured(const float* g, const float* v, long n, float c, const long* places, const double* products,
                         const double* density, double size) {
    double squares[kSamples + 1], rest = 0;
    for (long k = 0; k <= kSamples; ++k) {
      const long j = places[k];
      const double error = (static_cast<double>(v[j]) - g[j] + c * products[k]) / (1 - c * density[k]);
      squares[k] = error * error;
      if (k < kSamples) rest += squares[k] / kSamples;
    }
    if (!std::isfinite(size)) return std::numeric_limits<double>::infinity();
    return size > 0 ? std::sqrt((squares[kSamples] + static_cast<double>(n) * rest) / size) : 0;
  }

 private:
  // Largest and smallest node spacing; what is between follows from how strongly the units are coupled.
  // The poles of arctan are nearer, at 0.64 against 1.57: at 0.5 its v is right to 4e-6, that of tanh to 1e-5 (1024 normal
  // units of std 1 to 10, c = -1).
  static constexpr float kScale = kind == Sigma::arctan ? 0.5f : 1.0f, kWidest = 0.42f, kClosest = 0.06f;
  // Where c is smaller, v . B needs the nodes of this c: a crowd 0.2 wide on a grid that one unit at 27 has stretched was in
  // two cells of it, and v . B off by 3.5e-4 |v| |B| at c = -5e-5. Normal rows keep their nodes.
  static constexpr float kWeakest = 0.2f;
  Nodes nodes_;
  bool even_ = false;
  long total_ = 0;
  float c_ = 0, mean_ = 0;
  EvenSums<kind> even_sums_;
  NodeSums<kind> sums_;
  Gmres gmres_;
  CellTable table_;
  TrueResidual<kind> true_;
  Array<float> potential_, density_, density_slope_, m_, u_, u_slope_, rhs_, work_, part_, part_slope_, m_slope_;

  // Nodes as close as a normal row of this spread needs (or a share of that); closer if this row is denser somewhere, or
  // less even.
  bool place(const Survey& survey, const float* z, const float* g, long n, float c, float share) {
    c_ = c;
    const long fewest = c > 0.5f ? 30 : 20;
    const float deviation = survey.deviation;
    float h = spacing(c, normal_density(deviation), normal_roughness(deviation, n));
    for (int attempt = 0;; ++attempt) {
      if (!nodes_.place(survey, z, g, n, share * h, fewest, NodeSums<kind>::limit, NodeSums<kind>::even_limit)) return false;
      if (!NodeSums<kind>::serves(nodes_.x.data(), nodes_.total)) return false;
      evaluate();
      if (nodes_.by_unit || attempt > 0) return true;
      float low, high;
      range_of(density_.data(), total_, &low, &high);
      h = spacing(c, high, nodes_.roughness());
      if (nodes_.grid.step <= 1.15f * h) return true;
    }
  }

  // G, d and m = 1 / (1 - c d) at the nodes.
  void evaluate() {
    total_ = nodes_.total, even_ = nodes_.even();
    for (auto* a : {&potential_, &density_, &density_slope_, &m_, &u_, &u_slope_, &rhs_, &work_}) a->resize(total_);
    if (even_) {
      even_sums_.set_points(nodes_.grid.step, total_);
      even_sums_.fields(nodes_.q.data(), potential_.data(), density_.data(), density_slope_.data());
    } else {
      sums_.set_weights(nodes_.q.data(), total_);
      sums_.set_points(nodes_.x.data(), total_);
      sums_.fields(potential_.data(), density_.data(), density_slope_.data());
    }
    for (long s = 0; s < total_; ++s) m_[s] = 1.0f / (1.0f - c_ * density_[s]);
  }

  float largest_m() const {
    float low, high;
    range_of(m_.data(), total_, &low, &high);
    return high;
  }

  float* weights() { return even_ ? even_sums_.weights() : work_.data(); }
  void smooth(float* out) { even_ ? even_sums_.smooth(out) : sums_.smooth(work_.data(), out); }

  void centre() {
    float *q = nodes_.q.data(), *qg = nodes_.qg.data();
    double sum = 0, weight = 0;
    for (long s = 0; s < total_; ++s) sum += qg[s], weight += q[s];
    mean_ = static_cast<float>(sum / weight);
    for (long s = 0; s < total_; ++s) qg[s] -= mean_ * q[s];
  }

  // u on the nodes, (I + c K diag(q m)) u = K (qg m), K the matrix of s'; and v . B. False: not to the accuracy wanted.
  bool solve_nodes(double* dots, long n) {
    const double rtol = 1e-5 / ((1 + std::fabs(c_)) * std::min(20.0f, std::max(1.0f, largest_m())));
    centre();
    const float *q = nodes_.q.data(), *qg = nodes_.qg.data(), *m = m_.data();
    float* w = weights();
    for (long s = 0; s < total_; ++s) w[s] = qg[s] * m[s];
    smooth(rhs_.data());
    const double share = gmres_.solve(rhs_.data(), u_.data(), total_, rtol, [&](const float* x, float* out) {
      for (long s = 0; s < total_; ++s) w[s] = q[s] * m[s] * x[s];
      smooth(out);
      for (long s = 0; s < total_; ++s) out[s] = x[s] + c_ * out[s];
    });
    for (long s = 0; s < total_; ++s) w[s] = (qg[s] - c_ * q[s] * u_[s]) * m[s];  // v as node weights
    double sum = 0;
    for (long s = 0; s < total_; ++s) sum += static_cast<double>(w[s]) * potential_[s];
    *dots = sum * static_cast<double>(n);
    even_ ? even_sums_.smooth(u_.data(), u_slope_.data()) : sums_.smooth(w, u_.data(), u_slope_.data());
    return share <= 10 * rtol;
  }

  static double square_of(const float* x, long n) {
    return sum_of_chunks(n, [=](long first, long end) { return dot(x + first, x + first, end - first); });
  }

  static long largest_of(const float* g, long n) {
    struct Part {
      float top;
      long first;
    };
    const Part part = joined_chunks(
        n, [=](long first, long end) { return Part{static_cast<float>(size_of(g + first, end - first)), first}; },
        [](Part& all, const Part& next) { all = next.top > all.top ? next : all; });
    long at = part.first;
    while (std::fabs(g[at]) < part.top) ++at;
    return at;
  }

  // m and c u m (with the mean: c u m + mean (m - 1)) as cubics per cell, from their values and slopes at the nodes.
  void back(const float* z, const float* g, long n, float* v) {
    for (auto* a : {&part_, &part_slope_, &m_slope_}) a->resize(total_);
    const float h = nodes_.by_unit ? 0 : nodes_.grid.step;
    for (long s = 0; s < total_; ++s) {
      m_slope_[s] = h * c_ * density_slope_[s] * m_[s] * m_[s];
      part_[s] = c_ * (u_[s] + mean_ * density_[s]) * m_[s];  // m - 1 = c d m
      part_slope_[s] = c_ * (h * u_slope_[s] * m_[s] + u_[s] * m_slope_[s]) + mean_ * m_slope_[s];
    }
    const Grid& grid = nodes_.grid;
    if (!nodes_.by_unit) {
      const long first = nodes_.before + 1, count = grid.cells + 1;
      table_.set_cubics(grid.cells, m_.slot(first, count), m_slope_.slot(first, count), part_.slot(first, count),
                        part_slope_.slot(first, count));
    }
    nodes_.each_unit(
        z, g, n, v,
        [&](const float* x, const float* weight, long count, float* out) {
          in_chunks(count, [&](long first, long end) {
            table_.apply_cubics(grid, x + first, weight + first, end - first, out + first);
          });
        },
        [&](long s, long i) { v[i] = g[i] * m_[s] - part_[s]; });
  }
};

}  // namespace ibnn
