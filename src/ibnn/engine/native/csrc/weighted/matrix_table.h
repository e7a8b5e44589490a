// All pairs of a row, weighted by a matrix: their sums, and their slopes kept for products with J.
//
// A few units hear all later ones, a pack at a time, and are heard by them. The weights are laid out in that order, with
// zeros where there is no pair, so that they and the slopes are read from the first to the last.
#pragma once
#include "weighted/window_table.h"

namespace ibnn {

// As WindowTable.
template <Sigma kind, class T> class MatrixTable {
 public:
  using V = Pack<T>;
  Array<T> bias, degree;
  T total = 0;

  template <class From> void prepare(const Weights<From>& weights) {
    n_ = weights.map.total(), total = 0;
    for (auto* a : {&bias, &degree, &first_, &second_}) a->resize(padded<T>(n_));
    long packs = 0;
    for (long i = 0; i < n_; i += kBlock) packs += kBlock * (end() - i / L * L) / L;
    weight_.resize(packs * L), sum_.resize(padded<T>(n_));
    sum_.fill(0);
    T* to = weight_.data();
    for (long i = 0; i < n_; i += kBlock)
      for (long k = i / L * L; k < end(); k += L, to += kBlock * L) {
        std::fill(to, to + kBlock * L, T(0));
        for (long b = k; b < std::min(k + L, n_); ++b)
          for (long a = i; a < std::min(i + kBlock, b); ++a) {
            // Symmetric, to the rounding of what made them.
            const T w = T(0.5) * (static_cast<T>(weights.weight[a * n_ + b]) + static_cast<T>(weights.weight[b * n_ + a]));
            to[(a - i) * L + b - k] = w, sum_[a] += w, sum_[b] += w;
          }
      }
    total = *std::max_element(sum_.data(), sum_.data() + n_);
    kept_ = packs * L * static_cast<long>(sizeof(T)) <= kMostKept;
    if (kept_) slope_.resize(packs * L);
  }

  void evaluate(const T* z, Reach reach) {
    reach_ = reach;
    with_rule<kind, T>(reach, [&](auto rule) { evaluate_by<decltype(rule)>(z); });
  }

  void product(const T* v, T* out) {
    if (kept_)
      product_by<DifferenceRule<T, HardtanhPair<T>>, true>(v, out);  // no rule is needed
    else
      with_rule<kind, T>(reach_, [&](auto rule) { product_by<decltype(rule), false>(v, out); });
  }

  template <class F> void for_each_pair(F f) const {
    long place = 0;
    for (long i = 0; i < n_; i += kBlock)
      for (long k = i / L * L; k < end(); k += L)
        for (long a = i; a < i + kBlock; ++a)
          for (long b = k; b < k + L; ++b, ++place)
            if (weight_[place] != 0) f(weight_[place], a, b);
  }

 private:
  static constexpr int L = kLanes<T>;
  static constexpr int kBlock = 4;  // divides L
  long n_ = 0;
  bool kept_ = true;
  Reach reach_ = Reach::usual;
  Array<T> weight_, sum_, slope_, first_, second_;

  long end() const { return padded<T>(n_) - L; }

  static T sum_of(V x) {
    T sum = 0;
    for (int lane = 0; lane < L; ++lane) sum += x[lane];
    return sum;
  }

  template <class Rule> void evaluate_by(const T* z) {
    for (long i = 0; i < padded<T>(n_); i += L) {
      V first, second;
      Rule::set(load_pack<T>(z + i), &first, &second);
      store_pack<T>(first_.slot(i, L), first), store_pack<T>(second_.slot(i, L), second);
    }
    bias.fill(0), degree.fill(0);
    const T* weight = weight_.data();
    T* slope = slope_.data();
    for (long i = 0; i < n_; i += kBlock) {
      V own[kBlock], other[kBlock], sum[kBlock] = {}, density[kBlock] = {};
      for (int a = 0; a < kBlock; ++a) own[a] = pack_of(first_[i + a]), other[a] = pack_of(second_[i + a]);
      for (long k = i / L * L; k < end(); k += L) {
        const V there = load_pack<T>(first_.slot(k, L));
        V back = load_pack<T>(bias.slot(k, L)), dense = load_pack<T>(degree.slot(k, L));
        for (int a = 0; a < kBlock; ++a) {
          V t, d;
          Rule::pair(own[a], other[a], there, &t, &d);
          const V w = load_pack<T>(weight);
          weight += L;
          t *= w, d *= w;
          sum[a] += t, density[a] += d, back -= t, dense += d;
          if (kept_) store_pack<T>(slope, d), slope += L;
        }
        store_pack<T>(bias.slot(k, L), back), store_pack<T>(degree.slot(k, L), dense);
      }
      for (int a = 0; a < kBlock; ++a) bias[i + a] += sum_of(sum[a]), degree[i + a] += sum_of(density[a]);
    }
  }

  template <class Rule, bool kept> void product_by(const T* v, T* out) {
    std::fill(out, out + padded<T>(n_), T(0));
    const T *slope = slope_.data(), *weight = weight_.data();
    for (long i = 0; i < n_; i += kBlock) {
      V own[kBlock], sum[kBlock] = {};
      for (int a = 0; a < kBlock; ++a) own[a] = pack_of(v[i + a]);
      for (long k = i / L * L; k < end(); k += L) {
        const V there = load_pack<T>(v + k);
        V back = load_pack<T>(out + k);
        for (int a = 0; a < kBlock; ++a) {
          V t, d;
          if (kept) {
            d = load_pack<T>(slope), slope += L;
          } else {
            Rule::pair(pack_of(first_[i + a]), pack_of(second_[i + a]), load_pack<T>(first_.slot(k, L)), &t, &d);
            d *= load_pack<T>(weight), weight += L;
          }
          const V flow = d * (there - own[a]);
          sum[a] += flow, back -= flow;
        }
        store_pack<T>(out + k, back);
      }
      for (int a = 0; a < kBlock; ++a) out[i + a] += sum_of(sum[a]);
    }
  }
};

}  // namespace ibnn
