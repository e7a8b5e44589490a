// The energy of a row over weighted pairs: |z - y|^2 / 2 - c sum over pairs of w S(z_k - z_i), S' = s, S(0) = 0, in double.
#pragma once
#include "basics/pair_rules.h"

namespace ibnn {

// ln x of positive normal numbers, to a rounding or two of 1.
inline Doubles log_pack(Doubles x) {
  // x = 2^k m with m around 1: the exponent of x / sqrt(1/2).
  const Mask<double> bits = (Mask<double>)x, k = ((bits - 0x3fe6a09e667f3bcd) >> 52);
  const Doubles m = (Doubles)(bits - (k << 52)), u = (m - 1) / (m + 1), w = u * u;
  Doubles p = pack_of(1.0 / 21);  // artanh: |u| < 0.172, so the next term is 1e-18
  for (double odd : {19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0}) p = p * w + 1 / odd;
  return __builtin_convertvector(k, Doubles) * 0.69314718055994530942 + 2 * u * p;
}

// S from x, s(x) and s'(x).
template <Sigma kind> Doubles primitive(Doubles x, Doubles t, Doubles d) {
  switch (kind) {
    case Sigma::tanh: {  // ln cosh x = -ln(s') / 2, or |x| - ln 2 where s' vanishes
      const Doubles far = size_of(x) - 0.69314718055994530942;
      return size_of(x) < 20 ? -0.5 * log_pack(most_of(d, pack_of(1e-300))) : far;
    }
    case Sigma::hardtanh: return x * t - 0.5 * t * t;
    case Sigma::arctan: return x * t + (2 / (kPi * kPi)) * log_pack(most_of(d, pack_of(1e-300)));
    default: return x * t + (2 / kPi) * (d - 1);
  }
}

// Adds up pairs, a pack of them at a time.
template <Sigma kind> class PairEnergy {
 public:
  void add(double weight, double difference) {
    weight_[filled_] = weight, difference_[filled_] = difference;
    if (++filled_ == kLanes<double>) flush();
  }
  double total() {
    flush();
    double sum = 0;
    for (int lane = 0; lane < kLanes<double>; ++lane) sum += sum_[lane];
    return sum;
  }

 private:
  int filled_ = 0;
  Doubles weight_ = {}, difference_ = {}, sum_ = {};

  void flush() {
    Doubles t, d;
    for (; filled_ < kLanes<double>; ++filled_) weight_[filled_] = 0;
    PairRuleOf<kind, double, Reach::far>::pair(Doubles{}, Doubles{}, difference_, &t, &d);
    sum_ += weight_ * primitive<kind>(difference_, t, d);
    filled_ = 0;
  }
};

}  // namespace ibnn
