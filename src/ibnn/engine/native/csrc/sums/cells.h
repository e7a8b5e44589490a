// Sums over all pairs of a row, P_n(z, a)_i = (1/D) sum_k a_k s_n(z_k - z_i), in O(D), in double, for any range.
//
// A one-dimensional fast multipole method. Units fall into cells of fixed width; a cell is described by M Chebyshev
// moments (smooth sigma: the error falls like 6^-M). Cells far apart talk through cells twice, four times, ... as wide.
// Only occupied cells exist, so a unit at 1e30 costs one more cell per level, not memory for the range; and it does not cost
// the others their digits, since places are kept as a cell and the way from its left end.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>

#include "basics/checked.h"
#include "basics/sigma.h"

namespace ibnn {

constexpr int kMaxLevels = 60;

// Matrices of the method: they depend on sigma only and are shared by all rows and threads.
template <int M> class CellTables {
 public:
  // Local coefficients += matrix(order, level, offset) * moments; offset = source cell - target cell, |offset| <= 3.
  struct Matrix { double at[M][M]; };
  struct Level { Matrix offset[7]; };
  Matrix shift[2];  // moments of a left/right half cell -> moments of the whole cell

  static const CellTables& of(Sigma kind) {
    static const CellTables tables[4] = {{Sigma::tanh}, {Sigma::hardtanh}, {Sigma::arctan}, {Sigma::erf}};
    return tables[static_cast<int>(kind)];
  }
  const Level& level(int order, int l) const {
    auto& slot = const_cast<CellTables*>(this)->levels_[order][l];
    std::call_once(const_cast<CellTables*>(this)->made_[order][l], [&] { slot.reset(make(order, l)); });
    return *slot;
  }

 private:
  Sigma kind_;
  double node_[M], to_coefficients_[M][M];
  std::unique_ptr<Level> levels_[4][kMaxLevels];
  std::once_flag made_[4][kMaxLevels];

  CellTables(Sigma kind) : kind_(kind) {
    for (int j = 0; j < M; ++j) node_[j] = std::cos(kPi * (j + 0.5) / M);
    for (int n = 0; n < M; ++n)
      for (int j = 0; j < M; ++j)
        to_coefficients_[n][j] = (n ? 2.0 : 1.0) / M * std::cos(kPi * n * (j + 0.5) / M);
    for (int side = 0; side < 2; ++side)
      for (int n = 0; n < M; ++n)
        for (int m = 0; m < M; ++m) {
          double sum = 0;
          for (int j = 0; j < M; ++j)
            sum += to_coefficients_[m][j] * std::cos(n * std::acos((node_[j] + (side ? 1 : -1)) / 2));
          shift[side].at[n][m] = sum;
        }
  }
  Level* make(int order, int l) const {
    auto* level = new Level;
    const double width = std::ldexp(cell_width(kind_), l);
    for (int offset = -3; offset <= 3; ++offset) {
      double pairs[M][M], half[M][M];
      for (int i = 0; i < M; ++i)
        for (int j = 0; j < M; ++j)
          pairs[i][j] = derivative(kind_, order, width * (offset + (node_[j] - node_[i]) / 2));
      for (int n = 0; n < M; ++n)
        for (int j = 0; j < M; ++j) {
          half[n][j] = 0;
          for (int i = 0; i < M; ++i) half[n][j] += to_coefficients_[n][i] * pairs[i][j];
        }
      // Transposed (source moment first): the inner loop of the product then runs over targets, without reductions.
      auto& out = level->offset[offset + 3].at;
      for (int m = 0; m < M; ++m)
        for (int n = 0; n < M; ++n) {
          out[m][n] = 0;
          for (int j = 0; j < M; ++j) out[m][n] += half[n][j] * to_coefficients_[m][j];
        }
    }
    return level;
  }
};

template <int M> class CellSums {
 public:
  explicit CellSums(Sigma kind) : kind_(kind), tables_(CellTables<M>::of(kind)) {}

  void set_points(const double* z, long n) {
    n_ = n;
    place(z);
    build_levels();
  }

  // out_i = (1/D) sum_k a_k s_order(z_k - z_i); a = nullptr means ones.
  void sum(const double* a, int order, double* out) {
    moments(a);
    interact(order);
    evaluate(out);
  }

 private:
  static constexpr int W = 8;  // units handled side by side in one SIMD loop
  static constexpr double kLong = 1 << 15;  // cells; places counted from the lowest unit lose five digits then
  static constexpr double kLongestGap = 8589934592.0;  // cells
  const Sigma kind_;
  const CellTables<M>& tables_;
  long n_ = 0;
  int levels_ = 0;
  Array<long> order_;             // units sorted by cell
  Array<double> local_;           // position inside the cell, in [-1, 1], in that order
  Array<double> weight_, result_;
  Array<int64_t> key_;
  Array<long> count_;
  struct Cell { int64_t key; long first, last, parent; };  // children (level 0: units) first..last-1
  std::vector<Cell> cells_[kMaxLevels];
  Array<double> moment_[kMaxLevels], field_[kMaxLevels];
  std::vector<std::pair<int64_t, long>> sorter_;
  std::vector<std::pair<double, long>> in_order_;

  void place(const double* z) {
    const double width = cell_width(kind_);
    order_.resize(n_), local_.resize(n_), weight_.resize(n_ + W), result_.resize(n_ + W), key_.resize(n_);
    double low = z[0], high = z[0];
    for (long i = 0; i < n_; ++i) low = std::min(low, z[i]), high = std::max(high, z[i]);
    if (!(high - low < kLong * width)) return place_in_order(z, width);
    for (long i = 0; i < n_; ++i) key_[i] = static_cast<int64_t>(std::floor((z[i] - low) / width));
    sort_by_cell(static_cast<int64_t>(std::floor((high - low) / width)) + 1);
    for (long j = 0; j < n_; ++j) {
      const long i = order_[j];
      const double x = 2 * ((z[i] - low) / width - static_cast<double>(key_[i])) - 1;
      local_[j] = std::min(1.0, std::max(-1.0, x));
    }
  }

  // From one unit to the next: counted from a unit at -1e18, those around 0 would all be in one place. Beyond 2^33 cells s
  // is flat to 1e-10, so longer gaps are all alike.
  void place_in_order(const double* z, double width) {
    in_order_.resize(n_);
    for (long i = 0; i < n_; ++i) in_order_[i] = {z[i], i};
    std::sort(in_order_.begin(), in_order_.end());
    int64_t key = 0;
    double inside = 0;
    for (long j = 0; j < n_; ++j) {
      if (j > 0) {
        const double on = inside + std::min(kLongestGap, (in_order_[j].first - in_order_[j - 1].first) / width);
        key += static_cast<int64_t>(std::floor(on)), inside = on - std::floor(on);
      }
      order_[j] = in_order_[j].second;
      key_[order_[j]] = key;
      local_[j] = 2 * inside - 1;
    }
  }

  void sort_by_cell(int64_t span) {
    if (span <= 2 * n_ + 64) {
      count_.resize(span + 1);
      count_.fill(0);
      for (long i = 0; i < n_; ++i) ++count_[key_[i] + 1];
      for (long k = 0; k < span; ++k) count_[k + 1] += count_[k];
      for (long i = 0; i < n_; ++i) order_[count_[key_[i]]++] = i;
      return;
    }
    sorter_.resize(n_);
    for (long i = 0; i < n_; ++i) sorter_[i] = {key_[i], i};
    std::sort(sorter_.begin(), sorter_.end());
    for (long i = 0; i < n_; ++i) order_[i] = sorter_[i].second;
  }

  void build_levels() {
    for (auto& level : cells_) level.clear();
    auto& base = cells_[0];
    for (long j = 0; j < n_; ++j) {
      const int64_t key = key_[order_[j]];
      if (base.empty() || base.back().key != key) base.push_back({key, j, j, 0});
      base.back().last = j + 1;
    }
    levels_ = 1;
    while (levels_ < kMaxLevels && cells_[levels_ - 1].back().key - cells_[levels_ - 1].front().key > 3) add_level();
    for (int l = 0; l < levels_; ++l) {
      moment_[l].resize(static_cast<long>(cells_[l].size()) * M);
      field_[l].resize(static_cast<long>(cells_[l].size()) * M);
    }
  }

  void add_level() {
    auto &below = cells_[levels_ - 1], &here = cells_[levels_];
    for (long c = 0; c < static_cast<long>(below.size()); ++c) {
      const int64_t key = below[c].key >> 1;
      if (here.empty() || here.back().key != key) here.push_back({key, c, c, 0});
      here.back().last = c + 1;
      below[c].parent = static_cast<long>(here.size()) - 1;
    }
    ++levels_;
  }

  void moments(const double* a) {
    for (long j = 0; j < n_; ++j) weight_[j] = a ? a[order_[j]] : 1.0;
    for (long c = 0; c < static_cast<long>(cells_[0].size()); ++c) unit_moments(cells_[0][c], moment_[0].slot(c * M, M));
    for (int l = 1; l < levels_; ++l) {
      moment_[l].fill(0);
      for (long c = 0; c < static_cast<long>(cells_[l - 1].size()); ++c) {
        const Cell& cell = cells_[l - 1][c];
        const double* child = moment_[l - 1].slot(c * M, M);
        double* parent = moment_[l].slot(cell.parent * M, M);
        const auto& shift = tables_.shift[cell.key & 1].at;
        for (int n = 0; n < M; ++n) {
          double sum = 0;
          for (int m = 0; m < M; ++m) sum += shift[n][m] * child[m];
          parent[n] += sum;
        }
      }
    }
  }

  void unit_moments(const Cell& cell, double* out) {
    double total[M][W] = {};
    for (long j = cell.first; j < cell.last; j += W) {
      const long m = std::min<long>(W, cell.last - j);
      double x[W] = {}, now[W] = {}, next[W];
      for (long k = 0; k < m; ++k) x[k] = local_[j + k], now[k] = weight_[j + k];
      for (int k = 0; k < W; ++k) next[k] = x[k] * now[k];
      for (int n = 0; n < M; ++n)
        for (int k = 0; k < W; ++k) {
          total[n][k] += now[k];
          const double after = 2 * x[k] * next[k] - now[k];
          now[k] = next[k], next[k] = after;
        }
    }
    for (int n = 0; n < M; ++n) {
      out[n] = 0;
      for (int k = 0; k < W; ++k) out[n] += total[n][k];
    }
  }

  void interact(int order) {
    for (int l = levels_ - 1; l >= 0; --l) {
      const auto& cells = cells_[l];
      const auto& table = tables_.level(order, l);
      const long count = static_cast<long>(cells.size());
      for (long c = 0; c < count; ++c) {
        double* field = field_[l].slot(c * M, M);
        inherit(l, c, field);
        for (long d = std::max(0L, c - 3); d < std::min(count, c + 4); ++d) {
          const int64_t offset = cells[d].key - cells[c].key;
          const bool near = offset >= -1 && offset <= 1;
          // Neighbours are left to the level below; cousins were done above unless their parents are neighbours.
          if (offset < -3 || offset > 3 || (near && l > 0)) continue;
          if (l + 1 < levels_ && std::llabs((cells[d].key >> 1) - (cells[c].key >> 1)) > 1) continue;
          const auto& matrix = table.offset[offset + 3].at;
          const double* source = moment_[l].slot(d * M, M);
          for (int m = 0; m < M; ++m)
            for (int n = 0; n < M; ++n) field[n] += matrix[m][n] * source[m];
        }
      }
    }
  }

  void inherit(int l, long c, double* field) {
    for (int n = 0; n < M; ++n) field[n] = 0;
    if (l + 1 >= levels_) return;
    const Cell& cell = cells_[l][c];
    const double* parent = field_[l + 1].slot(cell.parent * M, M);
    const auto& shift = tables_.shift[cell.key & 1].at;
    for (int n = 0; n < M; ++n)
      for (int m = 0; m < M; ++m) field[m] += shift[n][m] * parent[n];
  }

  void evaluate(double* out) {
    for (long c = 0; c < static_cast<long>(cells_[0].size()); ++c) {
      const double* field = field_[0].slot(c * M, M);
      for (long j = cells_[0][c].first; j < cells_[0][c].last; j += W) {
        const long m = std::min<long>(W, cells_[0][c].last - j);
        double x[W] = {}, one[W] = {}, two[W] = {};
        for (long k = 0; k < m; ++k) x[k] = local_[j + k];
        for (int n = M - 1; n >= 1; --n)
          for (int k = 0; k < W; ++k) {
            const double t = field[n] + 2 * x[k] * one[k] - two[k];
            two[k] = one[k], one[k] = t;
          }
        for (long k = 0; k < m; ++k) result_[j + k] = (field[0] + x[k] * one[k] - two[k]) / static_cast<double>(n_);
      }
    }
    for (long j = 0; j < n_; ++j) out[order_[j]] = result_[j];
  }
};

}  // namespace ibnn
