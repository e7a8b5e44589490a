// From units to nodes and back: a uniform grid with cubic B-splines, one pass over the units each way.
//
// spread():  weights q with sum_i a_i f(x_i) = sum_s q_s f(X_s) for every smooth f (B-spline scatter, then the inverse
//            of the sampled spline: q is the transpose of spline interpolation).
// A grid of C cells has nodes X_s = low + (s - 1) h, s = 0 .. C + 2: one more on each side than the cells need.
#pragma once
#include <algorithm>

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
    const int last = static_cast<int>(cells - 1);
    for (long i = 0; i < n; ++i) {
      const float u = (x[i] - low) * inverse;
      int k = static_cast<int>(u);
      k = k < 0 ? 0 : (k > last ? last : k);
      cell[i] = k;
      place[i] = u - static_cast<float>(k);
    }
  }

  // q (and, if g is given, the same for units weighted by g), each divided by n.
  void spread(const float* x, const float* g, long n, float* q, float* qg) {
    const long total = nodes();
    const bool once = n <= kFlush;
    for (auto* a : {&part_, &part_g_}) a->resize(total);
    if (!once)
      for (auto* a : {&sum_, &sum_g_}) a->resize(total), a->fill(0);
    for (long first = 0; first < n; first += kFlush) {
      const long m = std::min(kFlush, n - first);
      if (g) {
        scatter_pairs(x + first, g + first, m);
        collect(2, 0, part_), collect(2, 4, part_g_);
      } else {
        scatter(x + first, m);
        collect(1, 0, part_);
      }
      if (once) break;
      for (long s = 0; s < total; ++s) sum_[s] += part_[s];
      for (long s = 0; g && s < total; ++s) sum_g_[s] += part_g_[s];
    }
    const double share = 1.0 / static_cast<double>(n);
    for (long s = 0; !once && s < total; ++s) part_[s] = static_cast<float>(share * sum_[s]);
    for (long s = 0; !once && g && s < total; ++s) part_g_[s] = static_cast<float>(share * sum_g_[s]);
    const float scale = once ? static_cast<float>(share) : 1.0f;
    invert(part_, scale, q);
    if (g) invert(part_g_, scale, qg);
  }

 private:
  static constexpr long kBlock = 256;
  static constexpr long kFlush = 8192;  // units summed in float before they are added up in double
  Array<float> slots_;                  // per cell the four spline weights, twice (even and odd units)
  Array<float> part_, part_g_, filtered_;
  Array<double> sum_, sum_g_;
  Padded work_;

  static Lanes4 spline(float f) {
    const Lanes4 a = {-1 / 6.f, 0.5f, -0.5f, 1 / 6.f}, b = {0.5f, -1, 0.5f, 0}, c = {-0.5f, 0, 0.5f, 0},
                 d = {1 / 6.f, 2 / 3.f, 1 / 6.f, 0};
    return ((a * f + b) * f + c) * f + d;
  }

  // Whole-register slots per cell, so that no store overlaps another cell's (that would stall the loads behind it).
  void scatter(const float* x, long n) {
    slots_.resize(cells * 8);
    slots_.fill(0);
    int cell[kBlock];
    float place[kBlock];
    for (long first = 0; first < n; first += kBlock) {
      const long m = std::min(kBlock, n - first);
      locate(x + first, m, cell, place);
      for (long i = 0; i < m; ++i) {
        float* slot = slots_.slot(cell[i] * 8L + 4 * (i & 1), 4);
        Lanes4 v;
        std::memcpy(&v, slot, 16);
        v += spline(place[i]);
        std::memcpy(slot, &v, 16);
      }
    }
  }

  void scatter_pairs(const float* x, const float* g, long n) {
    slots_.resize(cells * 16);
    slots_.fill(0);
    int cell[kBlock];
    float place[kBlock];
    for (long first = 0; first < n; first += kBlock) {
      const long m = std::min(kBlock, n - first);
      locate(x + first, m, cell, place);
      for (long i = 0; i < m; ++i) {
        // The halves are moved one by one: joined on the stack, each would wait for the stores of both.
        float* slot = slots_.slot(cell[i] * 16L + 8 * (i & 1), 8);
        Lanes4 once, weighted;
        std::memcpy(&once, slot, 16), std::memcpy(&weighted, slot + 4, 16);
        const Lanes4 w = spline(place[i]);
        once += w;
        weighted += w * g[first + i];
        std::memcpy(slot, &once, 16), std::memcpy(slot + 4, &weighted, 16);
      }
    }
  }

  // From slots to nodes: what a cell adds to its four nodes moves on by one lane from cell to cell.
  void collect(long channels, long offset, Array<float>& sum) {
    const long stride = 4 * channels;
    const float* slot = slots_.slot(0, cells * 2 * stride) + offset;
    float* out = sum.slot(0, nodes());
    Lanes4 open = {};
    for (long c = 0; c < cells; ++c, slot += 2 * stride) {
      Lanes4 even, odd;
      std::memcpy(&even, slot, 16), std::memcpy(&odd, slot + stride, 16);
      open += even + odd;
      out[c] = open[0];
      open = Lanes4{open[1], open[2], open[3], 0};
    }
    for (long j = 0; j < 3; ++j) out[cells + j] = open[j];
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
