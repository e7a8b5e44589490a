// What is asked of a batch of rows, which are one after the other in memory, and where the answers go.
#pragma once
#include "basics/row_packs.h"

namespace ibnn {

// Find z with z + c G(z) = y, after the slope; z comes back before it. The accuracy asked for is atol, or the share
// `resolution` of the row's range if that is less (and not 0).
template <class T> struct RootTask {
  long rows, units;
  const T* y;
  PerRow strength, atol, slope;
  double resolution;
  T* z;
  double* residual;
  int* steps;
  bool* solved;
  bool* unique = nullptr;  // written above the threshold only: whether J is proven positive definite at z
};

// Solve J(z) v = g; `error` is an estimate of v's relative error, `dots` is v . G(z).
template <class T> struct JacobianTask {
  long rows, units;
  const T *z, *g;
  PerRow strength;
  T* v;
  double *error, *dots;
};

// One explicit step, z = y - lam B(y), B after the slope; `scaled` (may be null) is slope y.
template <class T> struct StepTask {
  long rows, units;
  const T* y;
  double lam, slope;
  T *z, *scaled;
};

// Its gradient, v = g - strength DB(z) g, where z is slope y; `dots` is g . B(z).
template <class T> struct StepGradientTask {
  long rows, units;
  const T *z, *g;
  double strength;
  T* v;
  double* dots;
};

}  // namespace ibnn
