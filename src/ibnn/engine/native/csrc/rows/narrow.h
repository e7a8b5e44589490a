// Rows so narrow that s is a cubic, s(x) = x + a x^3: sums are moments of the row, and digits count from its spread.
//
// Deviations t_i = z_i - mean (the mean of z is that of y) solve t (1 - c - 3 a c m_2) - a c t^3 = p (y - mean) - a c m_3,
// m_k = mean t^k. Elsewhere the sums carry rounding errors of size 1, which drown a row of spread 1e-16; here there is
// no smallest spread, and denormal rows are solved like others.
#pragma once
#include "basics/sigma.h"
#include "rows/unit_newton.h"

namespace ibnn {

template <Sigma kind> class Narrow {
 public:
  // Whether rows whose z has this range are for this: also small enough for the iteration to shrink by ten with each step, for
  // its rate is 6 |a| gain range^2.
  template <class T> static bool near_enough(double c, double range) {
    if (!(c < 1)) return false;
    if (kind == Sigma::hardtanh) return range < 1 - 1e-6;
    const double square = range * range;
    return kFifth * gain(c) * square * square <= kAllowed<T> && 6 * std::fabs(kCubic) * gain(c) * square <= 0.1;
  }

  // y and its spread before the slope. False: the row is too wide for this, or c is not below the threshold.
  template <class T>
  bool find_roots(const T* y, long n, double spread, double c, double slope, T* z, Outcome* out) {
    const double range = slope * spread / (1 - c);
    if (!near_enough<T>(c, range)) return false;
    const double middle = mean_of(y, n);
    t_.resize(n);
    const double linear = slope / (1 - c), cubic = kCubic * c;
    in_chunks(n, [&](long first, long end) {
      for (long i = first; i < end; ++i) t_[i] = linear * (y[i] - middle);
    });
    double change = range;
    int steps = 1;
    for (; cubic != 0 && change > kRounding<T> * range && steps < kMostSteps; ++steps) {
      const Moments sums = sum_of_chunks(n, [&](long first, long end) {
        Moments here;
        for (long i = first; i < end; ++i) here.one += t_[i] * t_[i], here.two += t_[i] * t_[i] * t_[i];
        return here;
      });
      const double second = sums.one / static_cast<double>(n), third = sums.two / static_cast<double>(n);
      const double factor = 1 / (1 - c - 3 * cubic * second);
      change = joined_chunks(
          n,
          [&](long first, long end) {
            double most = 0;
            for (long i = first; i < end; ++i) {
              const double t = factor * (slope * (y[i] - middle) + cubic * (t_[i] * t_[i] * t_[i] - third));
              most = std::max(most, std::fabs(t - t_[i]));
              t_[i] = t;
            }
            return most;
          },
          [](double& most, double next) { most = std::max(most, next); });
    }
    in_chunks(n, [&](long first, long end) {
      for (long i = first; i < end; ++i) z[i] = static_cast<T>(middle + t_[i] / slope);
    });
    out->steps = steps;
    out->residual = (cubic != 0 ? (1 - c) * change : 0) + std::fabs(c) * kFifth * std::pow(range, 5);
    out->solved = true;
    return true;
  }

  // J v = g and v . B; `error` is a bound of the relative error of v. The mean of g passes J unchanged.
  template <class T>
  bool solve_jacobian(const T* z, const T* g, long n, double range, double c, T* v, double* dot_out, double* error) {
    if (!near_enough<T>(c, range)) return false;
    const double middle = mean_of(z, n), mean = mean_of(g, n), cubic = kCubic * c, share = 1.0 / static_cast<double>(n);
    t_.resize(n), w_.resize(n);
    const Moments of_z = sum_of_chunks(n, [&](long begin, long end) {
      Moments here;
      for (long i = begin; i < end; ++i) {
        const double t = t_[i] = z[i] - middle;
        here.one += share * t * t, here.two += share * t * t * t;
        w_[i] = (g[i] - mean) / (1 - c);
      }
      return here;
    });
    const double second = of_z.one, third = of_z.two;
    double change = 1, size = 1;
    for (int steps = 0; cubic != 0 && change > kRounding<T> * size && steps < kMostSteps; ++steps) {
      const Moments of_w = sum_of_chunks(n, [&](long begin, long end) {
        Moments here;
        for (long i = begin; i < end; ++i)
          here.one += share * w_[i] * t_[i], here.two += share * w_[i] * t_[i] * t_[i];
        return here;
      });
      const double first = of_w.one, square = of_w.two;
      const Ends<double> most = joined_chunks(
          n,
          [&](long begin, long end) {
            double moved = 0, largest = 0;
            for (long i = begin; i < end; ++i) {
              const double kept = 1 - c - 3 * cubic * (second + t_[i] * t_[i]);
              const double w = (g[i] - mean + 3 * cubic * (2 * first * t_[i] - square)) / kept;
              moved = std::max(moved, std::fabs(w - w_[i])), largest = std::max(largest, std::fabs(w));
              w_[i] = w;
            }
            return Ends<double>{-moved, largest};
          },
          [](Ends<double>& all, const Ends<double>& next) { all = all.with(next); });
      change = -most.low, size = most.high;
    }
    const double sum = sum_of_chunks(n, [&](long begin, long end) {
      double here = 0;
      for (long i = begin; i < end; ++i) {
        here += w_[i] * (kCubic * (third - 3 * second * t_[i] - t_[i] * t_[i] * t_[i]) - t_[i]);
        v[i] = static_cast<T>(mean + w_[i]);
      }
      return here;
    });
    *dot_out = sum;  // B sums to 0: the mean of v adds nothing
    *error = 5 * kFifth * gain(c) * std::pow(range, 4) + kRounding<T>;
    return true;
  }

 private:
  // s = x + kCubic x^3 + O(kFifth x^5); hardtanh is straight as far as 1.
  static constexpr double kCubic = kind == Sigma::tanh     ? -1.0 / 3
                                   : kind == Sigma::erf    ? -kPi / 12
                                   : kind == Sigma::arctan ? -kPi * kPi / 12
                                                           : 0;
  static constexpr double kFifth = kind == Sigma::tanh     ? 2.0 / 15
                                   : kind == Sigma::erf    ? kPi * kPi / 160
                                   : kind == Sigma::arctan ? kPi * kPi * kPi * kPi / 80
                                                           : 0;
  template <class T> static constexpr double kRounding = sizeof(T) == 4 ? 1e-8 : 2e-16;
  // The error that is left to the fifth power, as a share of the spread.
  template <class T> static constexpr double kAllowed = sizeof(T) == 4 ? 1e-6 : 1e-12;
  static constexpr int kMostSteps = 20;
  struct Moments {
    double one = 0, two = 0;
    void operator+=(const Moments& next) { one += next.one, two += next.two; }
  };
  Array<double> t_, w_;

  // How much an error of B, as a share of it, weighs in z; in v . B it always weighs 1.
  static double gain(double c) { return std::max(1.0, std::fabs(c) / (1 - c)); }

  template <class T> static double mean_of(const T* x, long n) {
    const double origin = x[0];
    const double sum = sum_of_chunks(n, [=](long first, long end) {
      double here = 0;
      for (long i = first; i < end; ++i) here += x[i] - origin;
      return here;
    });
    return origin + sum / static_cast<double>(n);
  }
};

}  // namespace ibnn
