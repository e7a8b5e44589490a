// The fast solver of a float row: spread the units on a few dozen nodes, solve there, go back to the units once.
#pragma once
#include <algorithm>
#include <limits>

#include "gmres.h"
#include "grid.h"
#include "node_sums.h"

namespace ibnn {

template <Sigma kind> class NodeSolver {
 public:
  // False: this row is not for nodes (or they failed to reach the accuracy): use the units.
  bool find_roots(const float* y, long n, float c, float atol, float* z, double* residual, int* steps) {
    float h = spacing(atol, c), tol = atol;
    *steps = 0;
    for (int attempt = 0; attempt < 3; ++attempt, h *= 0.5f) {
      if (!place_for(y, nullptr, n, h, c, 0.75f)) return false;
      tol = atol * least_;  // a residual r is an error of at most r / least_
      if (!newton(c, 0.2f * tol, steps)) return false;
      expand(c);
      back(y, n, z);
      *residual = measured(y, z, n, c);
      if (excess_ <= tol || by_unit_) break;
    }
    return excess_ <= std::min(4.0f * tol, 2.0f * tol + 3 * sums_.noise() * std::fabs(c));
  }

  bool solve_jacobian(const float* z, const float* g, long n, float c, float* v, double* residual, double* dots) {
    // m = 1 / (1 - c d) bends faster than d where c d comes near 1.
    if (!place_for(z, g, n, kLinearSpacing, c, 0.6f)) return false;
    points_.resize(total_);
    std::copy(y_.data(), y_.data() + total_, points_.data());
    evaluate(c);
    // The noise of the sums is amplified by up to 1 + |c|.
    if (c * sums_.noise() < -1e-5f) return false;
    for (auto* a : {&u_, &u_slope_, &rhs_}) a->resize(total_);
    for (long s = 0; s < total_; ++s) work_[s] = qg_[s] * m_[s];
    sums_.smooth(work_.data(), rhs_.data());
    float low, high;
    range_of(m_.data(), total_, &low, &high);
    const double rtol = 1e-5 / ((1 + std::fabs(c)) * std::min(20.0f, std::max(1.0f, high)));
    *residual = solve_nodes(c, rhs_.data(), u_.data(), rtol);
    for (long s = 0; s < total_; ++s) work_[s] = (qg_[s] - c * q_[s] * u_[s]) * m_[s];  // v as node weights
    sums_.smooth(work_.data(), u_.data(), u_slope_.data());
    if (dots) {
      double sum = 0;
      for (long s = 0; s < total_; ++s) sum += static_cast<double>(work_[s]) * potential_[s];
      *dots = sum * static_cast<double>(n);
    }
    back_jacobian(z, g, n, c, v);
    return *residual <= 10 * rtol;
  }

 private:
  // Node spacings: of z(y), adapted to the accuracy asked for, and of the linear solve.
  static constexpr float kSpacing = kind == Sigma::arctan ? 0.12f : 0.36f;
  static constexpr float kLinearSpacing = kind == Sigma::arctan ? 0.068f : 0.2f;
  static constexpr float kUlps = 2.5e-7f;  // residuals below this share of |y| are rounding
  Grid grid_;
  NodeSums<kind> sums_;
  Gmres gmres_;
  long fewest_ = 30;
  long total_ = 0;   // nodes, padded to a multiple of 8
  long before_ = 0;  // nodes in front of the grid: units too far from the rest
  long real_ = 0;    // nodes without the padding
  bool by_unit_ = false, split_ = false;
  float reach_ = 0, worst_ = 0;
  float least_ = 1;    // the smallest eigenvalue of J: for c > 0, 1 - c d at the densest place of y (z only moves apart)
  double excess_ = 0;  // measured residual without what rounding explains
  Array<float> y_, q_, qg_, points_, trial_, r_, m_, potential_, density_, density_slope_, rhs_, delta_, work_, u_,
      u_slope_, table_, inside_, inside_g_;
  std::vector<std::pair<float, long>> far_low_, far_high_, sorted_;
  std::vector<long> inside_index_;

  // The spline error goes with h^4: this keeps it a few times below atol.
  static float spacing(float atol, float c) {
    const float share = atol / (2e-5f * std::min(2.f, std::max(0.1f, std::fabs(c))));
    return kSpacing * std::min(1.25f, std::max(0.3f, std::sqrt(std::sqrt(share))));
  }

  // For c > 0 z(y) is steeper than y by at most 1 / (1 - c max d), d taken at z = y (z only moves apart): if that factor
  // is below `slack`, the nodes are set again, as much closer.
  bool place_for(const float* x, const float* g, long n, float h, float c, float slack) {
    fewest_ = c > 0.5f ? 30 : 20;
    least_ = c > 0 ? 1 - c : 1;
    if (!place(x, g, n, h)) return false;
    if (c <= 1 - slack || by_unit_) return true;
    least_ = std::max(least_, least_slope(c));
    return least_ > slack || place(x, g, n, h * std::max(0.05f, least_));
  }

  // The smallest 1 - c d if the nodes stay where they are.
  float least_slope(float c) {
    points_.resize(total_);
    std::copy(y_.data(), y_.data() + total_, points_.data());
    evaluate(c);
    float low, high;
    range_of(density_.data(), total_, &low, &high);
    return 1 - c * std::min(1.0f, high);
  }

  // Choose the nodes and their weights for units x (and weights g).
  bool place(const float* x, const float* g, long n, float h) {
    float low, high;
    range_of(x, n, &low, &high);
    reach_ = std::max(std::fabs(low), std::fabs(high));
    if (!(high - low < 1e30f)) return false;
    const long most = std::min<long>(NodeSums<kind>::limit - 16, std::max<long>(n / 2, 56));
    split_ = by_unit_ = false;
    far_low_.clear(), far_high_.clear();
    if (n <= 48) return false;  // few enough to be done in double
    const long wanted = cells_for(low, high, h);
    if (high - low <= 1e-6f * reach_) return false;
    if (wanted <= most) return nodes_on_grid(x, g, n, low, high, wanted);
    if (!split(x, g, n, most, h)) return nodes_are_units(x, g, n);
    return true;
  }

  long cells_for(float low, float high, float h) const {
    const double cells = std::ceil((static_cast<double>(high) - low) / h);
    return cells < fewest_ ? fewest_ : (cells > 1e9 ? 1000000000L : static_cast<long>(cells));
  }

  void reserve(long real) {
    real_ = real;
    total_ = (real + 7) / 8 * 8;
    for (auto* a : {&y_, &q_, &qg_, &work_}) a->resize(total_);
  }

  // The padding stands far enough to the right to be sorted, and has no weight.
  void pad() {
    for (long s = real_; s < total_; ++s) y_[s] = y_[s - 1] + grid_.step, q_[s] = qg_[s] = 0;
    sums_.set_weights(q_.data(), total_);
  }

  bool nodes_on_grid(const float* x, const float* g, long n, float low, float high, long cells) {
    before_ = 0;
    float tie;
    const float h = (high - low) / static_cast<float>(cells);
    if (has_tie(x, n, &tie)) {
      low = tie - std::ceil((tie - low) / h) * h;
      high = low + static_cast<float>(++cells) * h;
    }
    grid_.cover(low, high, cells);
    if (!std::isfinite(grid_.inverse)) return false;
    reserve(grid_.nodes());
    for (long s = 0; s < real_; ++s) y_[s] = grid_.node(s);
    grid_.spread(x, g, n, q_.data(), qg_.data());
    pad();
    return true;
  }

  // Whether many units share one value, as the background of an image does: on a node they cost no accuracy.
  static bool has_tie(const float* x, long n, float* tie) {
    for (long j : {0L, n / 3, n - 1}) {
      long equal = 0;
      for (long i = 0; i < n; ++i) equal += x[i] == x[j];
      if (equal > n / 16) return *tie = x[j], true;
    }
    return false;
  }

  bool nodes_are_units(const float* x, const float* g, long n) {
    if (n > NodeSums<kind>::limit - 8) return false;
    by_unit_ = true;
    sorted_.resize(n);
    for (long i = 0; i < n; ++i) sorted_[i] = {x[i], i};
    std::sort(sorted_.begin(), sorted_.end());
    before_ = 0, grid_.step = 1;
    reserve(n);
    const float weight = 1.0f / static_cast<float>(n);
    for (long s = 0; s < n; ++s) y_[s] = sorted_[s].first, q_[s] = weight, qg_[s] = g ? weight * g[sorted_[s].second] : 0;
    pad();
    return true;
  }

  // A few units far from the rest become nodes of their own; the grid covers the rest. False: too many of them.
  bool split(const float* x, const float* g, long n, long most, float h) {
    constexpr long kSample = 64;
    float sample[kSample];
    for (long k = 0; k < kSample; ++k) sample[k] = x[(k * n) / kSample];
    std::sort(sample, sample + kSample);
    const float width = sample[kSample - 7] - sample[6];
    float low = sample[6] - 2.5f * width, high = sample[kSample - 7] + 2.5f * width;
    inside_.resize(n), inside_g_.resize(n);
    inside_index_.resize(n);
    long count = 0;
    float from = high, to = low;
    for (long i = 0; i < n; ++i) {
      if (x[i] < low)
        far_low_.push_back({x[i], i});
      else if (x[i] > high)
        far_high_.push_back({x[i], i});
      else {
        inside_[count] = x[i], inside_g_[count] = g ? g[i] : 0, inside_index_[count++] = i;
        from = std::min(from, x[i]), to = std::max(to, x[i]);
      }
    }
    const long far = static_cast<long>(far_low_.size() + far_high_.size());
    if (count < 2 || far > 64 + n / 16 || !(to - from > 1e-6f * std::max(std::fabs(to), std::fabs(from)))) return false;
    const long wanted = cells_for(from, to, h);
    if (wanted + far > most) return false;
    split_ = true;
    join(g, n, count, from, to, wanted);
    return true;
  }

  void join(const float* g, long n, long count, float from, float to, long wanted) {
    std::sort(far_low_.begin(), far_low_.end());
    std::sort(far_high_.begin(), far_high_.end());
    before_ = static_cast<long>(far_low_.size());
    grid_.cover(from, to, wanted);
    const long nodes = grid_.nodes();
    reserve(before_ + nodes + static_cast<long>(far_high_.size()));
    grid_.spread(inside_.data(), g ? inside_g_.data() : nullptr, count, q_.slot(before_, nodes), qg_.slot(before_, nodes));
    const float share = static_cast<float>(count) / static_cast<float>(n), weight = 1.0f / static_cast<float>(n);
    for (long s = 0; s < nodes; ++s) {
      y_[before_ + s] = grid_.node(s);
      q_[before_ + s] *= share, qg_[before_ + s] *= share;
    }
    auto single = [&](long s, const std::pair<float, long>& unit) {
      y_[s] = unit.first, q_[s] = weight, qg_[s] = g ? weight * g[unit.second] : 0;
    };
    for (long k = 0; k < before_; ++k) single(k, far_low_[k]);
    for (long k = 0; k < static_cast<long>(far_high_.size()); ++k) single(before_ + nodes + k, far_high_[k]);
    pad();
  }

  // G, d and m = 1 / (1 - c d) at the points.
  void evaluate(float c) {
    for (auto* a : {&potential_, &density_, &density_slope_, &m_}) a->resize(total_);
    sums_.set_points(points_.data(), total_);
    sums_.fields(potential_.data(), density_.data(), density_slope_.data());
    for (long s = 0; s < total_; ++s) m_[s] = 1.0f / (1.0f - c * density_[s]);
  }

  // (I + c K diag(q m)) x = b with K the matrix of s'.
  double solve_nodes(float c, const float* b, float* x, double rtol) {
    return gmres_.solve(b, x, total_, rtol, [&](const float* v, float* out) {
      for (long s = 0; s < total_; ++s) work_[s] = q_[s] * m_[s] * v[s];
      sums_.smooth(work_.data(), out);
      for (long s = 0; s < total_; ++s) out[s] = v[s] + c * out[s];
    });
  }

  double node_residual(float c) {
    float low, high;
    for (long s = 0; s < total_; ++s) {
      const float r = points_[s] - y_[s] + c * potential_[s];
      // Else the rounding of one unit at 1e6 would hide how well the others are solved.
      r_[s] = std::fabs(r) <= kUlps * std::fabs(y_[s]) ? 0.0f : r;
    }
    range_of(r_.data(), total_, &low, &high);
    worst_ = std::max(-low, high);
    return std::sqrt(dot(r_.data(), r_.data(), total_));
  }

  bool newton(float c, float tol, int* steps) {
    for (auto* a : {&points_, &trial_, &r_, &rhs_, &delta_}) a->resize(total_);
    std::copy(y_.data(), y_.data() + total_, points_.data());
    evaluate(c);
    double size = node_residual(c);
    const float floor = 3 * sums_.noise() * std::fabs(c) + kUlps;
    for (int k = 0; k < 40 && worst_ > tol; ++k) {
      ++*steps;
      for (long s = 0; s < total_; ++s) rhs_[s] = -r_[s];
      const double rtol = std::min(0.02, std::max(1e-5, 0.3 * tol / worst_));
      solve_nodes(c, rhs_.data(), delta_.data(), rtol);
      for (long s = 0; s < total_; ++s) delta_[s] *= m_[s];
      std::copy(points_.data(), points_.data() + total_, trial_.data());
      const double before = size;
      const float worst_before = worst_;
      double t = 1;
      for (int halvings = 0;; ++halvings, t *= 0.5) {
        move(static_cast<float>(t), c);
        evaluate(c);
        size = node_residual(c);
        if (size <= (1 - 0.1 * t) * before) break;
        if (worst_before <= floor || worst_ <= floor) return true;  // rounding: as good as it gets
        if (halvings >= 8) return false;
      }
    }
    return worst_ <= std::max(tol, floor);
  }

  // points = trial + t delta, kept in order: differences of z are at least those of y times 1 / (1 + |c|) (1 for c > 0).
  void move(float t, float c) {
    const float least = 0.5f * (c > 0 ? 1.0f : 1.0f / (1.0f - c));
    for (long s = 0; s < total_; ++s) points_[s] = trial_[s] + t * delta_[s];
    int crossed = 0;
    for (long s = 1; s < total_; ++s) crossed |= points_[s] - points_[s - 1] < least * (y_[s] - y_[s - 1]);
    if (!crossed) return;
    for (long s = 1; s < total_; ++s)
      points_[s] = std::max(points_[s], points_[s - 1] + least * (y_[s] - y_[s - 1]));
  }

  // Per cell a polynomial of degree 5 for z - y: value, slope and curvature of the inverse function are known at nodes.
  void expand(float c) {
    if (by_unit_) return;
    table_.resize(grid_.cells * 8);
    const float h = grid_.step;
    for (auto* a : {&delta_, &trial_, &rhs_}) a->resize(total_);
    for (long s = 0; s < total_; ++s) {
      delta_[s] = r_[s] * (1 - m_[s]) - c * potential_[s];
      trial_[s] = (m_[s] - 1) * h;
      rhs_[s] = c * density_slope_[s] * m_[s] * m_[s] * m_[s] * h * h;
    }
    for (long k = 0; k < grid_.cells; ++k) {
      const long s = before_ + k + 1;
      const float p0 = trial_[s], k0 = rhs_[s];
      const float a = delta_[s + 1] - delta_[s] - p0 - 0.5f * k0, b = trial_[s + 1] - p0 - k0, d = rhs_[s + 1] - k0;
      const Lanes row = {delta_[s], p0, 0.5f * k0, 10 * a - 4 * b + 0.5f * d, -15 * a + 7 * b - d,
                         6 * a - 3 * b + 0.5f * d, 0, 0};
      store_lanes(table_.slot(k * 8, 8), row);
    }
  }

  void back(const float* y, long n, float* z) {
    if (by_unit_) {
      for (long s = 0; s < n; ++s) z[sorted_[s].second] = points_[s] - r_[s] * m_[s];
      return;
    }
    if (!split_) return gather(y, n, z);
    const long count = static_cast<long>(inside_index_.size()) - static_cast<long>(far_low_.size() + far_high_.size());
    gather(inside_.data(), count, inside_g_.data());
    for (long i = 0; i < count; ++i) z[inside_index_[i]] = inside_g_[i];
    for (long k = 0; k < before_; ++k) z[far_low_[k].second] = points_[k] - r_[k] * m_[k];
    for (long k = 0; k < static_cast<long>(far_high_.size()); ++k) {
      const long s = before_ + grid_.nodes() + k;
      z[far_high_[k].second] = points_[s] - r_[s] * m_[s];
    }
  }

  void gather(const float* y, long n, float* z) {
    constexpr long kBlock = 256;
    int cell[kBlock + 8] = {};
    float place[kBlock + 8] = {};
    for (long first = 0; first < n; first += kBlock) {
      const long m = std::min(kBlock, n - first);
      grid_.locate(y + first, m, cell, place);
      long i = 0;
      for (; i + 8 <= m; i += 8) {
        Lanes row[8];
        for (int k = 0; k < 8; ++k) row[k] = load_lanes(table_.slot(cell[i + k] * 8L, 8));
        transpose(row);
        const Lanes f = load_lanes(place + i);
        Lanes p = row[5];
        for (int k = 4; k >= 0; --k) p = fused(p, f, row[k]);
        store_lanes(z + first + i, load_lanes(y + first + i) + p);
      }
      for (; i < m; ++i) {
        const float* t = table_.slot(cell[i] * 8L, 8);
        const float f = place[i];
        z[first + i] = y[first + i] + (((((t[5] * f + t[4]) * f + t[3]) * f + t[2]) * f + t[1]) * f + t[0]);
      }
    }
  }

  // The true residual, summed over all units, at a few of them: enough to see the spline error, which can be large for
  // units crowded in one place of a cell.
  double measured(const float* y, const float* z, long n, float c) {
    double worst = excess_ = worst_;
    const long samples = n <= 16384 ? 6 : 2;
    const bool close = exponentials(z, n);
    for (long k = 0; k < samples; ++k) {
      const long j = (2 * k + 1) * n / (2 * samples);
      const double sum = close ? sum_of_ratios(j, n) : sum_of_values(z, j, n);
      const double r = std::fabs(static_cast<double>(z[j]) + c * sum / static_cast<double>(n) - y[j]);
      worst = std::max(worst, r);
      excess_ = std::max(excess_, r - kUlps * std::fabs(y[j]));
    }
    return worst;
  }

  // exp(2 z) of all units into table_, if sigma is tanh and they are close enough not to overflow.
  bool exponentials(const float* z, long n) {
    if (kind != Sigma::tanh) return false;
    float low, high;
    range_of(z, n, &low, &high);
    if (!(high - low < 80)) return false;
    const float middle = 0.5f * (low + high);
    table_.resize(n);
    float* e = table_.slot(0, n);
    for (long i = 0; i < n; ++i) e[i] = fast_exp(2 * (z[i] - middle));
    return true;
  }

  // tanh(a - b) = (e^2a - e^2b) / (e^2a + e^2b): a division for each pair instead of an exponential.
  double sum_of_ratios(long j, long n) {
    const float* e = table_.slot(0, n);
    const float own = e[j];
    return in_parts(n, [&](long i) { return (e[i] - own) / (e[i] + own); });
  }

  static double sum_of_values(const float* z, long j, long n) {
    const float own = z[j];
    return in_parts(n, [&](long i) { return Nonlinearity<kind>::value(z[i] - own); });
  }

  // A sum in float, a part at a time, and of the parts in double.
  template <class Term> static double in_parts(long n, Term term) {
    double sum = 0;
    for (long first = 0; first < n; first += 512) {
      float part = 0;
      const long end = std::min<long>(first + 512, n);
      for (long i = first; i < end; ++i) part += term(i);
      sum += part;
    }
    return sum;
  }

  // v_i = (g_i - c u(z_i)) m(z_i): m and c u m as cubics per cell, from their values and slopes at the nodes.
  void back_jacobian(const float* z, const float* g, long n, float c, float* v) {
    auto& w = delta_;
    auto& w_slope = trial_;
    auto& m_slope = rhs_;
    for (auto* a : {&w, &w_slope, &m_slope}) a->resize(total_);
    for (long s = 0; s < total_; ++s) {
      m_slope[s] = c * density_slope_[s] * m_[s] * m_[s];
      w[s] = c * u_[s] * m_[s];
      w_slope[s] = c * (u_slope_[s] * m_[s] + u_[s] * m_slope[s]);
    }
    auto single = [&](long s, long i) { v[i] = g[i] * m_[s] - w[s]; };
    if (by_unit_) {
      for (long s = 0; s < n; ++s) single(s, sorted_[s].second);
      return;
    }
    table_.resize(grid_.cells * 8);
    const float h = grid_.step;
    for (long k = 0; k < grid_.cells; ++k) {
      const long s = before_ + k + 1;
      float* t = table_.slot(k * 8, 8);
      cubic(m_[s], m_slope[s] * h, m_[s + 1], m_slope[s + 1] * h, t);
      cubic(w[s], w_slope[s] * h, w[s + 1], w_slope[s + 1] * h, t + 4);
    }
    if (!split_) return gather_jacobian(z, g, n, v);
    const long count = static_cast<long>(inside_index_.size()) - static_cast<long>(far_low_.size() + far_high_.size());
    gather_jacobian(inside_.data(), inside_g_.data(), count, inside_g_.data());
    for (long i = 0; i < count; ++i) v[inside_index_[i]] = inside_g_[i];
    for (long k = 0; k < before_; ++k) single(k, far_low_[k].second);
    for (long k = 0; k < static_cast<long>(far_high_.size()); ++k)
      single(before_ + grid_.nodes() + k, far_high_[k].second);
  }

  static void cubic(float a, float slope_a, float b, float slope_b, float* t) {
    t[0] = a, t[1] = slope_a;
    t[2] = 3 * (b - a) - 2 * slope_a - slope_b;
    t[3] = 2 * (a - b) + slope_a + slope_b;
  }

  void gather_jacobian(const float* z, const float* g, long n, float* v) {
    constexpr long kBlock = 256;
    int cell[kBlock];
    float place[kBlock];
    for (long first = 0; first < n; first += kBlock) {
      const long m = std::min(kBlock, n - first);
      grid_.locate(z + first, m, cell, place);
      long i = 0;
      for (; i + 8 <= m; i += 8) {
        Lanes row[8];
        for (int k = 0; k < 8; ++k) row[k] = load_lanes(table_.slot(cell[i + k] * 8L, 8));
        transpose(row);
        const Lanes f = load_lanes(place + i);
        const Lanes diag = fused(fused(fused(row[3], f, row[2]), f, row[1]), f, row[0]);
        const Lanes rest = fused(fused(fused(row[7], f, row[6]), f, row[5]), f, row[4]);
        store_lanes(v + first + i, load_lanes(g + first + i) * diag - rest);
      }
      for (; i < m; ++i) {
        const float* t = table_.slot(cell[i] * 8L, 8);
        const float f = place[i];
        v[first + i] = g[first + i] * (((t[3] * f + t[2]) * f + t[1]) * f + t[0]) - (((t[7] * f + t[6]) * f + t[5]) * f + t[4]);
      }
    }
  }
};

}  // namespace ibnn
