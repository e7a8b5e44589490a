// From units to nodes and back: a uniform grid with cubic B-splines, one pass over the units each way.
//
// spread():  weights q with sum_i a_i f(x_i) = sum_s q_s f(X_s) for every smooth f (B-spline scatter, then the inverse
//            of the sampled spline: q is the transpose of spline interpolation).
// A grid of C cells has nodes X_s = low + (s - 1) h, s = 0 .. C + 2: one more on each side than the cells need.
#pragma once
#include <algorithm>

#include "checked.h"
#include "lanes.h"

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
    for (auto* a : {&sum_, &sum_g_}) a->resize(total), a->fill(0);
    for (long first = 0; first < n; first += kFlush) {
      const long m = std::min(kFlush, n - first);
      if (g) {
        scatter_pairs(x + first, g + first, m);
        collect(2, 0, sum_), collect(2, 4, sum_g_);
      } else {
        scatter(x + first, m);
        collect(1, 0, sum_);
      }
    }
    invert(sum_, n, q);
    if (g) invert(sum_g_, n, qg);
  }

 private:
  static constexpr long kBlock = 256;
  static constexpr long kFlush = 8192;  // units summed in float before they are added up in double
  Array<float> slots_;                  // per cell the four spline weights, twice (even and odd units)
  Array<double> sum_, sum_g_;

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
        float* slot = slots_.slot(cell[i] * 16L + 8 * (i & 1), 8);
        Lanes4 v[2];
        std::memcpy(v, slot, 32);
        const Lanes4 w = spline(place[i]);
        v[0] += w;
        v[1] += w * g[first + i];
        std::memcpy(slot, v, 32);
      }
    }
  }

  void collect(long channels, long offset, Array<double>& sum) {
    const long stride = 4 * channels;
    for (long c = 0; c < cells; ++c) {
      const float* slot = slots_.slot(c * 2 * stride, 2 * stride);
      for (long j = 0; j < 4; ++j)
        *sum.slot(c + j, 1) += static_cast<double>(slot[offset + j] + slot[offset + stride + j]);
    }
  }

  // Factors of the elimination of (1, 4, 1): they reach their limit 2 - sqrt(3) after a few rows.
  struct Factors {
    double at[32];
    Factors() {
      at[0] = 0;
      for (int s = 1; s < 32; ++s) at[s] = 1 / (4 - at[s - 1]);
    }
    double operator[](long s) const { return at[s < 31 ? s : 31]; }
  };

  // q = (spline interpolation)^T b. Inner coefficients solve (1, 4, 1) / 6; the two end ones are taken from the data by
  // a one-sided second difference, which keeps the fourth order up to the ends.
  void invert(Array<double>& b, long n, float* q) {
    static const Factors g;
    const long m = nodes(), last = m - 1;
    double* x = b.data();
    double before = 0;
    for (long s = 1; s < last; ++s) {
      const double scaled = 6 * g[s] * x[s];
      x[s] = before = std::fma(-g[s], before, scaled);
    }
    before = 0;
    for (long s = last - 1; s >= 1; --s) x[s] = before = std::fma(-g[s], before, x[s]);
    const double first_end = x[0] - x[1] / 6, last_end = x[last] - x[last - 1] / 6;
    x[0] = x[last] = 0;
    const double ends[4] = {4 / 6., 5 / 6., -4 / 6., 1 / 6.};
    for (long j = 0; j < 4; ++j) x[j] += first_end * ends[j];
    for (long j = 0; j < 4; ++j) x[last - j] += last_end * ends[j];
    const double scale = 1.0 / static_cast<double>(n);
    for (long s = 0; s < m; ++s) q[s] = static_cast<float>(x[s] * scale);
  }
};

}  // namespace ibnn
