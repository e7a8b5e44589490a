// One explicit step and its gradient of short rows, a row in each lane: all pairs of their units, or running sums over the
// sorted ones.
#pragma once
#include "basics/row_packs.h"
#include "basics/tasks.h"
#include "packs/pair_table.h"
#include "packs/sort_packs.h"
#include "packs/sorted_table.h"

namespace ibnn {

template <Sigma kind> class ExplicitLanes {
 public:
  using V = Floats;
  using M = Mask<float>;
  // Beyond it running sums leave the cache; no sigma but tanh has them.
  static constexpr long longest = kind == Sigma::tanh ? 2048 : 64;

  // `otherwise(row)` is called for the rows that are not for lanes.
  template <class Otherwise> void step(const StepTask<float>& task, const RowPack<float>& pack, Otherwise otherwise) {
    const long n = task.units;
    const float slope = static_cast<float>(task.slope), share = static_cast<float>(task.lam / static_cast<double>(n));
    read(pack, n, task.y, slope);
    const M mine = each_way(n, range_, M{} - 1, [&](M now, bool sorted, Reach reach) {
      if (sorted) {
        sort(n);
        sorted_.fine = false;
        sorted_.evaluate(x_.data());
        unsort(sorted_.bias.data(), n);
      } else {
        pairs<false>(n, reach);
      }
      for (long i = 0; i < n; ++i) out_[i] = now ? raw_[i] - share * sum_[i] : out_[i];
    });
    pack.write(out_.data(), task.z);
    if (task.scaled) {
      for (long i = 0; i < n; ++i) raw_[i] *= slope;
      pack.write(raw_.data(), task.scaled);
    }
    leave(pack, mine, otherwise);
  }

  template <class Otherwise>
  void step_gradient(const StepGradientTask<float>& task, const RowPack<float>& pack, Otherwise otherwise) {
    const long n = task.units;
    const float share = static_cast<float>(task.strength / static_cast<double>(n));
    read(pack, n, task.z, 1);
    g_.resize(n);
    pack.read(task.g, g_.data());
    const M mine = each_way(n, range_, finite_lanes<float>(g_.data(), n), [&](M now, bool sorted, Reach reach) {
      const V dots = (sorted ? sorted_gradient(n) : pairs<true>(n, reach)) / static_cast<float>(n);
      for (long i = 0; i < n; ++i) out_[i] = now ? g_[i] - share * sum_[i] : out_[i];
      for (int lane = 0; lane < pack.count(); ++lane)
        if (now[lane]) task.dots[pack.row(lane)] = dots[lane];
    });
    pack.write(out_.data(), task.v);
    leave(pack, mine, otherwise);
  }

 private:
  // The longest rows whose pairs are summed one by one, as measured; with a range of at most 1 running sums, whose noise is a
  // rounding of 1, would lose the digits of the row.
  static constexpr long kPairs = kind == Sigma::tanh ? 40 : 64, kNarrowPairs = 96;
  static constexpr int kBlock = 4;  // units whose sums stay in registers while all later units pass by
  SortedTable<float> sorted_;
  Array<V> raw_, x_, g_, sum_, out_, first_, second_;
  Array<M> places_;
  V range_ = {}, middle_ = {};
  float slope_ = 1;

  void read(const RowPack<float>& pack, long n, const float* from, float slope) {
    for (auto* a : {&raw_, &x_, &sum_, &out_, &first_, &second_}) a->resize(n);
    pack.read(from, raw_.data());
    V low, high;
    range_of_lanes<float>(raw_.data(), n, &low, &high);
    range_ = slope * (high - low), slope_ = slope;
    // Exponentials fit if counted from the middle; where they never fit, units near 0 would lose their digits to a far one.
    middle_ = range_ <= kUsual<float> ? 0.5f * low + 0.5f * high : V{};
  }

  // Calls run(lanes, sorted, reach) for every way that lanes go; returns those that went one.
  template <class Run> M each_way(long n, V range, M allowed, Run run) {
    const M mine = allowed & finite_lanes<float>(raw_.data(), n) & (range < 1e30f);
    const M close = mine & (range <= static_cast<float>(kClose)), far = mine & (range > kUsual<float>);
    const M usual = mine & ~close & ~far;
    M done = {};
    auto go = [&](M now, bool sorted, Reach reach) {
      if (!any_lane(now)) return;
      for (long i = 0; i < n; ++i) x_[i] = now ? slope_ * (raw_[i] - middle_) : V{};
      run(now, sorted, reach);
      done |= now;
    };
    if (kind != Sigma::tanh) {
      go(mine, false, Reach::far);
    } else {
      if (n <= kNarrowPairs) go(close, false, Reach::close);
      if (n > kPairs) go(usual | far, true, Reach::far);
      else go(usual, false, Reach::usual), go(far, false, Reach::far);
    }
    return done;
  }

  template <class Otherwise> static void leave(const RowPack<float>& pack, M mine, Otherwise otherwise) {
    for (int lane = 0; lane < pack.count(); ++lane)
      if (!mine[lane]) otherwise(pack.row(lane));
  }

  void sort(long n) {
    sorted_.resize(n), places_.resize(n);
    sort_packs<float>(x_.data(), places_.data(), n);
  }
  // sum_ = x, every unit back in its place.
  void unsort(const V* x, long n) {
    float* to = reinterpret_cast<float*>(sum_.data());
    for (long i = 0; i < n; ++i)
      for (int lane = 0; lane < kLanes<float>; ++lane) to[places_[i][lane] * kLanes<float> + lane] = x[i][lane];
  }

  V sorted_gradient(long n) {
    sort(n);
    const float* from = reinterpret_cast<const float*>(g_.data());
    for (long i = 0; i < n; ++i)
      for (int lane = 0; lane < kLanes<float>; ++lane)
        first_[i][lane] = from[places_[i][lane] * kLanes<float> + lane];
    sorted_.fine = true;
    sorted_.evaluate(x_.data());
    sorted_.product(first_.data(), pack_of(1.0f), second_.data());
    V dots = {};
    for (long i = 0; i < n; ++i) {
      second_[i] -= first_[i];
      dots += first_[i] * sorted_.bias[i];
    }
    unsort(second_.data(), n);
    return dots;
  }

  // sum_i = sum_k s(x_k - x_i); or sum_k s'(x_k - x_i) (g_k - g_i), and then it returns sum_ik g_i s(x_k - x_i).
  template <bool gradient> V pairs(long n, Reach reach) {
    V dots = {};
    with_rule<kind, float>(reach, [&](auto rule) { dots = pairs_by<decltype(rule), gradient>(n); });
    return dots;
  }
  template <class Rule, bool gradient> V pairs_by(long n) {
    for (long i = 0; i < n; ++i) {
      Rule::set(x_[i], first_.slot(i, 1), second_.slot(i, 1));
      sum_[i] = V{};
    }
    V dots = {};
    long i = 0;
    for (; i + kBlock <= n; i += kBlock) dots += block<Rule, gradient, kBlock>(i, n);
    switch (n - i) {
      case 3: return dots + block<Rule, gradient, 3>(i, n);
      case 2: return dots + block<Rule, gradient, 2>(i, n);
      default: return dots;
    }
  }
  template <class Rule, bool gradient, int m> V block(long i, long n) {
    V own[m], other[m], sum[m] = {}, own_g[m], dots = {};
    for (int a = 0; a < m; ++a) own[a] = first_[i + a], other[a] = second_[i + a], own_g[a] = gradient ? g_[i + a] : V{};
    auto flow = [&](int a, V there, V there_g) {
      V t, d;
      Rule::pair(own[a], other[a], there, &t, &d);
      if (!gradient) return t;
      const V gap = there_g - own_g[a];
      dots -= t * gap;
      return d * gap;
    };
    for (int b = 1; b < m; ++b)
      for (int a = 0; a < b; ++a) {
        const V x = flow(a, own[b], own_g[b]);
        sum[a] += x, sum[b] -= x;
      }
    for (long k = i + m; k < n; ++k) {
      const V there = first_[k], there_g = gradient ? g_[k] : V{};
      V back = sum_[k];
      for (int a = 0; a < m; ++a) {
        const V x = flow(a, there, there_g);
        sum[a] += x, back -= x;
      }
      sum_[k] = back;
    }
    for (int a = 0; a < m; ++a) sum_[i + a] += sum[a];
    return dots;
  }
};

}  // namespace ibnn
