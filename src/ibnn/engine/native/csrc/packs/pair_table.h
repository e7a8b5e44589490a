// All pairs of units of a pack of rows: their sums, and their slopes kept for products with J.
//
// J v = v + c/n sum_k s'(z_k - z_i) (v_k - v_i). Written with differences it maps a constant to itself to the last digit,
// however large c is.
#pragma once
#include <algorithm>
#include <limits>

#include "basics/checked.h"
#include "basics/pair_rules.h"

namespace ibnn {

template <Sigma kind, class T> class PairTable {
 public:
  using V = Pack<T>;
  static constexpr T kNoise = 2 * std::numeric_limits<T>::epsilon();  // of a sum of s, in units of n
  static constexpr bool kPositive = kind != Sigma::hardtanh;
  Reach reach = Reach::usual;
  Array<V> bias, degree;  // sum_k s(z_k - z_i) and sum_k s'(z_k - z_i), both without 1/n and without k = i

  void resize(long n) {
    n_ = n;
    for (auto* a : {&bias, &degree, &first_, &second_}) a->resize(n);
    slope_.resize(n * (n - 1) / 2);
  }

  void evaluate(const V* z) {
    switch (reach) {
      case Reach::close: return evaluate<PairRuleOf<kind, T, Reach::close>>(z);
      case Reach::usual: return evaluate<PairRuleOf<kind, T, Reach::usual>>(z);
      case Reach::far: return evaluate<PairRuleOf<kind, T, Reach::far>>(z);
    }
  }

  void admit(const V*, V, V*) const {}

  // out = v + share * sum_k s' (v_k - v_i); returns v . out.
  V product(const V* v, V share, V* out) const {
    for (long i = 0; i < n_; ++i) out[i] = V{};
    const V* slope = slope_.data();
    long i = 0;
    for (; i + kBlock <= n_; i += kBlock) slope = product_block<kBlock>(v, i, slope, out);
    switch (n_ - i) {
      case 3: slope = product_block<3>(v, i, slope, out); break;
      case 2: slope = product_block<2>(v, i, slope, out); break;
      default: break;
    }
    V sum = {};
    for (long k = 0; k < n_; ++k) {
      out[k] = v[k] + share * out[k];
      sum += v[k] * out[k];
    }
    return sum;
  }

 private:
  static constexpr int kBlock = 4;  // units whose sums stay in registers while all later units pass by
  long n_ = 0;
  Array<V> first_, second_, slope_;

  template <class Rule> void evaluate(const V* z) {
    for (long i = 0; i < n_; ++i) {
      Rule::set(z[i], first_.slot(i, 1), second_.slot(i, 1));
      bias[i] = degree[i] = V{};
    }
    V* slope = slope_.data();
    long i = 0;
    for (; i + kBlock <= n_; i += kBlock) slope = evaluate_block<Rule, kBlock>(i, slope);
    switch (n_ - i) {
      case 3: evaluate_block<Rule, 3>(i, slope); break;
      case 2: evaluate_block<Rule, 2>(i, slope); break;
      default: break;
    }
  }

  template <class Rule, int m> V* evaluate_block(long i, V* slope) {
    V own[m], other[m], sum[m] = {}, total[m] = {};
    for (int a = 0; a < m; ++a) own[a] = first_[i + a], other[a] = second_[i + a];
    for (int b = 1; b < m; ++b)
      for (int a = 0; a < b; ++a) {
        V t, d;
        Rule::pair(own[a], other[a], own[b], &t, &d);
        sum[a] += t, sum[b] -= t, total[a] += d, total[b] += d, *slope++ = d;
      }
    for (long k = i + m; k < n_; ++k) {
      const V there = first_[k];
      V back = bias[k], weight = degree[k];
      for (int a = 0; a < m; ++a) {
        V t, d;
        Rule::pair(own[a], other[a], there, &t, &d);
        sum[a] += t, back -= t, total[a] += d, weight += d, *slope++ = d;
      }
      bias[k] = back, degree[k] = weight;
    }
    for (int a = 0; a < m; ++a) bias[i + a] += sum[a], degree[i + a] += total[a];
    return slope;
  }

  template <int m> const V* product_block(const V* v, long i, const V* slope, V* out) const {
    V own[m], sum[m] = {};
    for (int a = 0; a < m; ++a) own[a] = v[i + a];
    for (int b = 1; b < m; ++b)
      for (int a = 0; a < b; ++a) {
        const V flow = *slope++ * (own[b] - own[a]);
        sum[a] += flow, sum[b] -= flow;
      }
    for (long k = i + m; k < n_; ++k) {
      const V there = v[k];
      V back = out[k];
      for (int a = 0; a < m; ++a) {
        const V d = *slope++, gap = there - own[a];
        sum[a] += d * gap, back -= d * gap;
      }
      out[k] = back;
    }
    for (int a = 0; a < m; ++a) out[i + a] += sum[a];
    return slope;
  }
};

}  // namespace ibnn
