// From the units of a pack of rows to their nodes: what Grid::spread does for one row, in lanes but for the scatter itself.
//
// A unit at the place f of its cell adds 1, f, f^2, f^3 to the sums of that cell (times g to those of weights); the B-spline
// weights of its four nodes are combinations of these, worked out once a cell for all rows.
#pragma once
#include "basics/lanes.h"
#include "basics/packs.h"
#include "nodes/grid.h"

namespace ibnn {

class PackSpread {
 public:
  using V = Floats;
  using M = Mask<float>;
  static constexpr int kRows = kLanes<float>;

  // Before the rows of a pack, which have so many nodes at most.
  void reserve(long nodes) {
    for (Array<float>& sums : sums_)
      if (sums.size() < 16 * nodes) {
        sums.resize(16 * nodes);
        sums.fill(0);
      }
  }

  // Adds the units of one row, which is in this lane; g may be null.
  void scatter(int lane, const Grid& grid, const float* x, const float* g, long n) {
    constexpr long kBlock = 256;
    int cell[kBlock];
    float place[kBlock];
    const long stride = g ? 16 : 8;
    float* sums = sums_[lane].slot(0, grid.cells * stride);
    for (long first = 0; first < n; first += kBlock) {
      const long m = std::min(kBlock, n - first);
      grid.locate(x + first, m, cell, place);
      long i = 0;
      if (g)
        for (; i + 8 <= m; i += 8) add_weighted(cell + i, load_lanes(place + i), load_lanes(g + first + i), sums);
      else
        for (; i + 8 <= m; i += 8) add(cell + i, load_lanes(place + i), sums);
      for (; i < m; ++i) {
        float* to = sums + cell[i] * stride;
        float power = 1;
        for (int k = 0; k < 4; ++k, power *= place[i]) {
          to[k] += power;
          if (g) to[4 + k] += power * g[first + i];
        }
      }
    }
  }

  // The node weights q of what was scattered (and qg, if it was with g), `nodes` of them, 0 from real[lane] on; each divided by
  // n. Lanes that are not `fresh` stay as they are. Starts anew then.
  void collect(M real, M fresh, long nodes, long n, V* q, V* qg) {
    const long cells = nodes - 3, stride = qg ? 16 : 8;
    work_.resize(nodes), work_g_.resize(nodes);
    V open[3] = {}, open_g[3] = {};
    for (long c = 0; c < cells; ++c) {
      V sums[8];
      take(c * stride, sums);
      if (qg) {
        V odd[8];
        take(c * stride + 8, odd);
        for (int k = 0; k < 8; ++k) sums[k] += odd[k];
        work_g_[c] = pass_on(sums + 4, open_g);
      } else {
        for (int k = 0; k < 4; ++k) sums[k] += sums[k + 4];
      }
      work_[c] = pass_on(sums, open);
    }
    for (int k = 0; k < 3; ++k) work_[cells + k] = open[k], work_g_[cells + k] = open_g[k];
    invert(work_.data(), real, fresh, nodes, n, q);
    if (qg) invert(work_g_.data(), real, fresh, nodes, n, qg);
  }

 private:
  // Per lane and cell four sums twice, of some units and of the others (so that units of one cell that follow each other need
  // not wait so often), or eight twice with weights. All 0 between calls.
  Array<float> sums_[kRows];
  Array<V> work_, work_g_;

  static void add(const int* cell, Lanes f, float* sums) {
    const Lanes f2 = f * f;
    Lanes v[4] = {spread_lanes(1), f, f2, f2 * f};
    transpose_halves(v);
    for (int k = 0; k < 4; ++k) {
      add_half(low_half(v[k]), sums + cell[k] * 8L);
      add_half(high_half(v[k]), sums + cell[k + 4] * 8L + 4);
    }
  }
  static void add_half(Lanes4 v, float* to) {
    Lanes4 sum;
    std::memcpy(&sum, to, 16);
    sum += v;
    std::memcpy(to, &sum, 16);
  }

  static void add_weighted(const int* cell, Lanes f, Lanes g, float* sums) {
    const Lanes f2 = f * f, gf = g * f;
    Lanes v[8] = {spread_lanes(1), f, f2, f2 * f, g, gf, gf * f, gf * f2};
    transpose(v);
    for (int k = 0; k < 8; ++k) {
      float* to = sums + cell[k] * 16L + 8 * (k & 1);
      store_lanes(to, load_lanes(to) + v[k]);
    }
  }

  // Eight sums of all rows, which become 0.
  void take(long at, V* out) {
    for (int first = 0; first < kRows; first += 8) {
      float* from[8];
      for (int k = 0; k < 8; ++k) from[k] = sums_[first + k].slot(at, 8);
      Lanes part[8];
      load_transposed(from, part);
      for (float* sums : from) store_lanes(sums, Lanes{});
      for (int k = 0; k < 8; ++k) store_lanes(reinterpret_cast<float*>(&out[k]) + first, part[k]);
    }
  }

  // What a cell adds to its four nodes, the first of which then is complete.
  static V pass_on(const V* sums, V* open) {
    const V half = 0.5f * sums[1], third = (1 / 6.f) * sums[3], near = (1 / 6.f) * sums[0] + 0.5f * sums[2];
    const V node = open[0] + (near - half - third);
    open[0] = open[1] + ((2 / 3.f) * sums[0] - sums[2] + 0.5f * sums[3]);
    open[1] = open[2] + (near + half - 0.5f * sums[3]);
    open[2] = third;
    return node;
  }

  // The same system as in Grid::invert: inner coefficients solve (1, 4, 1) / 6 with nothing beyond the ends, here by
  // elimination, whose pivots are those of all rows.
  void invert(V* b, M real, M fresh, long nodes, long n, V* q) const {
    const float share = 1.0f / static_cast<float>(n);
    const V first = share * b[0];
    V last;
    for (int lane = 0; lane < kRows; ++lane) last[lane] = real[lane] > 0 ? share * b[real[lane] - 1][lane] : 0;
    V before = {};
    for (long s = 1; s + 1 < nodes; ++s) {
      const V next = inverse_pivot(s) * (6 * share * b[s] - before);
      before = M{} + static_cast<int>(s + 1) < real ? next : V{};
      b[s] = before;
    }
    V after = {};
    for (long s = nodes - 2; s > 0; --s) b[s] = after = b[s] - inverse_pivot(s) * after;
    b[0] = b[nodes - 1] = V{};
    // The two end ones by a one-sided second difference (see Grid::invert).
    constexpr float ends[4] = {4 / 6.f, 5 / 6.f, -4 / 6.f, 1 / 6.f};
    const V from_first = first - (1 / 6.f) * b[1];
    for (int lane = 0; lane < kRows; ++lane) {
      if (real[lane] == 0) continue;
      float* own = reinterpret_cast<float*>(b) + lane;
      const float from_last = last[lane] - own[(real[lane] - 2) * kRows] / 6;
      for (int j = 0; j < 4; ++j) own[(real[lane] - 1 - j) * kRows] += from_last * ends[j];
    }
    for (int j = 0; j < 4; ++j) b[j] += from_first * ends[j];
    for (long s = 0; s < nodes; ++s) q[s] = fresh ? b[s] : q[s];
  }

  // 1 / p_s, p_1 = 4, p_s = 4 - 1 / p_(s-1), which is 2 + sqrt(3) to a rounding from the eighth on.
  static float inverse_pivot(long s) {
    static constexpr float first[8] = {0.25f,        0.266666667f, 0.267857143f, 0.267942584f,
                                       0.267948718f, 0.267949158f, 0.26794919f,  0.267949192f};
    return first[std::min(s, 8L) - 1];
  }
};

}  // namespace ibnn
