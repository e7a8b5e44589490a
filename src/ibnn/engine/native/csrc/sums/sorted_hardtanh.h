// Sums of hardtanh over a sorted row, exact and in O(D): units see those within 1 of them, a run of the row.
//
// Sums over the run of a unit are differences of running sums.
#pragma once
#include <algorithm>

#include "basics/checked.h"
#include "basics/packs.h"
#include "basics/sigma.h"
#include "sums/unit_runs.h"

namespace ibnn {

// What UnitNewton asks of sums; the points must be in order.
class SortedHardtanh {
 public:
  explicit SortedHardtanh(Sigma) {}

  // Puts points in order where a step has broken it.
  void admit(double* z, long n) const {
    int64_t broken = 0;
    for (long i = 1; i < n; ++i) broken |= z[i] < z[i - 1] ? 1 : 0;
    for (long i = 1; broken && i < n; ++i) z[i] = std::max(z[i], z[i - 1]);
  }

  void set_points(const double* z, long n) {
    n_ = n;
    place(z, n);
    low_.resize(n), high_.resize(n);
    UnitRuns::find(at_.data(), ahead_.data(), n, low_.data(), high_.data());
  }

  // (1/n) sum_k s(z_k - z_i) without weights (order 0), (1/n) sum_k a_k s'(z_k - z_i) (order 1; a = nullptr means ones).
  void sum(const double* a, int order, double* out) {
    const double share = 1.0 / static_cast<double>(n_);
    const int32_t *low = low_.data(), *high = high_.data();
    if (order == 1 && !a) {
      for (long i = 0; i < n_; ++i) out[i] = share * static_cast<double>(high[i] - low[i]);
      return;
    }
    const double *through = running(order == 0 ? at_.data() : a), *at = at_.data();
    // A unit sees the others of its run where they are, those beyond its ends as 1 and -1.
    const double total = static_cast<double>(n_), straight = order == 0 ? 1 : 0;
    long i = 0;
    for (; i + kLanes<double> <= n_; i += kLanes<double>) {
      Doubles inside, first, end;
      for (int k = 0; k < kLanes<double>; ++k) {
        const int32_t l = low[i + k], h = high[i + k];
        inside[k] = through[h] - through[l], first[k] = l, end[k] = h;
      }
      if (order == 0) inside += total - end - first - (end - first) * load_pack<double>(at + i);
      store_pack<double>(out + i, share * inside);
    }
    for (; i < n_; ++i) {
      const double first = low[i], end = high[i];
      out[i] = share * (through[high[i]] - through[low[i]] + straight * (total - end - first - (end - first) * at[i]));
    }
  }

  // out = v + c (P_1(z, v) - density v), density = P_1(z, 1); returns v . out.
  template <class Number> double product(const Number* v, const Number* density, double c, Number* out) {
    const double* through = running(v);
    const int32_t *low = low_.data(), *high = high_.data();
    const double share = 1.0 / static_cast<double>(n_);
    const Number strength = static_cast<Number>(c);
    Pack<Number> sum = {};
    long i = 0;
    for (; i + kLanes<Number> <= n_; i += kLanes<Number>) {
      Pack<Number> inside;
      for (int k = 0; k < kLanes<Number>; ++k) inside[k] = static_cast<Number>(share * (through[high[i + k]] - through[low[i + k]]));
      const Pack<Number> here = load_pack<Number>(v + i);
      const Pack<Number> all = here + strength * (inside - load_pack<Number>(density + i) * here);
      store_pack<Number>(out + i, all);
      sum += here * all;
    }
    double dot = 0;
    for (int k = 0; k < kLanes<Number>; ++k) dot += sum[k];
    for (; i < n_; ++i) {
      const Number inside = static_cast<Number>(share * (through[high[i]] - through[low[i]]));
      out[i] = v[i] + strength * (inside - density[i] * v[i]);
      dot += v[i] * out[i];
    }
    return dot;
  }

 private:
  static constexpr double kLong = 1e3;  // running sums of places lose three of their digits then
  static constexpr int kParts = 4;  // of a running sum
  long n_ = 0;
  Array<double> at_, ahead_, through_;  // places, places 1 farther, and running sums of what is summed
  Array<int32_t> low_, high_;           // units low .. high - 1 are within 1 of a unit

  // Places count from the lowest unit. In long rows gaps beyond 1, over which s is flat, are cut to 2: then a unit at 1e20
  // does not cost the others their digits.
  void place(const double* z, long n) {
    at_.resize(n), ahead_.resize(n);
    double *at = at_.data(), *ahead = ahead_.data();
    if (z[n - 1] - z[0] < kLong) {
      for (long i = 0; i < n; ++i) at[i] = z[i] - z[0];
    } else {
      at[0] = 0;
      for (long i = 1; i < n; ++i) {
        const double gap = z[i] - z[i - 1];
        at[i] = at[i - 1] + (gap > 2 ? 2 : gap);
      }
    }
    // The walk over the places must not leave them: a row with a unit that is no number any more has all of them at 0.
    const double top = at[n - 1];
    int64_t lost = 0;
    for (long i = 0; i < n; ++i) {
      lost |= at[i] <= top ? 0 : 1;
      ahead[i] = at[i] + 1;
    }
    if (lost) std::fill(at, at + n, 0.0), std::fill(ahead, ahead + n, 1.0);
  }

  // a_0 + ... + a_{i-1} for i = 0 .. n, in double: parts at once, since each addition waits for the one before.
  template <class Number> const double* running(const Number* a) {
    through_.resize(n_ + 1);
    double* sum = through_.data();
    const long part = n_ / kParts;
    double run[kParts] = {};
    for (int k = 0; k + 1 < kParts; ++k) run[k + 1] = run[k] + total(a + k * part, part);
    for (long i = 0; i < part; ++i)
      for (int k = 0; k < kParts; ++k) {
        sum[k * part + i] = run[k];
        run[k] += a[k * part + i];
      }
    for (long i = kParts * part; i < n_; ++i) {
      sum[i] = run[kParts - 1];
      run[kParts - 1] += a[i];
    }
    sum[n_] = run[kParts - 1];
    return sum;
  }

  template <class Number> static double total(const Number* a, long n) {
    double sum = 0;
    for (long i = 0; i < n; ++i) sum += a[i];
    return sum;
  }
};

}  // namespace ibnn
