// How the value and the slope of s(z_k - z_i) are had for a pair of units, for whole packs of rows.
//
// A rule turns each unit into two numbers once (`set`), and two units into t = s and d = s' (`pair`).
#pragma once
#include "basics/packs.h"
#include "basics/sigma.h"

namespace ibnn {

// How far apart the units of a row are, after the slope: what decides which form of tanh keeps its digits.
enum class Reach { close, usual, far };
constexpr double kClose = 1.0;                                        // the largest range of z that is close
template <class T> constexpr T kUsual = sizeof(T) == 4 ? T(80) : T(600);  // and usual: e^(2 z) fits, counted from its middle

// Any s, from the difference. `Value` has pair(x, &t, &d).
template <class T, class Value> struct DifferenceRule {
  using V = Pack<T>;
  static void set(V z, V* first, V* second) { *first = *second = z; }
  static void pair(V first_i, V, V first_k, V* t, V* d) { Value::pair(first_k - first_i, t, d); }
};

// With E = e^(2 z), tanh(z_k - z_i) = (E_k - E_i) / (E_k + E_i): one reciprocal for a pair, no exponential. Its error is a
// rounding of 1, whatever z. The bounds keep sums and reciprocals of E within the floats.
template <class T> struct ExponentialRule {
  using V = Pack<T>;
  static void set(V z, V* first, V* second) { *first = *second = exp_pack(2 * z, -kUsual<T> - 4, kUsual<T> + 4); }
  static void pair(V first_i, V second_i, V first_k, V* t, V* d) {
    const V tanh = (first_k - first_i) * reciprocal(first_k + second_i);
    *t = tanh, *d = 1 - tanh * tanh;
  }
};

// The same with E - 1 for E: its differences keep their digits where all z are nearly equal. |z| <= 1/2.
template <class T> struct ShiftedRule {
  using V = Pack<T>;
  static void set(V z, V* first, V* second) {
    *first = expm1_pack(2 * z);
    *second = *first + 2;
  }
  static void pair(V first_i, V second_i, V first_k, V* t, V* d) {
    ExponentialRule<T>::pair(first_i, second_i, first_k, t, d);
  }
};

template <class T> struct FarTanh {
  using V = Pack<T>;
  static void pair(V x, V* t, V* d) {
    const V e = exp_pack(-2 * size_of(x)), inverse = reciprocal(1 + e), tanh = (1 - e) * inverse;
    *t = x < 0 ? -tanh : tanh, *d = 4 * e * inverse * inverse;
  }
};

template <class T> struct HardtanhPair {
  using V = Pack<T>;
  static void pair(V x, V* t, V* d) {
    *t = most_of(least_of(x, pack_of(T(1))), pack_of(T(-1)));
    *d = size_of(x) < 1 ? pack_of(T(1)) : V{};
  }
};

// The polynomial is that of Nonlinearity<arctan>.
template <class T> struct ArctanPair {
  using V = Pack<T>;
  static void pair(V x, V* t, V* d) {
    const V m = least_of(size_of(x) * T(kPi / 2), pack_of(T(1e15))), inverse = reciprocal(1 + m * m);
    const auto big = m > 1;
    // 1 / m = m / (1 + m^2) + 1 / (m (1 + m^2)) would cost the division it is to save
    const V u = big ? reciprocal(m) : m, w = u * u;
    V p = pack_of(T(0.0028662257));
    p = p * w - T(0.0161657367);
    p = p * w + T(0.0429096138);
    p = p * w - T(0.0752896400);
    p = p * w + T(0.1065626393);
    p = p * w - T(0.1420889944);
    p = p * w + T(0.1999355085);
    p = p * w - T(0.3333314528);
    p = (p * w + 1) * u;
    p = T(2 / kPi) * (big ? T(kPi / 2) - p : p);
    *t = x < 0 ? -p : p, *d = inverse;
  }
};

// Beyond 0.9 as in Nonlinearity<erf> (Abramowitz & Stegun 7.1.26); below, a polynomial that keeps the digits of small x.
template <class T> struct ErfPair {
  using V = Pack<T>;
  static void pair(V x, V* t, V* d) {
    const V m = least_of(size_of(x) * T(0.88622692545275801365), pack_of(T(9))), w = m * m, e = exp_pack(-w);
    const V u = reciprocal(1 + T(0.3275911) * m);
    V p = pack_of(T(1.061405429));
    p = p * u - T(1.453152027);
    p = p * u + T(1.421413741);
    p = p * u - T(0.284496736);
    p = p * u + T(0.254829592);
    p = 1 - p * u * e;
    V near = pack_of(T(8.97098391e-05));
    near = near * w + T(-0.00082802099);
    near = near * w + T(0.00521273527);
    near = near * w + T(-0.0268639393);
    near = near * w + T(0.112837739);
    near = near * w + T(-0.376126386);
    near = (near * w + T(1.12837917)) * m;
    p = m < T(0.9) ? near : p;
    *t = x < 0 ? -p : p, *d = e;
  }
};

// Doubles need more terms: the rational functions of the Cephes library, which leave a rounding or two.
template <> struct ArctanPair<double> {
  using V = Doubles;
  static void pair(V x, V* t, V* d) {
    const V m = least_of(size_of(x) * (kPi / 2), pack_of(1e15));
    // arctan m = pi/2 - arctan(1/m) = pi/4 + arctan((m - 1) / (m + 1))
    const auto big = m > 2.41421356237309504880, middle = m > 0.66;
    const V top = big ? pack_of(-1.0) : (middle ? m - 1 : m), below = big ? m : (middle ? m + 1 : pack_of(1.0));
    const V start = big ? pack_of(kPi / 2) : (middle ? pack_of(kPi / 4) : V{}), u = top / below, w = u * u;
    V p = pack_of(-8.750608600031904122785e-1);
    p = p * w - 1.615753718733365076637e1;
    p = p * w - 7.500855792314704667340e1;
    p = p * w - 1.228866684490136173410e2;
    p = p * w - 6.485021904942025371773e1;
    V q = w + 2.485846490142306297962e1;
    q = q * w + 1.650270098316988542046e2;
    q = q * w + 4.328810604912902668951e2;
    q = q * w + 4.853903996359136964868e2;
    q = q * w + 1.945506571482613964425e2;
    const V value = (2 / kPi) * (start + (u + u * w * p / q));
    *t = x < 0 ? -value : value, *d = 1 / (1 + m * m);
  }
};

template <> struct ErfPair<double> {
  using V = Doubles;
  static void pair(V x, V* t, V* d) {
    const V m = least_of(size_of(x) * 0.88622692545275801365, pack_of(26.0)), w = m * m, e = exp_pack(-w);
    V near = pack_of(9.60497373987051638749);
    near = near * w + 9.00260197203842689217e1;
    near = near * w + 2.23200534594684319226e3;
    near = near * w + 7.00332514112805075473e3;
    near = near * w + 5.55923013010394962768e4;
    V below = w + 3.35617141647503099647e1;
    below = below * w + 5.21357949780152679795e2;
    below = below * w + 4.59432382970980127987e3;
    below = below * w + 2.26290000613890934246e4;
    below = below * w + 4.92673942608635921086e4;
    V far = pack_of(2.46196981473530512524e-10);
    far = far * m + 5.64189564831068821977e-1;
    far = far * m + 7.46321056442269912687;
    far = far * m + 4.86371970985681366614e1;
    far = far * m + 1.96520832956077098242e2;
    far = far * m + 5.26445194995477358631e2;
    far = far * m + 9.34528527171957607540e2;
    far = far * m + 1.02755188689515710272e3;
    far = far * m + 5.57535335369399327526e2;
    V under = m + 1.32281951154744992508e1;
    under = under * m + 8.67072140885989742329e1;
    under = under * m + 3.54937778887819891062e2;
    under = under * m + 9.75708501743205489753e2;
    under = under * m + 1.82390916687909736289e3;
    under = under * m + 2.24633760818710981792e3;
    under = under * m + 1.65666309194161350182e3;
    under = under * m + 5.57535340817727675546e2;
    const V value = m < 1 ? m * near / below : 1 - e * far / under;
    *t = x < 0 ? -value : value, *d = e;
  }
};

// tanh from e^(2 x) - 1 where that keeps the digits of small x. Beyond 60 both factors are 0 or 1, and x^2 might overflow.
template <class T> struct PeakedPair {
  using V = Pack<T>;
  static void pair(V x, V* t, V* d) {
    const V m = least_of(size_of(x), pack_of(T(60))), e = exp_pack(-2 * m), grown = expm1_pack(2 * m);
    const auto near = m < T(0.5);
    const V tanh = (near ? grown : 1 - e) * reciprocal(near ? grown + 2 : 1 + e), fall = exp_pack(T(-0.125) * m * m);
    *t = x < 0 ? -tanh * fall : tanh * fall, *d = (1 - tanh * (tanh + T(0.25) * m)) * fall;
  }
};

template <Sigma kind, class T, Reach reach> struct PairRuleOf;
template <class T, Reach reach> struct PairRuleOf<Sigma::hardtanh, T, reach> : DifferenceRule<T, HardtanhPair<T>> {};
template <class T, Reach reach> struct PairRuleOf<Sigma::arctan, T, reach> : DifferenceRule<T, ArctanPair<T>> {};
template <class T, Reach reach> struct PairRuleOf<Sigma::erf, T, reach> : DifferenceRule<T, ErfPair<T>> {};
template <class T, Reach reach> struct PairRuleOf<Sigma::peaked, T, reach> : DifferenceRule<T, PeakedPair<T>> {};
template <class T> struct PairRuleOf<Sigma::tanh, T, Reach::close> : ShiftedRule<T> {};
template <class T> struct PairRuleOf<Sigma::tanh, T, Reach::usual> : ExponentialRule<T> {};
template <class T> struct PairRuleOf<Sigma::tanh, T, Reach::far> : DifferenceRule<T, FarTanh<T>> {};

// Calls f with a rule for rows of this reach.
template <Sigma kind, class T, class F> void with_rule(Reach reach, F f) {
  if (kind == Sigma::tanh && reach == Reach::close)
    f(PairRuleOf<kind, T, kind == Sigma::tanh ? Reach::close : Reach::far>());
  else if (kind == Sigma::tanh && reach == Reach::usual)
    f(PairRuleOf<kind, T, kind == Sigma::tanh ? Reach::usual : Reach::far>());
  else
    f(PairRuleOf<kind, T, Reach::far>());
}

}  // namespace ibnn
