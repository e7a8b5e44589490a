// Sorting in lanes: each row of a pack by itself, with the same comparisons for all (Batcher's merge exchange).
#pragma once
#include "basics/packs.h"

namespace ibnn {

// Sorts n keys upwards; `places` become the indices the keys had. About n log2(n)^2 / 4 comparisons, none of which branches.
template <class T> void sort_packs(Pack<T>* keys, Mask<T>* places, long n) {
  for (long i = 0; i < n; ++i) places[i] = Mask<T>{} + static_cast<std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>(i);
  long top = 1;
  while (2 * top < n) top *= 2;
  for (long p = n > 1 ? top : 0; p > 0; p /= 2) {
    long q = top, r = 0, d = p;
    for (;;) {
      // i with (i & p) == r, in runs of p
      for (long run = r; run < n - d; run += 2 * p)
        for (long i = run, end = std::min(run + p, n - d); i < end; ++i) {
          const Pack<T> a = keys[i], b = keys[i + d];
          const Mask<T> j = places[i], k = places[i + d], swap = a > b;
          keys[i] = swap ? b : a, keys[i + d] = swap ? a : b;
          places[i] = swap ? k : j, places[i + d] = swap ? j : k;
        }
      if (q == p) break;
      d = q - p, q /= 2, r = p;
    }
  }
}

}  // namespace ibnn
