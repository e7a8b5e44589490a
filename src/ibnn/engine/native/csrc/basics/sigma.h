// Dendritic nonlinearities: s(x), odd, increasing, slope 1 at 0, their derivatives up to order 3, and x s'(x).
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace ibnn {

enum class Sigma : int { tanh = 0, hardtanh = 1, arctan = 2, erf = 3, peaked = 4 };

constexpr double kPi = 3.14159265358979323846;

// peaked, tanh(x) e^(-x^2/8), is not increasing, and known to solves over pairs only. Its least slope, at 2.388, and the most
// that its slope changes, at 0.658, both rounded away from 0.
template <Sigma kind> constexpr bool kFalls = kind == Sigma::peaked;
constexpr double kSteepestFall = 0.2716, kMostBend = 1.0591;

// Branch-free exponentials: the compiler vectorises loops that call them.
__attribute__((always_inline)) inline double fast_exp(double x) {
  x = x < -700.0 ? -700.0 : (x > 700.0 ? 700.0 : x);
  double k = std::rint(x * 1.4426950408889634074);
  double r = std::fma(k, -0.693147180369123816490, x);
  r = std::fma(k, -1.90821492927058770002e-10, r);
  double p = 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  // 1.5 * 2^52 puts the integer k into the low mantissa bits (AVX2 has no double -> int64).
  double shifted = k + 6755399441055744.0;
  uint64_t bits;
  std::memcpy(&bits, &shifted, 8);
  bits = (bits + 1023) << 52;
  double scale;
  std::memcpy(&scale, &bits, 8);
  return p * scale;
}

__attribute__((always_inline)) inline float fast_exp(float x) {
  x = x < -87.0f ? -87.0f : (x > 87.0f ? 87.0f : x);
  float k = std::rint(x * 1.44269504f);
  float r = std::fma(k, -0.693145752f, x);
  r = std::fma(k, -1.42860677e-6f, r);
  float p = 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(k) + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, 4);
  return p * scale;
}

template <Sigma kind> struct Nonlinearity;

template <> struct Nonlinearity<Sigma::tanh> {
  template <class T> static T value(T x) {
    T e = fast_exp(T(-2) * std::fabs(x));
    return std::copysign((T(1) - e) / (T(1) + e), x);
  }
  template <class T> static T slope(T x) {
    T e = fast_exp(T(-2) * std::fabs(x));
    return T(4) * e / ((T(1) + e) * (T(1) + e));
  }
  template <class T> static T bend(T x) { return T(-2) * value(x) * slope(x); }
  template <class T> static T third(T x) {
    T t = value(x), d = slope(x);
    return T(-2) * d * (d - T(2) * t * t);
  }
};

template <> struct Nonlinearity<Sigma::hardtanh> {
  template <class T> static T value(T x) { return x < T(-1) ? T(-1) : (x > T(1) ? T(1) : x); }
  template <class T> static T slope(T x) { return std::fabs(x) < T(1) ? T(1) : T(0); }
  template <class T> static T bend(T) { return T(0); }
  template <class T> static T third(T) { return T(0); }
};

template <> struct Nonlinearity<Sigma::arctan> {
  // The argument of the polynomial is reduced to |x| <= 1, its error is 2e-8 (float use only).
  static float arctangent(float x) {
    float m = std::fabs(x);
    bool big = m > 1.0f;
    float u = big ? 1.0f / m : m, w = u * u;
    float p = 0.0028662257f;  // Abramowitz & Stegun 4.4.49
    p = p * w - 0.0161657367f;
    p = p * w + 0.0429096138f;
    p = p * w - 0.0752896400f;
    p = p * w + 0.1065626393f;
    p = p * w - 0.1420889944f;
    p = p * w + 0.1999355085f;
    p = p * w - 0.3333314528f;
    p = p * w + 1.0f;
    p *= u;
    return std::copysign(big ? 1.57079633f - p : p, x);
  }
  static double arctangent(double x) { return std::atan(x); }
  template <class T> static T value(T x) { return T(2 / kPi) * arctangent(T(kPi / 2) * x); }
  template <class T> static T slope(T x) { return T(1) / (T(1) + T(kPi * kPi / 4) * x * x); }
  template <class T> static T bend(T x) {
    T d = slope(x);
    return T(-kPi * kPi / 2) * x * d * d;
  }
  template <class T> static T third(T x) {
    T d = slope(x), k = T(kPi * kPi / 4);
    return T(2) * k * d * d * (T(3) - T(4) * d);
  }
};

template <> struct Nonlinearity<Sigma::erf> {
  // Abramowitz & Stegun 7.1.26, absolute error 1.5e-7 (float use only).
  static float error_function(float x) {
    float m = std::fabs(x), t = 1.0f / (1.0f + 0.3275911f * m);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    return std::copysign(1.0f - p * t * fast_exp(-m * m), x);
  }
  static double error_function(double x) { return std::erf(x); }
  template <class T> static T value(T x) {
    T m = T(0.88622692545275801365) * x;
    return error_function(m < T(-9) ? T(-9) : (m > T(9) ? T(9) : m));
  }
  template <class T> static T slope(T x) {
    T m = x < T(-30) ? T(-30) : (x > T(30) ? T(30) : x);
    return fast_exp(T(-kPi / 4) * m * m);
  }
  // x is clamped with the exponent, or x = 1e30 would give inf * 0.
  template <class T> static T bend(T x) {
    T m = x < T(-30) ? T(-30) : (x > T(30) ? T(30) : x);
    return T(-kPi / 2) * m * fast_exp(T(-kPi / 4) * m * m);
  }
  template <class T> static T third(T x) {
    T m = x < T(-30) ? T(-30) : (x > T(30) ? T(30) : x);
    return (T(kPi * kPi / 4) * m * m - T(kPi / 2)) * fast_exp(T(-kPi / 4) * m * m);
  }
};

// Width of the cells in which Chebyshev moments converge like 6^-M: what matters is the distance of the poles of s.
inline double cell_width(Sigma kind) { return kind == Sigma::arctan ? 0.4 : 1.0; }

// In the place of an order: x s'(x), which is how s(p x) changes with the slope p, at p = 1.
constexpr int kStretch = 4, kOrders = 5;

template <Sigma kind, class T> inline T derivative(int order, T x) {
  using S = Nonlinearity<kind>;
  switch (order) {
    case 0: return S::value(x);
    case 1: return S::slope(x);
    case 2: return S::bend(x);
    case kStretch: return x * S::slope(x);
    default: return S::third(x);
  }
}

inline double derivative(Sigma kind, int order, double x) {
  switch (kind) {
    case Sigma::tanh: return derivative<Sigma::tanh>(order, x);
    case Sigma::hardtanh: return derivative<Sigma::hardtanh>(order, x);
    case Sigma::arctan: return derivative<Sigma::arctan>(order, x);
    default: return derivative<Sigma::erf>(order, x);
  }
}

// Calls f with the nonlinearity as a compile-time constant.
template <class F> int with_sigma(int sigma, F f) {
  switch (static_cast<Sigma>(sigma)) {
    case Sigma::tanh: return f(std::integral_constant<Sigma, Sigma::tanh>());
    case Sigma::hardtanh: return f(std::integral_constant<Sigma, Sigma::hardtanh>());
    case Sigma::arctan: return f(std::integral_constant<Sigma, Sigma::arctan>());
    case Sigma::erf: return f(std::integral_constant<Sigma, Sigma::erf>());
    case Sigma::peaked: break;
  }
  return 2;
}

// The same for solves over pairs.
template <class F> int with_pair_sigma(int sigma, F f) {
  if (static_cast<Sigma>(sigma) == Sigma::peaked) return f(std::integral_constant<Sigma, Sigma::peaked>());
  return with_sigma(sigma, f);
}

}  // namespace ibnn
