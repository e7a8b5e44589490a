// Sums of hardtanh over a sorted row, exact and in O(D): units see those within 1 of them, a run of the row.
//
// The run of a unit is found by bisection, many units in step, and sums over it are differences of running sums.
#pragma once
#include <algorithm>
#include <limits>

#include "basics/checked.h"
#include "basics/packs.h"
#include "basics/sigma.h"

namespace ibnn {

// What UnitNewton asks of sums; the points must be in order.
class SortedHardtanh {
 public:
  explicit SortedHardtanh(Sigma) {}
  void begin() { n_ = 0; }  // another row: where units were says nothing

  // Puts points in order where a step has broken it.
  void admit(double* z, long n) const {
    int64_t broken = 0;
    for (long i = 1; i < n; ++i) broken |= z[i] < z[i - 1] ? 1 : 0;
    for (long i = 1; broken && i < n; ++i) z[i] = std::max(z[i], z[i - 1]);
  }

  void set_points(const double* z, long n) {
    const bool known = n == n_;
    n_ = n;
    long top = 1;
    while (2 * top <= n) top *= 2;
    place(z, n, std::max(2 * top, kNear));  // a bisection looks at so many places, whatever it starts from
    low_.resize(n), high_.resize(n);
    // Points that have moved a little are near where they were.
    if (known) find_low(kNear);
    if (!known || !found()) find_low(2 * top);
    // The last unit that has i in its run is the end of the run of i.
    int64_t *low = low_.data(), *high = high_.data(), last = 0;
    high_.fill(0);
    for (long i = 0; i < n; ++i) high[low[i]] = i + 1;
    for (long i = 0; i < n; ++i) high[i] = last = std::max(last, high[i]);
  }

  // (1/n) sum_k s(z_k - z_i) without weights (order 0), (1/n) sum_k a_k s'(z_k - z_i) (order 1; a = nullptr means ones).
  void sum(const double* a, int order, double* out) {
    const double share = 1.0 / static_cast<double>(n_);
    const int64_t *low = low_.data(), *high = high_.data();
    if (order == 1 && !a) {
      for (long i = 0; i < n_; ++i) out[i] = share * static_cast<double>(high[i] - low[i]);
      return;
    }
    const double *through = running(order == 0 ? at_.data() : a), *at = at_.data();
    long i = 0;
    for (; i + kLanes<double> <= n_; i += kLanes<double>)
      store_pack<double>(out + i, share * (gather_pack(through, places(high + i)) - gather_pack(through, places(low + i))));
    for (; i < n_; ++i) out[i] = share * (through[high[i]] - through[low[i]]);
    if (order == 1) return;
    for (i = 0; i < n_; ++i)
      out[i] += share * (static_cast<double>(n_ - high[i] - low[i]) - static_cast<double>(high[i] - low[i]) * at[i]);
  }

 private:
  static constexpr long kNear = 32;
  static constexpr double kLong = 1e3;  // running sums of places lose three of their digits then
  long n_ = 0;
  Array<double> at_, through_;  // places, and running sums of what is summed
  Array<int64_t> low_, high_;   // units low .. high - 1 are within 1 of a unit

  static Mask<double> places(const int64_t* from) {
    Mask<double> v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }

  // The first unit within 1 of each, by bisection: among the `width` (a power of 2) around where it was, or among all.
  // Beyond the row everything is at infinity, where the comparison fails.
  void find_low(long width) {
    constexpr int L = kLanes<double>, kAtOnce = 4;  // packs, whose look-ups do not wait for each other
    const double* at = at_.data();
    const bool all = width > n_;
    int64_t* low = low_.data();
    auto start = [&](int64_t before) { return all ? 0 : std::max<int64_t>(0, before - width / 2); };
    long i = 0;
    for (; i + kAtOnce * L <= n_; i += kAtOnce * L) {
      Mask<double> first[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k) {
        const Mask<double> from = places(low + i + k * L) - width / 2;
        first[k] = all ? Mask<double>{} : (from > 0 ? from : Mask<double>{});
      }
      for (long step = width / 2; step > 0; step /= 2)
        for (int k = 0; k < kAtOnce; ++k) {
          const Mask<double> far = load_pack<double>(at + i + k * L) - gather_pack(at, first[k] + (step - 1)) >= 1;
          first[k] += far & step;
        }
      for (int k = 0; k < kAtOnce; ++k) std::memcpy(low + i + k * L, &first[k], sizeof first[k]);
    }
    for (; i < n_; ++i) {
      int64_t first = start(low[i]);
      for (long step = width / 2; step > 0; step /= 2) first += at[i] - at[first + step - 1] >= 1 ? step : 0;
      low[i] = first;
    }
  }

  // Whether the bisection has not ended at an end of what it looked at.
  bool found() const {
    constexpr int L = kLanes<double>;
    const double* at = at_.data();
    const int64_t* low = low_.data();
    Mask<double> wrong = {};
    long i = 0;
    for (; i + L <= n_; i += L) {
      const Mask<double> first = places(low + i), before = first > 0 ? first - 1 : first;
      const Doubles here = load_pack<double>(at + i);
      wrong |= (here - gather_pack(at, first) >= 1) | ((first > 0) & (here - gather_pack(at, before) < 1));
    }
    bool any = any_lane(wrong);
    for (; i < n_; ++i) any |= at[i] - at[low[i]] >= 1 || (low[i] > 0 && at[i] - at[low[i] - 1] < 1);
    return !any;
  }

  // Places count from the lowest unit. In long rows gaps beyond 1, over which s is flat, are cut to 2: then a unit at 1e20
  // does not cost the others their digits.
  void place(const double* z, long n, long room) {
    at_.resize(n + room);
    double* at = at_.data();
    if (z[n - 1] - z[0] < kLong) {
      for (long i = 0; i < n; ++i) at[i] = z[i] - z[0];
    } else {
      at[0] = 0;
      for (long i = 1; i < n; ++i) {
        const double gap = z[i] - z[i - 1];
        at[i] = at[i - 1] + (gap > 2 ? 2 : gap);
      }
    }
    std::fill(at + n, at + n + room, std::numeric_limits<double>::infinity());
  }

  // a_0 + ... + a_{i-1} for i = 0 .. n: four parts at once, since each addition waits for the one before.
  const double* running(const double* a) {
    through_.resize(n_ + 1);
    double* sum = through_.data();
    const long part = n_ / 4;
    double run[4] = {};
    for (long i = 0; i < part; ++i)
      for (int k = 0; k < 4; ++k) {
        sum[k * part + i] = run[k];
        run[k] += a[k * part + i];
      }
    for (int k = 1; k < 4; ++k) {
      const double before = run[k - 1];
      run[k] += before;
      for (long i = k * part; i < (k + 1) * part; ++i) sum[i] += before;
    }
    for (long i = 4 * part; i < n_; ++i) {
      sum[i] = run[3];
      run[3] += a[i];
    }
    sum[n_] = run[3];
    return sum;
  }
};

}  // namespace ibnn
