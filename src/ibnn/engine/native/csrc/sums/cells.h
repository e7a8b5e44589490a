// Sums over all pairs of a row, P_n(z, a)_i = (1/D) sum_k a_k s_n(z_k - z_i), in O(D), in double, for any range.
//
// A one-dimensional fast multipole method. Units fall into cells of fixed width; a cell is described by M Chebyshev
// moments (smooth sigma: the error falls like 6^-M). Cells far apart talk through cells twice, four times, ... as wide.
// Only occupied cells exist, so a unit at 1e30 costs one more cell per level, not memory for the range; and it does not cost
// the others their digits, since places are kept as a cell and the way from its left end.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "basics/checked.h"
#include "basics/row_values.h"
#include "sums/cell_matrices.h"

namespace ibnn {

template <int M> class CellSums {
 public:
  explicit CellSums(Sigma kind) : kind_(kind), tables_(CellTables<M>::of(kind)) {}

  void set_points(const double* z, long n) {
    n_ = n;
    for (auto& level : cells_) level.clear();
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
  static constexpr long kCellsAtOnce = 256;
  static constexpr int W = 8;  // units handled side by side in one SIMD loop
  static constexpr double kLong = 1 << 15;  // cells; places counted from the lowest unit lose five digits then
  static constexpr double kLongestGap = 8589934592.0;  // cells
  const Sigma kind_;
  const CellTables<M>& tables_;
  long n_ = 0;
  int levels_ = 0;
  Array<long> order_;             // units sorted by cell
  Array<double> local_;           // position inside the cell, in [-1, 1], in that order
  Array<int64_t> key_;
  Array<long> count_;
  struct Cell { int64_t key; long first, last, parent; };  // children (level 0: units) first..last-1
  struct Piece { long cell, first, last; };                // a cell of many units is taken in pieces
  std::vector<Piece> pieces_;
  std::vector<long> parts_;      // pieces that one thread takes: parts_[k] .. parts_[k + 1] - 1
  Array<double> piece_moment_;
  std::vector<Cell> cells_[kMaxLevels];
  Array<double> moment_[kMaxLevels], field_[kMaxLevels];
  std::vector<std::pair<int64_t, long>> sorter_;
  std::vector<std::pair<double, long>> in_order_;

  void place(const double* z) {
    const double width = cell_width(kind_);
    order_.resize(n_), local_.resize(n_), key_.resize(n_);
    const auto ends = ends_of_row(z, n_);
    const double low = ends.low, range = ends.high - low;
    if (!(range < kLong * width)) return place_in_order(z, width);
    in_chunks(n_, [&](long first, long end) {
      for (long i = first; i < end; ++i) key_[i] = static_cast<int64_t>(std::floor((z[i] - low) / width));
    });
    sort_by_cell(static_cast<int64_t>(std::floor(range / width)) + 1);
    in_chunks(n_, [&](long first, long end) {
      for (long j = first; j < end; ++j) {
        const long i = order_[j];
        const double x = 2 * ((z[i] - low) / width - static_cast<double>(key_[i])) - 1;
        local_[j] = std::min(1.0, std::max(-1.0, x));
      }
    });
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
      // Units of a cell are in the order of their chunks, which count theirs where there is memory for it.
      const Chunks chunks(n_, std::max(1L, std::min(kMostChunks, n_ / (2 * span))));
      count_.resize(chunks.count * span);
      share(chunks.count, [&](long c) {
        long* count = count_.slot(c * span, span);
        std::fill(count, count + span, 0L);
        for (long i = chunks.first(c); i < chunks.end(c); ++i) ++count[key_[i]];
      });
      long before = 0;
      for (long k = 0; k < span; ++k) {
        const long first = before;
        for (long c = 0; c < chunks.count; ++c) before += std::exchange(count_[c * span + k], before);
        if (before > first) cells_[0].push_back({k, first, before, 0});
      }
      share(chunks.count, [&](long c) {
        long* next = count_.slot(c * span, span);
        for (long i = chunks.first(c); i < chunks.end(c); ++i) order_[next[key_[i]]++] = i;
      });
      return;
    }
    sorter_.resize(n_);
    for (long i = 0; i < n_; ++i) sorter_[i] = {key_[i], i};
    std::sort(sorter_.begin(), sorter_.end());
    for (long i = 0; i < n_; ++i) order_[i] = sorter_[i].second;
  }

  void build_levels() {
    auto& base = cells_[0];
    for (long j = base.empty() ? 0 : n_; j < n_; ++j) {
      const int64_t key = key_[order_[j]];
      if (base.empty() || base.back().key != key) base.push_back({key, j, j, 0});
      base.back().last = j + 1;
    }
    levels_ = 1;
    while (levels_ < kMaxLevels && cells_[levels_ - 1].back().key - cells_[levels_ - 1].front().key > 3) add_level();
    cut_cells();
    for (int l = 0; l < levels_; ++l) {
      moment_[l].resize(static_cast<long>(cells_[l].size()) * M);
      field_[l].resize(static_cast<long>(cells_[l].size()) * M);
    }
  }

  void cut_cells() {
    pieces_.clear(), parts_.clear();
    long taken = kChunk;  // units of the last part
    for (long c = 0; c < static_cast<long>(cells_[0].size()); ++c)
      for (long first = cells_[0][c].first; first < cells_[0][c].last; first += kChunk) {
        const long last = std::min(first + kChunk, cells_[0][c].last);
        if (taken >= kChunk) parts_.push_back(static_cast<long>(pieces_.size())), taken = 0;
        pieces_.push_back({c, first, last});
        taken += last - first;
      }
    parts_.push_back(static_cast<long>(pieces_.size()));
    piece_moment_.resize(static_cast<long>(pieces_.size()) * M);
  }
  template <class Job> void each_piece(Job job) {
    share(static_cast<long>(parts_.size()) - 1, [&](long part) {
      for (long k = parts_[part]; k < parts_[part + 1]; ++k) job(pieces_[k], k);
    });
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
    each_piece([&](const Piece& piece, long k) {
      double* weight = numbers_of(piece);
      for (long j = piece.first; j < piece.last; ++j) weight[j - piece.first] = a ? a[order_[j]] : 1.0;
      unit_moments(piece, weight, piece_moment_.slot(k * M, M));
    });
    moment_[0].fill(0);
    for (long k = 0; k < static_cast<long>(pieces_.size()); ++k) {
      double* moment = moment_[0].slot(pieces_[k].cell * M, M);
      for (int n = 0; n < M; ++n) moment[n] += piece_moment_[k * M + n];
    }
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

  // Units are far from each other in memory: they are fetched in a loop of their own, which does not wait for any of them.
  static double* numbers_of(const Piece& piece) {
    static thread_local Array<double> numbers;
    numbers.resize(piece.last - piece.first);
    return numbers.data();
  }

  void unit_moments(const Piece& piece, const double* weight, double* out) const {
    double total[M][W] = {};
    for (long j = piece.first; j < piece.last; j += W, weight += W) {
      const long m = std::min<long>(W, piece.last - j);
      double x[W] = {}, now[W] = {}, next[W];
      for (long k = 0; k < m; ++k) x[k] = local_[j + k], now[k] = weight[k];
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
      const auto& table = tables_.level(order, l);
      const long count = static_cast<long>(cells_[l].size());
      share((count + kCellsAtOnce - 1) / kCellsAtOnce, [&](long part) {
        for (long c = part * kCellsAtOnce; c < std::min(count, (part + 1) * kCellsAtOnce); ++c) hear(l, c, table);
      });
    }
  }

  // What cell c of a level is told by its parent and by the cells around it.
  void hear(int l, long c, const typename CellTables<M>::Level& table) {
    const auto& cells = cells_[l];
    double* field = field_[l].slot(c * M, M);
    inherit(l, c, field);
    for (long d = std::max(0L, c - 3); d < std::min(static_cast<long>(cells.size()), c + 4); ++d) {
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
    each_piece([&](const Piece& piece, long) {
      double* result = numbers_of(piece);
      unit_values(piece, result);
      for (long j = piece.first; j < piece.last; ++j) out[order_[j]] = result[j - piece.first];
    });
  }

  // Clenshaw's recurrence, in a type of eight numbers: left to itself the compiler takes them one by one here.
  void unit_values(const Piece& piece, double* result) const {
    typedef double Eight __attribute__((vector_size(W * sizeof(double))));
    const double *field = field_[0].slot(piece.cell * M, M), share = 1 / static_cast<double>(n_);
    for (long j = piece.first; j < piece.last; j += W, result += W) {
      const long m = std::min<long>(W, piece.last - j);
      Eight x = {}, one = {}, two = {};
      std::memcpy(&x, local_.slot(j, m), m * sizeof(double));
      for (int n = M - 1; n >= 1; --n) {
        const Eight t = field[n] + 2 * x * one - two;
        two = one, one = t;
      }
      one = share * (field[0] + x * one - two);
      std::memcpy(result, &one, m * sizeof(double));
    }
  }
};

}  // namespace ibnn
