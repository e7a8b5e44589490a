// From units to nodes and back: a uniform grid with cubic B-splines, one pass over the units each way.
//
// spread():  weights q with sum_i a_i f(x_i) = sum_s q_s f(X_s) for every smooth f (B-spline scatter, then the inverse
//            of the sampled spline: q is the transpose of spline interpolation).
// A grid of C cells has nodes X_s = low + (s - 1) h, s = 0 .. C + 2: one more on each side than the cells need.
#pragma once
#include <algorithm>

#include "basics/chunks.h"
#include "nodes/unit_scatter.h"
#include "sums/filter.h"

namespace ibnn {

class Grid {
 public:
  float low = 0, step = 1, inverse = 1;
  long cells = 0;
  long nodes() const { return cells + 3; }

  void cover(float from, float to, long count) {
    low = from, cells = count;
    step = (to - from) / static_cast<float>(count);
    inverse = static_cast<float>(count) / (to - from);
  }
  float node(long s) const { return low + static_cast<float>(s - 1) * step; }

  // Cell and place inside it, in [0, 1], of a block of units.
  void locate(const float* x, long n, int* cell, float* place) const {
    const unsigned last = static_cast<unsigned>(cells - 1);
    for (long i = 0; i < n; ++i) {
      const float u = (x[i] - low) * inverse;
      // Units are not below `low` but for rounding, which is cut off here. Anything else would be beyond the last cell.
      const unsigned cut = static_cast<unsigned>(static_cast<int>(u));
      cell[i] = static_cast<int>(cut > last ? last : cut);
      place[i] = u - static_cast<float>(cell[i]);
    }
  }

  // q (and, if g is given, the same for units weighted by g), each divided by n.
  void spread(const float* x, const float* g, long n, float* q, float* qg) {
    const long total = nodes();
    for (auto* a : {&part_, &part_g_}) a->resize(total);
    const double share = 1.0 / static_cast<double>(n);
    float scale = 1;
    if (n <= kChunk) {
      scatter_.scatter(*this, x, g, n, part_.data(), part_g_.data());
      scale = static_cast<float>(share);
    } else {
      // No more chunks than can have sums of their own in the memory of the units.
      const Chunks chunks(n, std::max(1L, std::min(kMostChunks, n / (4 * total))));
      for (auto* a : {&sum_, &sum_g_}) a->resize(chunks.count * total);
      ibnn::share(chunks.count, [&](long k) {
        add_up(x, g, chunks.first(k), chunks.end(k), sum_.slot(k * total, total), sum_g_.slot(k * total, total));
      });
      join(sum_, chunks.count, share, part_);
      if (g) join(sum_g_, chunks.count, share, part_g_);
    }
    invert(part_, scale, q);
    if (g) invert(part_g_, scale, qg);
  }

 private:
  UnitScatter scatter_;
  Array<float> part_, part_g_, filtered_;
  Array<double> sum_, sum_g_;
  Padded work_;

  // What the units of a chunk add to the nodes: summed in float over a few of them, in double over all.
  void add_up(const float* x, const float* g, long first, long end, double* sum, double* sum_g) const {
    static thread_local UnitScatter scatter;
    static thread_local Array<float> part, part_g;
    const long total = nodes();
    for (auto* a : {&part, &part_g}) a->resize(total);
    std::fill(sum, sum + total, 0.0), std::fill(sum_g, sum_g + total, 0.0);
    for (; first < end; first += kChunk) {
      scatter.scatter(*this, x + first, g ? g + first : nullptr, std::min(kChunk, end - first), part.data(), part_g.data());
      for (long s = 0; s < total; ++s) sum[s] += part[s];
      for (long s = 0; g && s < total; ++s) sum_g[s] += part_g[s];
    }
  }

  static void join(Array<double>& sums, long chunks, double share, Array<float>& part) {
    const long total = part.size();
    double* sum = sums.data();
    for (long k = 1; k < chunks; ++k)
      for (long s = 0; s < total; ++s) sum[s] += sum[k * total + s];
    for (long s = 0; s < total; ++s) part[s] = static_cast<float>(share * sum[s]);
  }

  // The inverse of (1, 4, 1) / 6 is sqrt(3) (sqrt(3) - 2)^|k|: below 2e-8 beyond kReach.
  static constexpr long kReach = 14;
  struct Taps {
    float at[kReach + 1];
    Taps() {
      for (long k = 0; k <= kReach; ++k) at[k] = static_cast<float>(std::sqrt(3.0) * std::pow(std::sqrt(3.0) - 2, k));
    }
  };

  // q = (spline interpolation)^T b. Inner coefficients solve (1, 4, 1) / 6 with nothing beyond the ends (continued as an
  // odd function, the infinite inverse does that); the two end ones are taken from the data by a one-sided second
  // difference, which keeps the fourth order up to the ends.
  void invert(const Array<float>& b, float scale, float* q) {
    static const Taps taps;
    const long m = nodes(), last = m - 1;
    work_.resize((m + 7) / 8 * 8, kReach + 8);
    filtered_.resize(work_.size());
    float* w = work_.slot(-kReach, last + 2 * kReach + 1) + kReach;
    for (long s = 1; s < last; ++s) w[s] = scale * b[s];
    w[0] = w[last] = 0;
    for (long k = 1; k <= kReach; ++k) {
      w[-k] = k < last ? -w[k] : 0;
      w[last + k] = k < last ? -w[last - k] : 0;
    }
    even_filter(work_, taps.at, kReach, filtered_.data());
    for (long s = 1; s < last; ++s) q[s] = filtered_[s];
    const float first_end = scale * b[0] - q[1] / 6, last_end = scale * b[last] - q[last - 1] / 6;
    q[0] = q[last] = 0;
    const float ends[4] = {4 / 6.f, 5 / 6.f, -4 / 6.f, 1 / 6.f};
    for (long j = 0; j < 4; ++j) q[j] += first_end * ends[j];
    for (long j = 0; j < 4; ++j) q[last - j] += last_end * ends[j];
  }
};

}  // namespace ibnn
