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

inline Lanes4 low_half(Lanes v) {
#ifdef IBNN_AVX2
  return (Lanes4)_mm256_castps256_ps128((__m256)v);
#else
  return Lanes4{v[0], v[1], v[2], v[3]};
#endif
}
inline Lanes4 high_half(Lanes v) {
#ifdef IBNN_AVX2
  return (Lanes4)_mm256_extractf128_ps((__m256)v, 1);
#else
  return Lanes4{v[4], v[5], v[6], v[7]};
#endif
}

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

// The same for eight numbers and for one: loops that do their last few numbers one by one are written once.
inline Lanes read_as(const float* p, Lanes) { return load_lanes(p); }
inline float read_as(const float* p, float) { return *p; }
inline void write_lanes(float* p, Lanes v) { store_lanes(p, v); }
inline void write_lanes(float* p, float v) { *p = v; }
inline Lanes exp_of(Lanes x) { return exp_lanes(x); }
inline float exp_of(float x) { return fast_exp(x); }
inline void add_to(Lanes& sum, Lanes v) { sum += v; }
inline void add_to(Lanes& sum, float v) { sum[0] += v; }
inline float sum_of(Lanes v) { return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7])); }

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

// Four numbers from each of two places.
inline Lanes join_lanes(const float* low, const float* high) {
#ifdef IBNN_AVX2
  return (Lanes)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
#else
  return Lanes{low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]};
#endif
}

// The k-th number of each half in all places of that half.
template <int k> inline Lanes spread_halves(Lanes v) {
#ifdef IBNN_AVX2
  return (Lanes)_mm256_permute_ps((__m256)v, 0x55 * k);
#else
  return Lanes{v[k], v[k], v[k], v[k], v[k + 4], v[k + 4], v[k + 4], v[k + 4]};
#endif
}

// Four vectors as two blocks of four by four, each transposed.
inline void transpose_halves(Lanes* v) {
#ifdef IBNN_AVX2
  __m256* m = reinterpret_cast<__m256*>(v);
  const __m256 a = _mm256_unpacklo_ps(m[0], m[1]), b = _mm256_unpackhi_ps(m[0], m[1]);
  const __m256 c = _mm256_unpacklo_ps(m[2], m[3]), d = _mm256_unpackhi_ps(m[2], m[3]);
  m[0] = _mm256_shuffle_ps(a, c, 0x44), m[1] = _mm256_shuffle_ps(a, c, 0xEE);
  m[2] = _mm256_shuffle_ps(b, d, 0x44), m[3] = _mm256_shuffle_ps(b, d, 0xEE);
#else
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < i; ++j)
      for (int block = 0; block < 8; block += 4) {
        const float t = v[i][block + j];
        v[i][block + j] = v[j][block + i];
        v[j][block + i] = t;
      }
#endif
}

inline Lanes join_halves(Lanes4 low, Lanes4 high) {
#ifdef IBNN_AVX2
  return (Lanes)_mm256_insertf128_ps(_mm256_castps128_ps256((__m128)low), (__m128)high, 1);
#else
  return Lanes{low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]};
#endif
}

inline void transpose(Lanes* v) {
  transpose_halves(v), transpose_halves(v + 4);
  for (int k = 0; k < 4; ++k) {
    const Lanes a = v[k], b = v[k + 4];
    v[k] = join_halves(low_half(a), low_half(b));
    v[k + 4] = join_halves(high_half(a), high_half(b));
  }
}

// Eight numbers from each of eight places; those of one place are in one lane. Halves that are put together as they are read
// save the last third of a transposition.
template <class Number> inline void load_transposed(Number* const (&from)[8], Lanes* v) {
  for (int half = 0; half < 2; ++half)
    for (int k = 0; k < 4; ++k) {
      Lanes4 low, high;
      std::memcpy(&low, from[k] + 4 * half, 16), std::memcpy(&high, from[k + 4] + 4 * half, 16);
      v[4 * half + k] = join_halves(low, high);
    }
  transpose_halves(v), transpose_halves(v + 4);
}

}  // namespace ibnn
