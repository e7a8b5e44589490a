// The nodes that stand for the units of a row: an even grid, a grid with far units beside it, or the units themselves.
#pragma once
#include <utility>

#include "nodes/grid.h"
#include "nodes/survey.h"

namespace ibnn {

class Nodes {
 public:
  Grid grid;
  long total = 0;        // nodes, padded to a multiple of 8
  long real = 0;         // nodes without the padding
  long before = 0;       // nodes in front of the grid: units too far from the rest
  bool by_unit = false;  // every unit is a node
  bool split = false;    // some units are nodes of their own, the others are on the grid
  Array<float> x, q, qg;  // places, and the quadrature weights of the units and of the units times g

  bool even() const { return !by_unit && !split; }

  // Places nodes at most h apart, `fewest` cells at least and `limit` nodes at most (`even_limit`, if that is more and there
  // are not more nodes than units, where all are on a grid), for units `row` with weights g (or null). False: nodes are no
  // use here.
  bool place(const Survey& survey, const float* row, const float* g, long n, float h, long fewest, long limit,
             long even_limit = 0) {
    const float low = survey.low, high = survey.high;
    const float reach = std::max(std::fabs(low), std::fabs(high));
    if (!(high - low < 1e30f)) return false;
    split = by_unit = false, before = 0;
    far_low_.clear(), far_high_.clear();
    if (n <= 48) return false;  // few enough to be done in double
    if (high - low <= 1e-6f * reach) return false;
    const long most = std::min<long>(limit - 16, std::max<long>(n / 2, 56)), wanted = cells_for(low, high, h, fewest);
    if (wanted <= std::max(most, std::min(n, even_limit))) return on_grid(survey, row, g, n, wanted);
    return set_apart(row, g, n, most, h, fewest) || one_for_each(row, g, n, limit);
  }

  // How unevenly the units fill the cells: the largest second difference of the weights. Where they fill them evenly, the
  // errors of interpolation at different places of a cell cancel.
  float roughness() const {
    Lanes worst = {};
    for (long s = 0; s + 16 <= total; s += 8) {
      const float* w = q.slot(s, 10);
      const Lanes bend = load_lanes(w) - 2 * load_lanes(w + 1) + load_lanes(w + 2);
      worst = larger(worst, larger(bend, -bend));
    }
    for (long s = std::max(0L, total - 10); s + 2 < real; ++s)
      worst = larger(worst, spread_lanes(std::fabs(q[s] - 2 * q[s + 1] + q[s + 2])));
    float low, high;
    range_of(reinterpret_cast<const float*>(&worst), 8, &low, &high);
    return high;
  }

  // Calls grid_part(units, their weights, how many, out) for the units on the grid, and single(node, unit) for the rest.
  template <class GridPart, class Single>
  void each_unit(const float* row, const float* g, long n, float* out, GridPart grid_part, Single single) {
    if (by_unit) {
      for (long s = 0; s < n; ++s) single(s, sorted_[s].second);
      return;
    }
    if (!split) return grid_part(row, g, n, out);
    const long high = static_cast<long>(far_high_.size()), count = n - before - high;
    grid_part(inside_.data(), inside_g_.data(), count, inside_g_.data());
    in_chunks(count, [&](long first, long end) {
      for (long i = first; i < end; ++i) out[inside_index_[i]] = inside_g_[i];
    });
    for (long k = 0; k < before; ++k) single(k, far_low_[k].second);
    for (long k = 0; k < high; ++k) single(before + grid.nodes() + k, far_high_[k].second);
  }

 private:
  using Unit = std::pair<float, long>;
  Array<float> inside_, inside_g_;
  std::vector<Unit> far_low_, far_high_, sorted_;
  std::vector<long> inside_index_;

  static long cells_for(float low, float high, float h, long fewest) {
    const double cells = std::ceil((static_cast<double>(high) - low) / h);
    return cells < fewest ? fewest : (cells > 1e9 ? 1000000000L : static_cast<long>(cells));
  }

  void reserve(long count) {
    real = count;
    total = (count + 7) / 8 * 8;
    for (auto* a : {&x, &q, &qg}) a->resize(total);
  }

  // The padding stands far enough to the right to be sorted, and has no weight.
  void pad(float step) {
    for (long s = real; s < total; ++s) x[s] = x[s - 1] + step, q[s] = qg[s] = 0;
  }

  // Units that share one value cost no accuracy on a node.
  bool on_grid(const Survey& survey, const float* row, const float* g, long n, long cells) {
    float low = survey.low, high = survey.high;
    const float h = (high - low) / static_cast<float>(cells);
    if (survey.tied) {
      low = survey.tie - std::ceil((survey.tie - low) / h) * h;
      high = low + static_cast<float>(++cells) * h;
    }
    grid.cover(low, high, cells);
    if (!std::isfinite(grid.inverse)) return false;
    reserve(grid.nodes());
    for (long s = 0; s < real; ++s) x[s] = grid.node(s);
    grid.spread(row, g, n, q.data(), qg.data());
    pad(grid.step);
    return true;
  }

  bool one_for_each(const float* row, const float* g, long n, long limit) {
    if (n > limit - 8) return false;
    by_unit = true;
    sorted_.resize(n);
    for (long i = 0; i < n; ++i) sorted_[i] = {row[i], i};
    std::sort(sorted_.begin(), sorted_.end());
    reserve(n);
    const float weight = 1.0f / static_cast<float>(n);
    for (long s = 0; s < n; ++s) single(s, sorted_[s], weight, g);
    pad(1);
    return true;
  }

  void single(long s, const Unit& unit, float weight, const float* g) {
    x[s] = unit.first, q[s] = weight, qg[s] = g ? weight * g[unit.second] : 0;
  }

  // A few units far from the rest become nodes of their own; the grid covers the rest. False: too many of them.
  bool set_apart(const float* row, const float* g, long n, long most, float h, long fewest) {
    constexpr long kSample = 64;
    float sample[kSample];
    for (long k = 0; k < kSample; ++k) sample[k] = row[(k * n) / kSample];
    std::sort(sample, sample + kSample);
    const float width = sample[kSample - 7] - sample[6];
    const float low = sample[6] - 2.5f * width, high = sample[kSample - 7] + 2.5f * width;
    far_low_.clear(), far_high_.clear();
    for (long i = 0; i < n; ++i) {
      if (row[i] < low) far_low_.push_back({row[i], i});
      if (row[i] > high) far_high_.push_back({row[i], i});
    }
    if (static_cast<long>(far_low_.size() + far_high_.size()) > 64 + n / 16) return false;
    std::sort(far_low_.begin(), far_low_.end());
    std::sort(far_high_.begin(), far_high_.end());
    take_in(row, g, n, low, high, h);
    const long count = static_cast<long>(inside_index_.size()), far = n - count;
    if (count < 2) return false;
    const auto [from, to] = ends_of_row(inside_.data(), count);
    if (!(to - from > 1e-6f * std::max(std::fabs(to), std::fabs(from)))) return false;
    const long wanted = cells_for(from, to, h, fewest);
    if (wanted + far > most) return false;
    join(g, n, count, from, to, wanted);
    return true;
  }

  // The units on the grid: those between low and high, and far ones that no gap parts from them. The grid has a node
  // beyond each of its ends, and sums over nodes take them to be in order.
  void take_in(const float* row, const float* g, long n, float low, float high, float h) {
    float from = high, to = low;
    for (long i = 0; i < n; ++i)
      if (row[i] >= low && row[i] <= high) from = std::min(from, row[i]), to = std::max(to, row[i]);
    const float gap = 2 * h;
    while (!far_low_.empty() && from - far_low_.back().first < gap) from = far_low_.back().first, far_low_.pop_back();
    size_t first = 0;
    while (first < far_high_.size() && far_high_[first].first - to < gap) to = far_high_[first++].first;
    far_high_.erase(far_high_.begin(), far_high_.begin() + static_cast<long>(first));
    inside_.resize(n), inside_g_.resize(n);
    inside_index_.clear();
    for (long i = 0; i < n; ++i) {
      if (!(row[i] >= from && row[i] <= to)) continue;
      const long k = static_cast<long>(inside_index_.size());
      inside_[k] = row[i], inside_g_[k] = g ? g[i] : 0;
      inside_index_.push_back(i);
    }
  }

  void join(const float* g, long n, long count, float from, float to, long wanted) {
    split = true;
    before = static_cast<long>(far_low_.size());
    grid.cover(from, to, wanted);
    const long nodes = grid.nodes();
    reserve(before + nodes + static_cast<long>(far_high_.size()));
    grid.spread(inside_.data(), g ? inside_g_.data() : nullptr, count, q.slot(before, nodes), qg.slot(before, nodes));
    const float share = static_cast<float>(count) / static_cast<float>(n), weight = 1.0f / static_cast<float>(n);
    for (long s = 0; s < nodes; ++s) {
      x[before + s] = grid.node(s);
      q[before + s] *= share, qg[before + s] *= share;
    }
    for (long k = 0; k < before; ++k) single(k, far_low_[k], weight, g);
    for (long k = 0; k < static_cast<long>(far_high_.size()); ++k) single(before + nodes + k, far_high_[k], weight, g);
    pad(grid.step);
  }
};

}  // namespace ibnn
