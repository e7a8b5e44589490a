// Eight floats side by side, on any machine; fused and shuffled with AVX2 where there is AVX2.
#pragma once
#include "basics/sigma.h"
#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define IBNN_AVX2 1
#endif

namespace ibnn {

typedef float Lanes __attribute__((vector_size(32)));
typedef float Lanes4 __attribute__((vector_size(16)));

inline Lanes spread_lanes(float x) { return Lanes{x, x, x, x, x, x, x, x}; }
inline Lanes load_lanes(const float* p) {
  Lanes v;
  std::memcpy(&v, p, 32);
  return v;
}
inline void store_lanes(float* p, Lanes v) { std::memcpy(p, &v, 32); }

inline Lanes smaller(Lanes a, Lanes b) { return a < b ? a : b; }
inline Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }

// Smallest and largest of n numbers (the compiler does not vectorise this as long as it must respect NaN).
inline void range_of(const float* x, long n, float* low, float* high) {
  Lanes least = spread_lanes(x[0]), most = least;
  long i = 0;
  for (; i + 8 <= n; i += 8) {
    const Lanes v = load_lanes(x + i);
    least = smaller(least, v), most = larger(most, v);
  }
  for (; i < n; ++i) least = smaller(least, spread_lanes(x[i])), most = larger(most, spread_lanes(x[i]));
  *low = least[0], *high = most[0];
  for (int k = 1; k < 8; ++k) *low = least[k] < *low ? least[k] : *low, *high = most[k] > *high ? most[k] : *high;
}

// a * b + c in one rounding: left to itself the compiler may factor the recurrences below into a longer chain.
inline Lanes fused(Lanes a, Lanes b, Lanes c) {
#ifdef IBNN_AVX2
  return (Lanes)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

// 1 / x to two roundings, for x far from 0 and infinity: an estimate and a step of Newton take a third of a division.
inline Lanes inverse_lanes(Lanes x) {
#ifdef IBNN_AVX2
  const Lanes near = (Lanes)_mm256_rcp_ps((__m256)x);
  return near * (2 - x * near);
#else
  return 1 / x;
#endif
}

inline Lanes exp_lanes(Lanes x) {
#ifdef IBNN_AVX2
  __m256 v = _mm256_max_ps((__m256)x, _mm256_set1_ps(-87.0f));
  __m256 k = _mm256_round_ps(_mm256_mul_ps(v, _mm256_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fmadd_ps(k, _mm256_set1_ps(-0.693145752f), v);
  r = _mm256_fmadd_ps(k, _mm256_set1_ps(-1.42860677e-6f), r);
  __m256 p = _mm256_set1_ps(1.0f / 720);
  for (float coefficient : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(coefficient));
  __m256i bits = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(k), _mm256_set1_epi32(127)), 23);
  return (Lanes)_mm256_mul_ps(p, _mm256_castsi256_ps(bits));
#else
  for (int k = 0; k < 8; ++k) x[k] = fast_exp(x[k]);
  return x;
#endif
}

// The sum of each of eight vectors.
inline Lanes sum_each(const Lanes* v) {
#ifdef IBNN_AVX2
  const __m256* m = reinterpret_cast<const __m256*>(v);
  __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(m[0], m[1]), _mm256_hadd_ps(m[2], m[3]));
  __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(m[4], m[5]), _mm256_hadd_ps(m[6], m[7]));
  return (Lanes)_mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
#else
  Lanes out;
  for (int j = 0; j < 8; ++j) {
    out[j] = 0;
    for (int k = 0; k < 8; ++k) out[j] += v[j][k];
  }
  return out;
#endif
}

inline void transpose(Lanes* v) {
#ifdef IBNN_AVX2
  __m256* m = reinterpret_cast<__m256*>(v);
  __m256 a[8], b[8];
  for (int k = 0; k < 4; ++k) {
    a[2 * k] = _mm256_unpacklo_ps(m[2 * k], m[2 * k + 1]);
    a[2 * k + 1] = _mm256_unpackhi_ps(m[2 * k], m[2 * k + 1]);
  }
  for (int k = 0; k < 2; ++k) {
    b[4 * k] = _mm256_shuffle_ps(a[4 * k], a[4 * k + 2], 0x44);
    b[4 * k + 1] = _mm256_shuffle_ps(a[4 * k], a[4 * k + 2], 0xEE);
    b[4 * k + 2] = _mm256_shuffle_ps(a[4 * k + 1], a[4 * k + 3], 0x44);
    b[4 * k + 3] = _mm256_shuffle_ps(a[4 * k + 1], a[4 * k + 3], 0xEE);
  }
  for (int k = 0; k < 4; ++k) {
    m[k] = _mm256_permute2f128_ps(b[k], b[k + 4], 0x20);
    m[k + 4] = _mm256_permute2f128_ps(b[k], b[k + 4], 0x31);
  }
#else
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < i; ++j) {
      float t = v[i][j];
      v[i][j] = v[j][i];
      v[j][i] = t;
    }
#endif
}

}  // namespace ibnn
