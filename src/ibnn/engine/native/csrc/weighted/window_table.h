// The pairs of a map of units within a window of each other: their sums, and their slopes kept for products with J.
//
// Of two opposite offsets one is taken: a pair gives to both of its units. Units lie one after the other, so an offset is a
// shift; a pair that would go around the end of a line has the weight 0.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "basics/checked.h"
#include "basics/pair_rules.h"
#include "weighted/weighted_pairs.h"

namespace ibnn {

// Slopes are kept where they stay in the caches; beyond that it is faster to compute them anew than to fetch them.
constexpr long kMostKept = 8 << 20;  // bytes

// Numbers that arrays of n units have room for: whole packs, and one more for those that are shifted.
template <class T> constexpr long padded(long n) { return (n + kLanes<T> - 1) / kLanes<T> * kLanes<T> + kLanes<T>; }

// Arrays of units are padded with zeros.
template <Sigma kind, class T> class WindowTable {
 public:
  using V = Pack<T>;
  Array<T> bias, degree;  // sum_k w s(z_k - z_i) and sum_k w s'(z_k - z_i), both without k = i
  T total = 0;            // no unit's weights, its own left out, sum to more

  template <class From> void prepare(const Weights<From>& weights) {
    const Extent &map = weights.map, &kernel = weights.kernel;
    n_ = map.total(), total = 0;
    for (auto* a : {&bias, &degree, &first_, &second_, &back_, &back_degree_}) a->resize(padded<T>(n_));
    make_masks(map, kernel);
    shifts_.clear(), groups_.clear();
    const long middle = kernel.total() / 2, columns = kernel.size[2];
    long packs = 0;
    for (long column = 0; column < columns; ++column) {
      const long first = static_cast<long>(shifts_.size());
      for (long tap = column; tap < kernel.total(); tap += columns) {
        const long offset[3] = {tap / (columns * kernel.size[1]) - kernel.size[0] / 2,
                                tap / columns % kernel.size[1] - kernel.size[1] / 2, column - columns / 2};
        if (tap <= middle || !fits(offset, map)) continue;
        // Symmetric, to the rounding of what made them.
        const T weight = static_cast<T>(0.5 * (static_cast<double>(weights.weight[tap]) + weights.weight[2 * middle - tap]));
        const long by = (offset[0] * map.size[1] + offset[1]) * map.size[2] + offset[2];
        shifts_.push_back({by, n_ - by, mask_of(tap, map, kernel), weight});
        packs += (n_ - by + L - 1) / L;
        total += 2 * weight;
      }
      if (first < static_cast<long>(shifts_.size())) groups_.push_back({first, static_cast<long>(shifts_.size())});
    }
    kept_ = packs * L * static_cast<long>(sizeof(T)) <= kMostKept;
    if (kept_) slope_.resize(packs * L);
  }

  void evaluate(const T* z, Reach reach) {
    reach_ = reach;
    with_rule<kind, T>(reach, [&](auto rule) { evaluate_by<decltype(rule)>(z); });
  }

  // out_i = sum_k w s'(z_k - z_i) (v_k - v_i).
  void product(const T* v, T* out) {
    if (kept_)
      product_by<DifferenceRule<T, HardtanhPair<T>>, true>(v, out);  // no rule is needed
    else
      with_rule<kind, T>(reach_, [&](auto rule) { product_by<decltype(rule), false>(v, out); });
  }

  // Calls f(weight, i, k) for every pair.
  template <class F> void for_each_pair(F f) const {
    for (const Shift& shift : shifts_)
      for (long i = 0; i < shift.pairs; ++i)
        if (masks_[shift.mask + i] != 0) f(shift.weight, i, i + shift.by);
  }

 private:
  static constexpr int L = kLanes<T>;
  struct Shift {
    long by, pairs, mask;
    T weight;
  };
  struct Group {  // shifts by the same column, in order: what a unit hears from them is summed in a register
    long first, end;
  };
  long n_ = 0, lines_ = 0;
  bool kept_ = true;
  Reach reach_ = Reach::usual;
  std::vector<Shift> shifts_;
  std::vector<Group> groups_;
  Array<T> masks_, first_, second_, back_, back_degree_, slope_;

  static bool fits(const long (&offset)[3], const Extent& map) {
    for (int d = 0; d < 3; ++d)
      if (std::abs(offset[d]) >= map.size[d]) return false;
    return true;
  }

  // 1 for units whose neighbor at an offset is in the same map, 0 for others. Where the first dim ends the units end, too.
  void make_masks(const Extent& map, const Extent& kernel) {
    lines_ = map.size[0] > 1 ? kernel.size[1] : 1;
    masks_.resize(lines_ * kernel.size[2] * padded<T>(n_));
    masks_.fill(0);
    for (long line = 0; line < lines_; ++line)
      for (long column = 0; column < kernel.size[2]; ++column) {
        T* mask = masks_.slot((line * kernel.size[2] + column) * padded<T>(n_), padded<T>(n_));
        const long down = lines_ > 1 ? line - kernel.size[1] / 2 : 0, right = column - kernel.size[2] / 2;
        for (long i = 0; i < n_; i += map.size[2]) {
          const long y = i / map.size[2] % map.size[1] + down;
          if (y < 0 || y >= map.size[1]) continue;
          const long begin = std::max(0L, -right), end = map.size[2] - std::max(0L, right);
          for (long x = begin; x < end; ++x) mask[i + x] = 1;
        }
      }
  }

  long mask_of(long tap, const Extent&, const Extent& kernel) const {
    const long line = lines_ > 1 ? tap / kernel.size[2] % kernel.size[1] : 0;
    return (line * kernel.size[2] + tap % kernel.size[2]) * padded<T>(n_);
  }

  V weights_of(const Shift& shift, long i) const {
    V w = shift.weight * load_pack<T>(masks_.slot(shift.mask + i, L));
    if (i + L > shift.pairs)
      for (int lane = 0; lane < L; ++lane)
        if (i + lane >= shift.pairs) w[lane] = 0;
    return w;
  }

  template <class Rule> void evaluate_by(const T* z) {
    for (long i = 0; i < padded<T>(n_); i += L) {
      V first, second;
      Rule::set(load_pack<T>(z + i), &first, &second);
      store_pack<T>(first_.slot(i, L), first), store_pack<T>(second_.slot(i, L), second);
    }
    for (auto* a : {&bias, &degree, &back_, &back_degree_}) a->fill(0);
    T* slope = slope_.data();
    for (const Group& group : groups_)
      for (long i = 0; i < shifts_[group.first].pairs; i += L) {
        const V own = load_pack<T>(first_.slot(i, L)), other = load_pack<T>(second_.slot(i, L));
        V sum = {}, density = {};
        for (long k = group.first; k < group.end; ++k) {
          const Shift& shift = shifts_[k];
          if (i >= shift.pairs) break;
          const V w = weights_of(shift, i);
          V t, d;
          Rule::pair(own, other, load_pack<T>(first_.slot(i + shift.by, L)), &t, &d);
          t *= w, d *= w;
          sum += t, density += d;
          add_to(back_, i + shift.by, -t), add_to(back_degree_, i + shift.by, d);
          if (kept_) store_pack<T>(slope, d), slope += L;
        }
        add_to(bias, i, sum), add_to(degree, i, density);
      }
    for (long i = 0; i < padded<T>(n_); ++i) bias[i] += back_[i], degree[i] += back_degree_[i];
  }

  template <class Rule, bool kept> void product_by(const T* v, T* out) {
    std::fill(out, out + padded<T>(n_), T(0));
    back_.fill(0);
    const T* slope = slope_.data();
    for (const Group& group : groups_)
      for (long i = 0; i < shifts_[group.first].pairs; i += L) {
        const V own = load_pack<T>(v + i);
        V sum = {};
        for (long k = group.first; k < group.end; ++k) {
          const Shift& shift = shifts_[k];
          if (i >= shift.pairs) break;
          V t, d;
          if (kept) {
            d = load_pack<T>(slope), slope += L;
          } else {
            Rule::pair(load_pack<T>(first_.slot(i, L)), load_pack<T>(second_.slot(i, L)),
                       load_pack<T>(first_.slot(i + shift.by, L)), &t, &d);
            d *= weights_of(shift, i);
          }
          const V flow = d * (load_pack<T>(v + i + shift.by) - own);
          sum += flow;
          add_to(back_, i + shift.by, -flow);
        }
        store_pack<T>(out + i, load_pack<T>(out + i) + sum);
      }
    for (long i = 0; i < padded<T>(n_); ++i) out[i] += back_[i];
  }

  static void add_to(Array<T>& sums, long i, V x) {
    T* place = sums.slot(i, L);
    store_pack<T>(place, load_pack<T>(place) + x);
  }
};

}  // namespace ibnn
