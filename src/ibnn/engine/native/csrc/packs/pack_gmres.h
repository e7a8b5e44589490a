// GMRES in lanes: the systems on nodes of a pack of rows, each lane by itself (see gmres.h).
#pragma once
#include "basics/checked.h"
#include "basics/packs.h"

namespace ibnn {

class PackGmres {
 public:
  using V = Floats;
  using M = Mask<float>;

  // x = 0 on entry is assumed, and stays in lanes not going; apply(v, out) is the operator. Returns |b - A x| / |b| as the
  // recurrence sees it.
  template <class Apply> V solve(const V* b, V* x, long n, V rtol, M going, Apply apply) {
    basis_.resize((kDepth + 1) * n);
    for (long i = 0; i < n; ++i) x[i] = V{};
    const V size = root_of(dot(b, b, n)), goal = rtol * size;
    going &= size > 0;
    scaled(b, size > 0 ? 1 / size : V{}, basis_.slot(0, n), n);
    V cosine[kDepth], sine[kDepth], wanted[kDepth], left = size;
    int k = 0;
    for (; k < kDepth; ++k) {
      going &= size_of(left) > goal;
      if (!any_lane(going)) break;
      V* next = basis_.slot((k + 1) * n, n);
      apply(basis_.slot(k * n, n), next);
      V* h = hessenberg_[k];
      const V below = root_of(project(k + 1, n, h, next));
      scaled(next, below > 0 ? 1 / below : V{}, next, n);
      for (int j = 0; j < k; ++j) {
        const V here = h[j], after = h[j + 1];
        h[j] = cosine[j] * here + sine[j] * after;
        h[j + 1] = cosine[j] * after - sine[j] * here;
      }
      const V r = root_of(h[k] * h[k] + below * below);
      going &= r > 0;
      const V inverse = r > 0 ? 1 / r : V{};
      cosine[k] = h[k] * inverse, sine[k] = below * inverse;
      // A lane that is done takes nothing of this vector.
      for (int j = 0; j < k; ++j) h[j] = going ? h[j] : V{};
      h[k] = going ? r : pack_of(1.0f);
      wanted[k] = going ? cosine[k] * left : V{};
      left = going ? -sine[k] * left : left;
      going &= below > 1e-7f * r;
    }
    for (int j = k - 1; j >= 0; --j) {
      for (int l = j + 1; l < k; ++l) wanted[j] -= hessenberg_[l][j] * wanted[l];
      wanted[j] /= hessenberg_[j][j];
      const V* v = basis_.slot(j * n, n);
      for (long i = 0; i < n; ++i) x[i] += wanted[j] * v[i];
    }
    return size > 0 ? size_of(left) / size : V{};
  }

 private:
  static constexpr int kDepth = 24;
  Array<V> basis_;
  V hessenberg_[kDepth][kDepth + 1];

  // Takes from `next` its parts along the first vectors, which are written to h; returns what is left, squared. Up to four
  // vectors, which is what most systems take, are read side by side.
  V project(int count, long n, V* h, V* next) const {
    switch (count) {
      case 1: return project<1>(n, h, next);
      case 2: return project<2>(n, h, next);
      case 3: return project<3>(n, h, next);
      case 4: return project<4>(n, h, next);
    }
    for (int j = 0; j < count; ++j) h[j] = dot(next, basis_.slot(j * n, n), n);
    for (int j = 0; j < count; ++j) {
      const V* v = basis_.slot(j * n, n);
      for (long i = 0; i < n; ++i) next[i] -= h[j] * v[i];
    }
    return dot(next, next, n);
  }
  template <int count> V project(long n, V* h, V* next) const {
    const V* v[count];
    V part[count] = {}, other[count] = {}, squares = {};
    for (int j = 0; j < count; ++j) v[j] = basis_.slot(j * n, n);
    for (long i = 0; i + 2 <= n; i += 2)  // nodes are a multiple of 8
      for (int j = 0; j < count; ++j) part[j] += next[i] * v[j][i], other[j] += next[i + 1] * v[j][i + 1];
    for (int j = 0; j < count; ++j) h[j] = part[j] += other[j];
    for (long i = 0; i < n; ++i) {
      V left = next[i];
      for (int j = 0; j < count; ++j) left -= part[j] * v[j][i];
      next[i] = left, squares += left * left;
    }
    return squares;
  }

  // Four sums that do not wait for each other.
  static V dot(const V* a, const V* b, long n) {
    V sum[4] = {};
    long i = 0;
    for (; i + 4 <= n; i += 4)
      for (int k = 0; k < 4; ++k) sum[k] += a[i + k] * b[i + k];
    for (; i < n; ++i) sum[0] += a[i] * b[i];
    return sum[0] + sum[1] + (sum[2] + sum[3]);
  }

  static void scaled(const V* a, V factor, V* out, long n) {
    for (long i = 0; i < n; ++i) out[i] = factor * a[i];
  }
};

}  // namespace ibnn
