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
    if (order >= 2) {
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
      if (order == 0) {
        total = through_[h - 1] - before_[l] - local_[j] * inside;
        total += mass_[n_] - mass_[h] - mass_[l];
      }
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

template <Sigma kind> void direct_sum(const double* z, const double* a, long n, int order, double* out) {
  auto run = [=](auto f) {
    for (long i = 0; i < n; ++i) {
      double sum = 0;
      const double t = z[i];
      if (a)
        for (long k = 0; k < n; ++k) sum += a[k] * f(z[k] - t);
      else
        for (long k = 0; k < n; ++k) sum += f(z[k] - t);
      out[i] = sum / static_cast<double>(n);
    }
  };
  switch (order) {
    case 0: return run([](double x) { return Nonlinearity<kind>::value(x); });
    case 1: return run([](double x) { return Nonlinearity<kind>::slope(x); });
    case 2: return run([](double x) { return Nonlinearity<kind>::bend(x); });
    default: return run([](double x) { return Nonlinearity<kind>::third(x); });
  }
}

// Terms of the Chebyshev moments of a cell: enough for the type the caller works in.
template <class T> constexpr int terms = sizeof(T) == 4 ? 10 : 18;

// z must stay alive between set_points and the sums that use it.
template <int M> class UnitSums {
 public:
  explicit UnitSums(Sigma kind) : kind_(kind), many_(kind) {}

  void set_points(const double* z, long n) {
    z_ = z, n_ = n;
    if (kind_ == Sigma::hardtanh)
      hard_.set_points(z, n);
    else if (n > kFew)
      many_.set_points(z, n);
  }
  void sum(const double* a, int order, double* out) {
    if (kind_ == Sigma::hardtanh) return hard_.sum(a, order, out);
    if (n_ > kFew) return many_.sum(a, order, out);
    if (kind_ == Sigma::tanh) return direct_sum<Sigma::tanh>(z_, a, n_, order, out);
    if (kind_ == Sigma::arctan) return direct_sum<Sigma::arctan>(z_, a, n_, order, out);
    direct_sum<Sigma::erf>(z_, a, n_, order, out);
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
  static constexpr long kFew = 48;
  const Sigma kind_;
  const double* z_ = nullptr;
  long n_ = 0;
  HardtanhSums hard_;
  CellSums<M> many_;
};

}  // namespace ibnn
