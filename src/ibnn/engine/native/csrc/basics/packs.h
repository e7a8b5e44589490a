// Packs: one number of each of 8 or 16 rows side by side, so that rows are solved in step, each in a lane of its own.
//
// Compiler vector types; what a compiler does not do well by itself (a fast reciprocal, "any lane?") is here only.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include <immintrin.h>
#define IBNN_AVX512 1
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define IBNN_AVX2_PACKS 1
#endif

namespace ibnn {

#ifdef IBNN_AVX512
constexpr int kPackBytes = 64;
#else
constexpr int kPackBytes = 32;
#endif

template <class T> struct PackTypes;
template <> struct PackTypes<float> {
  typedef float Pack __attribute__((vector_size(kPackBytes)));
  typedef int32_t Mask __attribute__((vector_size(kPackBytes)));
};
template <> struct PackTypes<double> {
  typedef double Pack __attribute__((vector_size(kPackBytes)));
  typedef int64_t Mask __attribute__((vector_size(kPackBytes)));
};
template <class T> using Pack = typename PackTypes<T>::Pack;
template <class T> using Mask = typename PackTypes<T>::Mask;  // -1 where true, 0 where false
template <class T> constexpr int kLanes = kPackBytes / static_cast<int>(sizeof(T));

using Floats = Pack<float>;
using Doubles = Pack<double>;

template <class T> inline Pack<T> pack_of(T x) { return x - Pack<T>{}; }
template <class T> inline Pack<T> load_pack(const T* p) {
  Pack<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T> inline void store_pack(T* p, Pack<T> v) { std::memcpy(p, &v, sizeof v); }

template <class V> inline V least_of(V a, V b) { return a < b ? a : b; }
template <class V> inline V most_of(V a, V b) { return a > b ? a : b; }
inline Floats size_of(Floats a) { return (Floats)((Mask<float>)a & 0x7fffffff); }
inline Doubles size_of(Doubles a) { return (Doubles)((Mask<double>)a & 0x7fffffffffffffff); }

template <class M> inline bool any_lane(M mask) {
#ifdef IBNN_AVX512
  return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(IBNN_AVX2_PACKS)
  return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
  int64_t words[kPackBytes / 8], joined = 0;
  std::memcpy(words, &mask, sizeof words);
  for (int64_t word : words) joined |= word;
  return joined != 0;
#endif
}

// While it lives, numbers below 1e-38 are 0 in this thread: running sums fade through them between nodes without weight, and
// arithmetic with them takes a hundred times as long.
class WithoutDenormals {
 public:
#if defined(IBNN_AVX512) || defined(IBNN_AVX2_PACKS)
  WithoutDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }  // flush results, and operands
  ~WithoutDenormals() { _mm_setcsr(before_); }
  WithoutDenormals(const WithoutDenormals&) = delete;
  WithoutDenormals& operator=(const WithoutDenormals&) = delete;

 private:
  const unsigned before_;
#else
  WithoutDenormals() {}
#endif
};

// Smallest and largest of n numbers (as long as it must respect NaN, the compiler does this one by one).
template <class T> void ends_of(const T* x, long n, T* low, T* high) {
  Pack<T> least = pack_of(x[0]), most = least;
  long i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) {
    const Pack<T> v = load_pack<T>(x + i);
    least = least_of(least, v), most = most_of(most, v);
  }
  *low = *high = x[0];
  for (int lane = 0; lane < kLanes<T>; ++lane)
    *low = least[lane] < *low ? least[lane] : *low, *high = most[lane] > *high ? most[lane] : *high;
  for (; i < n; ++i) *low = x[i] < *low ? x[i] : *low, *high = x[i] > *high ? x[i] : *high;
}

// a * b + c in one rounding, whatever the compiler would make of it; in two where one would be a call of a function.
inline Floats fused_packs(Floats a, Floats b, Floats c) {
#ifdef IBNN_AVX512
  return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(IBNN_AVX2_PACKS)
  return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif !defined(__FP_FAST_FMAF)
  return a * b + c;
#else
  for (int k = 0; k < kLanes<float>; ++k) c[k] = std::fma(a[k], b[k], c[k]);
  return c;
#endif
}
inline Doubles fused_packs(Doubles a, Doubles b, Doubles c) {
#ifdef IBNN_AVX512
  return (Doubles)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(IBNN_AVX2_PACKS)
  return (Doubles)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif !defined(__FP_FAST_FMA)
  return a * b + c;
#else
  for (int k = 0; k < kLanes<double>; ++k) c[k] = std::fma(a[k], b[k], c[k]);
  return c;
#endif
}

// 1 / x to a rounding or two, for 1e-37 < |x| < 1e37. A division is exact, but holds up everything behind it.
inline Floats reciprocal(Floats x) {
#ifdef IBNN_AVX512
  const Floats guess = (Floats)_mm512_rcp14_ps((__m512)x);
#elif defined(IBNN_AVX2_PACKS)
  const Floats guess = (Floats)_mm256_rcp_ps((__m256)x);
#else
  return 1 / x;
#endif
#if defined(IBNN_AVX512) || defined(IBNN_AVX2_PACKS)
  return fused_packs(guess, fused_packs(-x, guess, pack_of(1.0f)), guess);
#endif
}
inline Doubles reciprocal(Doubles x) { return 1 / x; }

inline Floats root_of(Floats x) {
#ifdef IBNN_AVX512
  return (Floats)_mm512_sqrt_ps((__m512)x);
#elif defined(IBNN_AVX2_PACKS)
  return (Floats)_mm256_sqrt_ps((__m256)x);
#else
  for (int k = 0; k < kLanes<float>; ++k) x[k] = std::sqrt(x[k]);
  return x;
#endif
}
inline Doubles root_of(Doubles x) {
#ifdef IBNN_AVX512
  return (Doubles)_mm512_sqrt_pd((__m512d)x);
#elif defined(IBNN_AVX2_PACKS)
  return (Doubles)_mm256_sqrt_pd((__m256d)x);
#else
  for (int k = 0; k < kLanes<double>; ++k) x[k] = std::sqrt(x[k]);
  return x;
#endif
}

// e^x to 2e-7, x held within the two bounds, which are within +-87.
inline Floats exp_pack(Floats x, float low = -87, float high = 87) {
  x = most_of(least_of(x, pack_of(high)), pack_of(low));
  // The nearest integer, by cutting off a positive number: adding and subtracting 2^23 would be optimised away.
  const Mask<float> k = __builtin_convertvector(x * 1.44269504f + 128.5f, Mask<float>) - 128;
  const Floats whole = __builtin_convertvector(k, Floats);
  Floats r = fused_packs(whole, pack_of(-0.693145752f), x);
  r = fused_packs(whole, pack_of(-1.42860677e-6f), r);
  Floats p = pack_of(1.38126e-3f);  // minimax for 1 + r + r^2 (...) on |r| <= ln 2 / 2, 3e-9
  p = p * r + 8.36945e-3f;
  p = p * r + 4.166847e-2f;
  p = p * r + 0.16666514f;
  p = p * r + 0.49999993f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * (Floats)((k + 127) << 23);
}

// e^(2 x), |x| < 40: to 2e-7 of what it is at x (1 + 3e-8), which is as good where only ratios count.
inline Floats exp_twice(Floats x) {
#if defined(IBNN_AVX512) || defined(IBNN_AVX2_PACKS)
#ifdef IBNN_AVX512
  const Mask<float> k = (Mask<float>)_mm512_cvtps_epi32((__m512)(x * 2.88539008f));
#else
  const Mask<float> k = (Mask<float>)_mm256_cvtps_epi32((__m256)(x * 2.88539008f));
#endif
  // One product instead of two: what the constant lacks of ln 2 / 2 is a factor of x.
  const Floats r = fused_packs(__builtin_convertvector(k, Floats), pack_of(-0.346573590f), x);
  Floats p = pack_of(64 * 1.38126e-3f);  // as in exp_pack
  p = p * r + 32 * 8.36945e-3f;
  p = p * r + 16 * 4.166847e-2f;
  p = p * r + 8 * 0.16666514f;
  p = p * r + 4 * 0.49999993f;
  p = p * r + 2.0f;
  p = p * r + 1.0f;
  return (Floats)((Mask<float>)p + (k << 23));
#else
  return exp_pack(2 * x);
#endif
}

// e^x - 1 to a rounding of itself, for |x| <= 1.05 (held there).
inline Floats expm1_pack(Floats x) {
  x = most_of(least_of(x, pack_of(1.05f)), pack_of(-1.05f));
  Floats p = pack_of(2.83148650e-6f);  // minimax for x + x^2 (...), 2e-9 of x
  p = p * x + 2.54916103e-5f;
  p = p * x + 1.98332889e-4f;
  p = p * x + 1.38831907e-3f;
  p = p * x + 8.33336736e-3f;
  p = p * x + 4.16668398e-2f;
  p = p * x + 0.166666662f;
  p = p * x + 0.499999986f;
  return p * x * x + x;
}

// The same in double: Taylor series, 13 and 18 terms of which leave 2e-16.
template <int terms> inline Doubles exponential_series(Doubles x) {
  static constexpr double kInverseFactorial[] = {
      1.0 / 1.0,           1.0 / 2.0,             1.0 / 6.0,              1.0 / 24.0,
      1.0 / 120.0,         1.0 / 720.0,           1.0 / 5040.0,           1.0 / 40320.0,
      1.0 / 362880.0,      1.0 / 3628800.0,       1.0 / 39916800.0,       1.0 / 479001600.0,
      1.0 / 6227020800.0,  1.0 / 87178291200.0,   1.0 / 1307674368000.0,  1.0 / 20922789888000.0,
      1.0 / 355687428096000.0, 1.0 / 6402373705728000.0};
  Doubles p = pack_of(kInverseFactorial[terms - 1]);
  for (int k = terms - 2; k >= 1; --k) p = p * x + kInverseFactorial[k];
  return p * x * x + x;
}

inline Doubles exp_pack(Doubles x, double low = -700, double high = 700) {
  x = most_of(least_of(x, pack_of(high)), pack_of(low));
  const Mask<double> k = __builtin_convertvector(x * 1.4426950408889634074 + 1024.5, Mask<double>) - 1024;
  const Doubles whole = __builtin_convertvector(k, Doubles);
  Doubles r = fused_packs(whole, pack_of(-0.693147180369123816490), x);
  r = fused_packs(whole, pack_of(-1.90821492927058770002e-10), r);
  return (exponential_series<13>(r) + 1) * (Doubles)((k + 1023) << 52);
}

inline Doubles expm1_pack(Doubles x) {
  return exponential_series<18>(most_of(least_of(x, pack_of(1.05)), pack_of(-1.05)));
}

}  // namespace ibnn
