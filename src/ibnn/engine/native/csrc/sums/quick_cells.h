// Sums over all pairs of a float row in one pass each way: what one explicit step and its gradient are made of.
//
// As in cells.h, a cell of units is described by its moments, but cells are even, every pair of them that s is not flat for
// is summed, and there are as many moments as a register has lanes: powers of the place x in [-1, 1] of a unit in its cell.
// s(x - t) is interpolated at Chebyshev points in double and turned into powers, whose coefficients fall faster (8^-m) than
// powers grow (2.4^m). Error of one pair, worst case: 2e-7 for s, 1e-6 for s'.
#pragma once
#include "basics/checked.h"
#include "sums/even_sums.h"
#include "basics/lanes.h"

namespace ibnn {

template <Sigma kind> class QuickTables {
 public:
  static constexpr int M = 8;
  // Wider cells would cost tanh and erf the sixth digit of s'; arctan has its poles 2.5 times as near as tanh.
  static constexpr float width = kind == Sigma::tanh ? 0.75f : (kind == Sigma::erf ? 1.0f : 0.375f);
  // |s - sign| and s' are below 3e-7 beyond cells that are this far apart; arctan never is flat.
  static constexpr int reach = kind == Sigma::tanh ? 12 : (kind == Sigma::erf ? 6 : 95);
  struct Matrix { float at[M][M]; };  // from moment m of a source to coefficient n of a target

  // offset = source cell - target cell; order 0, 1 or kStretch.
  const Matrix& matrix(int order, long offset) const { return matrix_[place(order)][offset + reach]; }
  static const QuickTables& get() {
    static const QuickTables tables;
    return tables;
  }

 private:
  Matrix matrix_[3][2 * reach + 1];

  static int place(int order) { return order == kStretch ? 2 : order; }

  QuickTables() {
    double node[M], to_power[M][M], chebyshev[M][M] = {};
    for (int j = 0; j < M; ++j) node[j] = std::cos(kPi * (j + 0.5) / M);
    chebyshev[0][0] = chebyshev[1][1] = 1;  // powers of which T_n consists
    for (int n = 2; n < M; ++n)
      for (int m = 0; m < M; ++m) chebyshev[n][m] = (m ? 2 * chebyshev[n - 1][m - 1] : 0) - chebyshev[n - 2][m];
    for (int m = 0; m < M; ++m)
      for (int j = 0; j < M; ++j) {
        to_power[m][j] = 0;
        for (int n = 0; n < M; ++n) to_power[m][j] += (n ? 2.0 : 1.0) / M * std::cos(kPi * n * (j + 0.5) / M) * chebyshev[n][m];
      }
    for (int order : {0, 1, kStretch})
      for (int offset = -reach; offset <= reach; ++offset) {
        double half[M][M] = {};  // of target coefficient n, at source node j
        for (int n = 0; n < M; ++n)
          for (int i = 0; i < M; ++i)
            for (int j = 0; j < M; ++j)
              half[n][j] += to_power[n][i] * derivative<kind>(order, width * (offset + (node[j] - node[i]) / 2));
        for (int m = 0; m < M; ++m)
          for (int n = 0; n < M; ++n) {
            double sum = 0;
            for (int j = 0; j < M; ++j) sum += to_power[m][j] * half[n][j];
            matrix_[place(order)][offset + reach].at[m][n] = static_cast<float>(sum);
          }
      }
  }
};

template <Sigma kind> class QuickCells {
 public:
  // Moments of the units (if `once`) and of the units times g (if given). False: not for these cells.
  bool set_points(const float* z, const float* g, bool once, long n) {
    float low, high;
    range_of(z, n, &low, &high);
    const double range = static_cast<double>(high) - low;
    // Closer together, high powers of their places would underflow; and what differs by the rounding of z needs doubles.
    if (n < kFewest || !(range >= 1e-4 * width) || range < 1e-4 * std::max(std::fabs(low), std::fabs(high))) return false;
    const double cells = std::ceil(range / width);
    if (!(cells <= most(n))) return false;
    z_ = z, g_ = g, n_ = n, cells_ = static_cast<long>(cells);
    const double from = 0.5 * (static_cast<double>(low) + high - cells * width);
    // A multiple of 2^-12, so that the middles of cells are exact; but a single cell has its middle in that of the row, so
    // that the error of its sums goes with its range.
    const double start = cells_ > 1 ? std::floor(from * 4096) / 4096 : from;
    low_ = static_cast<float>(start);
    middle_.resize(cells_);  // a table: written out, the compiler may put the sum in an order that is not exact
    for (long k = 0; k < cells_; ++k) middle_[k] = static_cast<float>(start + (static_cast<double>(k) + 0.5) * width);
    if (once && g) return moments<true, true>(), true;
    once ? moments<true, false>() : moments<false, true>();
    return true;
  }

  // out_i = (1/n) sum_k s_order(z_k - z_i), or of g_k s_order(z_k - z_i); order 0, 1 or kStretch.
  void sum(int order, float* out) {
    fields(order, g_ ? weighted_ : once_, field_);
    look_up(field_, [&](const auto* row, auto x, long i) { write(out + i, polynomial(row, x)); });
  }

  // sum_i g_i (1/n) sum_k s(z_k - z_i): the weighted moments against the sums as functions of the place.
  double dot() {
    fields(0, once_, field_);
    double total = 0;
    for (long k = 0; k < cells_ * M; ++k) total += static_cast<double>(weighted_[k]) * field_[k];
    return total * static_cast<double>(n_);
  }

  // out_i = (1/n) sum_k s'(z_k - z_i) (g_k - g_i).
  void change(float* out) {
    fields(1, once_, field_);
    fields(1, weighted_, field_g_);
    look_up(field_g_, [&](const auto* row, auto x, long i) { write(out + i, polynomial(row, x)); });
    look_up(field_, [&](const auto* row, auto x, long i) {
      write(out + i, read(out + i, x) - read(g_ + i, x) * polynomial(row, x));
    });
  }

 private:
  using Tables = QuickTables<kind>;
  static constexpr int M = Tables::M;
  static constexpr float width = Tables::width;
  static constexpr long kFewest = 16;                  // all pairs in double take no longer
  static constexpr long kBlock = 256, kFlush = 8192;  // units located at once; summed in float before doubles take over
  const float *z_ = nullptr, *g_ = nullptr;
  long n_ = 0, cells_ = 0;
  float low_ = 0;
  Array<float> middle_, part_, once_, weighted_, field_, field_g_;
  Array<double> total_;

  // A cell costs less than a unit does in double.
  static double most(long n) {
    const double few = std::max(32.0, static_cast<double>(n));
    return kind == Sigma::arctan ? std::min<double>(few, Tables::reach + 1) : few;
  }

  static Lanes read(const float* p, Lanes) { return load_lanes(p); }
  static float read(const float* p, float) { return *p; }
  static void write(float* p, Lanes v) { store_lanes(p, v); }
  static void write(float* p, float v) { *p = v; }

  template <class V> static V polynomial(const V* row, V x) {
    V p = row[M - 1] * x + row[M - 2];
    for (int k = M - 3; k >= 0; --k) p = p * x + row[k];
    return p;
  }

  // Cell of each unit of a block, and its place there, in [-1, 1].
  void locate(const float* z, long m, int* cell, float* place) const {
    const int last = static_cast<int>(cells_ - 1);
    const float low = low_, *middle = middle_.data();
    for (long i = 0; i < m; ++i) {
      int k = static_cast<int>((z[i] - low) * (1 / width));
      k = k < 0 ? 0 : (k > last ? last : k);
      cell[i] = k;
      place[i] = (z[i] - middle[k]) * (2 / width);
    }
  }

  // Powers 0 .. 7 of eight places: of one place each, as the lanes of a register.
  static void powers(Lanes x, Lanes* out) {
    const Lanes square = x * x, fourth = square * square;
    out[0] = spread_lanes(1), out[1] = x, out[2] = square, out[3] = square * x, out[4] = fourth, out[5] = fourth * x;
    out[6] = fourth * square, out[7] = fourth * out[3];
    transpose(out);
  }

  // Units that follow each other go to different slots of a cell: else each would wait for the one before.
  template <bool once, bool weighted> void moments() {
    constexpr long kSize = M * (once + weighted);
    part_.resize(cells_ * 2 * kSize);
    const bool long_row = n_ > kFlush;
    if (long_row) total_.resize(cells_ * kSize), total_.fill(0);
    for (long first = 0; first < n_; first += kFlush) {
      part_.fill(0);
      scatter<once, weighted>(first, std::min(kFlush, n_ - first));
      for (long c = 0; long_row && c < cells_; ++c)
        for (long k = 0; k < kSize; ++k)
          total_[c * kSize + k] += static_cast<double>(part_[2 * c * kSize + k]) + part_[(2 * c + 1) * kSize + k];
    }
    const float share = 1 / static_cast<float>(n_);
    auto collect = [&](long offset, Array<float>& out) {
      out.resize(cells_ * M);
      for (long c = 0; c < cells_; ++c)
        for (long k = 0; k < M; ++k) {
          const long at = 2 * c * kSize + offset + k;
          out[c * M + k] = share * (long_row ? static_cast<float>(total_[c * kSize + offset + k])
                                             : part_[at] + part_[at + kSize]);
        }
    };
    if (once) collect(0, once_);
    if (weighted) collect(once * M, weighted_);
  }

  template <bool once, bool weighted> void scatter(long from, long count) {
    if (cells_ == 1) return add_up<once, weighted>(from, count);
    constexpr long kSize = M * (once + weighted);
    int cell[kBlock];
    float place[kBlock];
    for (long first = from; first < from + count; first += kBlock) {
      const long m = std::min(kBlock, from + count - first);
      locate(z_ + first, m, cell, place);
      for (long i = m; i % 8; ++i) place[i] = 0;
      for (long i = 0; i < m; i += 8) {
        Lanes power[M];
        powers(load_lanes(place + i), power);
        const long valid = std::min(8L, m - i);
        for (long k = 0; k < valid; ++k) {
          float* slot = part_.slot((2L * cell[i + k] + (k & 1)) * kSize, kSize);
          if (once) store_lanes(slot, load_lanes(slot) + power[k]);
          if (weighted) {
            float* other = slot + once * M;
            store_lanes(other, fused(power[k], spread_lanes(g_[first + i + k]), load_lanes(other)));
          }
        }
      }
    }
  }

  // The moments of a single cell, without any look at where a unit belongs.
  template <bool once, bool weighted> void add_up(long from, long count) {
    Lanes sum[M] = {}, sum_g[M] = {};
    int cell[kBlock];
    float place[kBlock], g[kBlock];
    for (long first = from; first < from + count; first += kBlock) {
      const long m = std::min(kBlock, from + count - first);
      locate(z_ + first, m, cell, place);
      if (weighted) std::copy(g_ + first, g_ + first + m, g);
      for (long i = m; i % 8; ++i) place[i] = g[i] = 0;
      for (long i = 0; i < m; i += 8) {
        const Lanes x = load_lanes(place + i);
        Lanes power = spread_lanes(1), own = weighted ? load_lanes(g + i) : power;
        for (int k = 0; k < M; ++k, power *= x, own *= x) {
          if (once) sum[k] += power;
          if (weighted) sum_g[k] += own;
        }
      }
    }
    if (once) {
      store_lanes(part_.slot(0, M), sum_each(sum));
      part_[0] = static_cast<float>(count);  // without those that fill up the last eight
    }
    if (weighted) store_lanes(part_.slot(once * M, M), sum_each(sum_g));
  }

  // Per cell the coefficients of the sum as a function of the place.
  void fields(int order, const Array<float>& moment, Array<float>& field) {
    const Tables& tables = Tables::get();
    field.resize(cells_ * M);
    field.fill(0);
    const long far = std::min<long>(Tables::reach, cells_ - 1);
    for (long offset = -far; offset <= far; ++offset) {
      Lanes matrix[M];
      for (int m = 0; m < M; ++m) matrix[m] = load_lanes(tables.matrix(order, offset).at[m]);
      const long begin = std::max(0L, -offset), end = std::min(cells_, cells_ - offset);
      const float* source = moment.slot((begin + offset) * M, (end - begin) * M);
      float* target = field.slot(begin * M, (end - begin) * M);
      for (long c = begin; c < end; ++c, source += M, target += M) {
        Lanes even = load_lanes(target), odd = spread_lanes(source[1]) * matrix[1];
        for (int m = 0; m < M; m += 2) even = fused(spread_lanes(source[m]), matrix[m], even);
        for (int m = 3; m < M; m += 2) odd = fused(spread_lanes(source[m]), matrix[m], odd);
        store_lanes(target, even + odd);
      }
    }
    if (order != 0 || far == cells_ - 1) return;
    double left = 0, right = 0;  // weight beyond the cells that were summed
    for (long c = far; c < cells_; ++c) right += moment[c * M];
    for (long c = 0; c < cells_; ++c) {
      if (c + far < cells_) right -= moment[(c + far) * M];
      if (c - far > 0) left += moment[(c - far - 1) * M];
      field[c * M] += static_cast<float>((c + far < cells_ - 1 ? right : 0) - left);
    }
  }

  // job(coefficients, place in the cell, unit) for eight units at a time, then for each of the last few.
  template <class Job> void look_up(const Array<float>& field, Job job) const {
    int cell[kBlock];
    float place[kBlock];
    const bool single = cells_ == 1;
    Lanes row[M];
    for (int k = 0; k < M; ++k) row[k] = spread_lanes(field[k]);
    for (long first = 0; first < n_; first += kBlock) {
      const long m = std::min(kBlock, n_ - first);
      locate(z_ + first, m, cell, place);
      long i = 0;
      for (; i + 8 <= m; i += 8) {
        if (!single) {
          for (int k = 0; k < M; ++k) row[k] = load_lanes(field.slot(cell[i + k] * 8L, M));
          transpose(row);
        }
        job(row, load_lanes(place + i), first + i);
      }
      for (; i < m; ++i) job(field.slot(cell[i] * 8L, M), place[i], first + i);
    }
  }
};

}  // namespace ibnn
