// One interface to the pair sums of a row: direct for few units, exact prefix sums for hardtanh, cells otherwise.
#pragma once
#include "sums/cells.h"

namespace ibnn {

// hardtanh: exact, from prefix sums over sorted units and two pointers (its kinks would spoil any interpolation).
class HardtanhSums {
 public:
  void set_points(const double* z, long n) {
    n_ = n;
    order_.resize(n), sorted_.resize(n), low_.resize(n), high_.resize(n), mass_.resize(n + 1);
    before_.resize(n), through_.resize(n), local_.resize(n), starts_.resize(n);
    if (!std::is_sorted(z, z + n)) {
      pairs_.resize(n);
      for (long i = 0; i < n; ++i) pairs_[i] = {z[i], i};
      std::sort(pairs_.begin(), pairs_.end());
      for (long i = 0; i < n; ++i) sorted_[i] = pairs_[i].first, order_[i] = pairs_[i].second;
    } else {
      for (long i = 0; i < n; ++i) sorted_[i] = z[i], order_[i] = i;
    }
    long low = 0, high = 0;
    for (long i = 0; i < n; ++i) {
      // Differences, not z + 1: at 1e20 that is z again.
      while (sorted_[i] - sorted_[low] >= 1) ++low;
      while (high < n && sorted_[high] - sorted_[i] < 1) ++high;
      low_[i] = low, high_[i] = high;
    }
    // Positions count from the start of each run without a gap of 1: no window crosses such a gap, and the moments of
    // a run do not feel a unit at 1e6.
    for (long i = 0; i < n; ++i) {
      starts_[i] = i == 0 || sorted_[i] - sorted_[i - 1] >= 1;
      local_[i] = starts_[i] ? 0 : local_[i - 1] + (sorted_[i] - sorted_[i - 1]);
    }
  }

  void sum(const double* a, int order, double* out) {
    if (order == 2 || order == 3) {
      std::fill(out, out + n_, 0.0);
      return;
    }
    const double share = 1.0 / static_cast<double>(n_);
    mass_[0] = 0;
    for (long j = 0; j < n_; ++j) {
      const double w = a ? a[order_[j]] : 1.0;
      mass_[j + 1] = mass_[j] + w;
      before_[j] = starts_[j] ? 0 : through_[j - 1];
      through_[j] = before_[j] + w * local_[j];
    }
    for (long j = 0; j < n_; ++j) {
      const long l = low_[j], h = high_[j];
      const double inside = mass_[h] - mass_[l];
      double total = inside;
      if (order == 0 || order == kStretch) total = through_[h - 1] - before_[l] - local_[j] * inside;
      if (order == 0) total += mass_[n_] - mass_[h] - mass_[l];
      out[order_[j]] = total * share;
    }
  }

 private:
  long n_ = 0;
  Array<long> order_, low_, high_;
  Array<double> sorted_, mass_, before_, through_, local_;
  Array<char> starts_;
  std::vector<std::pair<double, long>> pairs_;
};

// All pairs of a few units. Sums of every eighth of them do not wait for each other: the compiler makes vectors of them.
class DirectSums {
 public:
  explicit DirectSums(Sigma kind) : kind_(kind) {}

  void set_points(const double* z, long n) {
    n_ = n, padded_ = (n + W - 1) / W * W;
    z_.resize(padded_), a_.resize(padded_);
    std::copy(z, z + n, z_.data());
    std::fill(z_.data() + n, z_.data() + padded_, z[0]);
    std::fill(a_.data() + n, a_.data() + padded_, 0.0);
  }
  void sum(const double* a, int order, double* out) {
    for (long k = 0; k < n_; ++k) a_[k] = a ? a[k] : 1.0;
    if (kind_ == Sigma::tanh) return sum_of<Sigma::tanh>(order, out);
    if (kind_ == Sigma::arctan) return sum_of<Sigma::arctan>(order, out);
    sum_of<Sigma::erf>(order, out);
  }

 private:
  static constexpr int W = 8;
  const Sigma kind_;
  long n_ = 0, padded_ = 0;
  Array<double> z_, a_;

  template <Sigma kind> void sum_of(int order, double* out) const {
    switch (order) {
      case 0: return run<kind, 0>(out);
      case 1: return run<kind, 1>(out);
      case 2: return run<kind, 2>(out);
      case 3: return run<kind, 3>(out);
      default: return run<kind, kStretch>(out);
    }
  }
  template <Sigma kind, int order> void run(double* out) const {
    for (long i = 0; i < n_; ++i) {
      double part[W] = {}, sum = 0;
      const double t = z_[i], *z = z_.data(), *a = a_.data();
      for (long k = 0; k < padded_; k += W)
        for (int j = 0; j < W; ++j) part[j] += a[k + j] * derivative<kind>(order, z[k + j] - t);
      for (double p : part) sum += p;
      out[i] = sum / static_cast<double>(n_);
    }
  }
};

// Terms of the Chebyshev moments of a cell: enough for the type the caller works in.
template <class T> constexpr int terms = sizeof(T) == 4 ? 10 : 18;

template <int M> class UnitSums {
 public:
  explicit UnitSums(Sigma kind) : kind_(kind), few_(kind), many_(kind) {}

  void set_points(const double* z, long n) {
    n_ = n;
    if (kind_ == Sigma::hardtanh) return hard_.set_points(z, n);
    const auto ends = ends_of_row(z, n);
    directly_ = n <= kFew || (n <= kFewSparse && ends.high - ends.low > 0.25 * static_cast<double>(n));
    directly_ ? few_.set_points(z, n) : many_.set_points(z, n);
  }
  void sum(const double* a, int order, double* out) {
    if (kind_ == Sigma::hardtanh) return hard_.sum(a, order, out);
    directly_ ? few_.sum(a, order, out) : many_.sum(a, order, out);
  }
  void admit(double*, long) {}  // any points will do
  // out = v + c (P_1(z, v) - density v), density = P_1(z, 1); returns v . out.
  double product(const double* v, const double* density, double c, double* out) {
    sum(v, 1, out);
    return sum_of_chunks(n_, [=](long first, long end) {
      double dot = 0;
      for (long i = first; i < end; ++i) {
        out[i] = v[i] + c * (out[i] - density[i] * v[i]);
        dot += v[i] * out[i];
      }
      return dot;
    });
  }

 private:
  static constexpr long kFew = 48, kFewSparse = 192;  // with few units in a cell, cells take as long as this many pairs
  const Sigma kind_;
  long n_ = 0;
  bool directly_ = false;
  HardtanhSums hard_;
  DirectSums few_;
  CellSums<M> many_;
};

}  // namespace ibnn
