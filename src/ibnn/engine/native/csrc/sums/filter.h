// Convolutions with short symmetric kernels, eight outputs side by side: what sums on evenly spaced nodes come down to.
#pragma once
#include <algorithm>

#include "basics/checked.h"
#include "basics/lanes.h"

namespace ibnn {

// A row with `margin` readable numbers on both sides. Its length is a multiple of 8.
class Padded {
 public:
  void resize(long n, long margin) {
    n_ = n, margin_ = margin;
    all_.resize(n + 2 * margin);
    std::fill(all_.data(), all_.data() + margin, 0.0f);
    std::fill(all_.data() + margin + n, all_.data() + 2 * margin + n, 0.0f);
  }
  long size() const { return n_; }
  long margin() const { return margin_; }
  // Address of `width` numbers from place s on; -margin <= s.
  float* slot(long s, long width) { return all_.slot(margin_ + s, width); }
  const float* slot(long s, long width) const { return all_.slot(margin_ + s, width); }

 private:
  long n_ = 0, margin_ = 0;
  Array<float> all_;
};

// out_s = taps_0 w_s + sum_k taps_k (w_{s+k} + w_{s-k}), k = 1 .. reach <= margin of w.
inline void even_filter(const Padded& w, const float* taps, long reach, float* out) {
  long s = 0;
  for (; s + 32 <= w.size(); s += 32) {
    Lanes sum[4];
    const float* here = w.slot(s - reach, 32 + 2 * reach) + reach;
    for (int b = 0; b < 4; ++b) sum[b] = spread_lanes(taps[0]) * load_lanes(here + 8 * b);
    for (long k = 1; k <= reach; ++k) {
      const Lanes tap = spread_lanes(taps[k]);
      for (int b = 0; b < 4; ++b)
        sum[b] = fused(tap, load_lanes(here + 8 * b + k) + load_lanes(here + 8 * b - k), sum[b]);
    }
    for (int b = 0; b < 4; ++b) store_lanes(out + s + 8 * b, sum[b]);
  }
  for (; s < w.size(); s += 8) {
    const float* here = w.slot(s - reach, 8 + 2 * reach) + reach;
    Lanes sum = spread_lanes(taps[0]) * load_lanes(here), other = {};
    for (long k = 1; k <= reach; ++k) {
      sum = fused(spread_lanes(taps[k]), load_lanes(here + k), sum);
      other = fused(spread_lanes(taps[k]), load_lanes(here - k), other);
    }
    store_lanes(out + s, sum + other);
  }
}

// `blocks` times eight outputs of even_odd_filter: several at a time, so that their sums do not wait for each other.
template <int kernels, int blocks>
inline void even_odd_outputs(const float* here, const float* taps, const float* const (&odd_taps)[kernels], long reach,
                             float* even, float* const (&odd)[kernels], long s) {
  Lanes sum[blocks], difference[kernels][blocks] = {};
  for (int b = 0; b < blocks; ++b) sum[b] = spread_lanes(taps[0]) * load_lanes(here + 8 * b);
  for (long k = 1; k <= reach; ++k)
    for (int b = 0; b < blocks; ++b) {
      const Lanes right = load_lanes(here + 8 * b + k), left = load_lanes(here + 8 * b - k);
      sum[b] = fused(spread_lanes(taps[k]), right + left, sum[b]);
      for (int j = 0; j < kernels; ++j)
        difference[j][b] = fused(spread_lanes(odd_taps[j][k]), right - left, difference[j][b]);
    }
  for (int b = 0; b < blocks; ++b) {
    store_lanes(even + s + 8 * b, sum[b]);
    for (int j = 0; j < kernels; ++j) store_lanes(odd[j] + s + 8 * b, difference[j][b]);
  }
}

// As even_filter into `even`; and odd_s = sum_k odd_taps_k (w_{s+k} - w_{s-k}), for one or more kernels.
template <int kernels>
inline void even_odd_filter(const Padded& w, const float* taps, const float* const (&odd_taps)[kernels], long reach,
                            float* even, float* const (&odd)[kernels]) {
  long s = 0;
  for (; s + 24 <= w.size(); s += 24)
    even_odd_outputs<kernels, 3>(w.slot(s - reach, 24 + 2 * reach) + reach, taps, odd_taps, reach, even, odd, s);
  for (; s < w.size(); s += 8)
    even_odd_outputs<kernels, 1>(w.slot(s - reach, 8 + 2 * reach) + reach, taps, odd_taps, reach, even, odd, s);
}

}  // namespace ibnn
