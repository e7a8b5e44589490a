// Entry points: a convolution of few channels, stride 1 and no padding, in floats, forward and back. For maps of a few
// channels a library made for many takes several times as long: here the channels of an output tile are in registers.
#include <cstring>
#include <vector>

#include "basics/lanes.h"
#include "basics/threads.h"

namespace ibnn {
namespace {

struct Sizes {
  long images, in, out, height, width, kernel_height, kernel_width;  // height and width are those of the output
  long taps() const { return kernel_height * kernel_width; }
  long in_height() const { return height + kernel_height - 1; }
  long in_width() const { return width + kernel_width - 1; }
  // nanoseconds of one pass over an image: 8 lanes take about two products of sum and factor in one
  double cost() const { return 0.06 * static_cast<double>(in * out * taps() * height * width); }
};

// One image, channel after channel, with a border of zeros; rows end in zeros, too, so that lanes may read past them.
class Planes {
 public:
  const float* channel(long c) const { return at_.data() + c * plane; }
  long plane = 0, pitch = 0;

  // strides are those of channels, rows and columns; `reach`: how many numbers from the first of a row lanes may touch
  void fill(const float* image, const long* strides, long channels, long height, long width, long border_y,
            long border_x, long reach) {
    pitch = std::max(width + 2 * border_x, reach);
    plane = pitch * (height + 2 * border_y);
    at_.assign(static_cast<size_t>(channels * plane), 0.0f);
    for (long c = 0; c < channels; ++c)
      for (long h = 0; h < height; ++h) {
        const float* from = image + c * strides[0] + h * strides[1];
        float* to = at_.data() + c * plane + (h + border_y) * pitch + border_x;
        if (strides[2] == 1)
          std::memcpy(to, from, static_cast<size_t>(width) * sizeof(float));
        else
          for (long w = 0; w < width; ++w) to[w] = from[w * strides[2]];
      }
  }

 private:
  std::vector<float> at_;
};

// Calls job with n as a constant, 1 to 4.
template <class Job> void with_constant(long n, Job job) {
  switch (n) {
    case 1: return job(std::integral_constant<int, 1>());
    case 2: return job(std::integral_constant<int, 2>());
    case 3: return job(std::integral_constant<int, 3>());
    default: return job(std::integral_constant<int, 4>());
  }
}

constexpr long in_lanes(long n) { return (n + 7) / 8; }

// out[o][h][w] = bias[o] + sum over i, r, s of weight[o][i][r][s] in[i][h + r][w + s]
class Correlation {
 public:
  // weights as (in, rows, columns, out): the channels of a tile lie side by side
  void weights(const float* weight, const Sizes& sizes, bool transposed) {
    in_ = transposed ? sizes.out : sizes.in, out_ = transposed ? sizes.in : sizes.out;
    rows_ = sizes.kernel_height, columns_ = sizes.kernel_width;
    const long taps = sizes.taps();
    weight_.resize(static_cast<size_t>(in_ * taps * out_));
    for (long i = 0; i < in_; ++i)
      for (long t = 0; t < taps; ++t)
        for (long o = 0; o < out_; ++o)
          weight_[static_cast<size_t>((i * taps + t) * out_ + o)] =
              transposed ? weight[(i * out_ + o) * taps + taps - 1 - t] : weight[(o * in_ + i) * taps + t];
  }

  void run(const Planes& in, const float* bias, long height, long width, float* out) const {
    // 3 channels and 4 lanes, or 4 and 2, fill the registers: sums, weights and the numbers they meet
    for (long first = 0; first < out_;) {
      const long left = out_ - first, channels = left == 4 || left > 6 ? 4 : std::min(left, 3L);
      for (long h = 0; h < height; ++h)
        for (long lane = 0; lane < in_lanes(width);) {
          const long most = channels == 4 ? 2 : 4, ahead = in_lanes(width) - lane;
          const long lanes = ahead > most && ahead < 2 * most ? (ahead + 1) / 2 : std::min(ahead, most);  // 3 + 2, not 4 + 1
          with_constant(channels, [&](auto c) {
            with_constant(lanes, [&](auto v) { tile<c.value, v.value>(in, bias, first, h, 8 * lane, height, width, out); });
          });
          lane += lanes;
        }
      first += channels;
    }
  }

 private:
  std::vector<float> weight_;
  long in_ = 0, out_ = 0, rows_ = 0, columns_ = 0;

  template <int C, int V>
  void tile(const Planes& in, const float* bias, long first, long h, long w, long height, long width, float* out) const {
    Lanes sum[C][V];
    for (int c = 0; c < C; ++c)
      for (int v = 0; v < V; ++v) sum[c][v] = spread_lanes(bias ? bias[first + c] : 0.0f);
    const float* weight = weight_.data() + first;
    for (long i = 0; i < in_; ++i)
      for (long r = 0; r < rows_; ++r) {
        const float* x = in.channel(i) + (h + r) * in.pitch + w;
        for (long s = 0; s < columns_; ++s, weight += out_) {
          Lanes factor[C];
          for (int c = 0; c < C; ++c) factor[c] = spread_lanes(weight[c]);
          for (int v = 0; v < V; ++v) {
            const Lanes value = load_lanes(x + s + 8 * v);
            for (int c = 0; c < C; ++c) sum[c][v] = fused(factor[c], value, sum[c][v]);
          }
        }
      }
    for (int c = 0; c < C; ++c)
      for (int v = 0; v < V; ++v) {
        float* to = out + ((first + c) * height + h) * width + w + 8 * v;
        const long there = std::min(8L, width - w - 8 * v);
        std::memcpy(to, &sum[c][v], static_cast<size_t>(there) * sizeof(float));
      }
  }
};

inline float total(Lanes v) {
  const Lanes4 half = low_half(v) + high_half(v);
  return (half[0] + half[1]) + (half[2] + half[3]);
}

// of one image: weight[o][i][r][s] = sum over h, w of g[o][h][w] in[i][h + r][w + s]
template <int C, int S>
void weight_tile(const Planes& in, const Planes& g, const Sizes& sizes, long o, long i, long r, long s, float* out) {
  Lanes sum[C][S];
  for (auto& row : sum)
    for (Lanes& each : row) each = spread_lanes(0);
  const long lanes = in_lanes(sizes.width);
  for (long h = 0; h < sizes.height; ++h) {
    const float* x = in.channel(i) + (h + r) * in.pitch + s;
    const float* slope = g.channel(o) + h * g.pitch;
    for (long lane = 0; lane < lanes; ++lane, x += 8, slope += 8) {
      Lanes factor[C];
      for (int c = 0; c < C; ++c) factor[c] = load_lanes(slope + c * g.plane);
      for (int k = 0; k < S; ++k) {
        const Lanes value = load_lanes(x + k);
        for (int c = 0; c < C; ++c) sum[c][k] = fused(factor[c], value, sum[c][k]);
      }
    }
  }
  for (int c = 0; c < C; ++c)
    for (int k = 0; k < S; ++k) out[((o + c) * sizes.in + i) * sizes.taps() + r * sizes.kernel_width + s + k] = total(sum[c][k]);
}

void weight_gradient(const Planes& in, const Planes& g, const Sizes& sizes, float* out) {
  const auto tile = [](long left) { return left == 4 ? 2 : std::min(left, 3L); };  // 2 + 2, not 3 + 1
  for (long o = 0; o < sizes.out; o += tile(sizes.out - o))
    for (long i = 0; i < sizes.in; ++i)
      for (long r = 0; r < sizes.kernel_height; ++r)
        for (long s = 0; s < sizes.kernel_width; s += tile(sizes.kernel_width - s))
          with_constant(tile(sizes.out - o), [&](auto c) {
            with_constant(tile(sizes.kernel_width - s), [&](auto k) {
              if constexpr (c.value < 4 && k.value < 4) weight_tile<c.value, k.value>(in, g, sizes, o, i, r, s, out);
            });
          });
}

int convolve(const float* x, const long* strides, const float* weight, const float* bias, const Sizes& sizes, float* y,
             int threads) {
  Correlation correlation;
  correlation.weights(weight, sizes, false);
  return for_each(sizes.images, threads, sizes.cost(), [&](long n) {
    static thread_local Planes in;
    in.fill(x + n * strides[0], strides + 1, sizes.in, sizes.in_height(), sizes.in_width(), 0, 0,
            8 * in_lanes(sizes.width) + sizes.kernel_width - 1);
    correlation.run(in, bias, sizes.height, sizes.width, y + n * sizes.out * sizes.height * sizes.width);
  });
}

// dx and dweight may be null; g and dx are contiguous
int gradients(const float* x, const long* strides, const float* weight, const float* g, const Sizes& sizes, float* dx,
              float* dweight, int threads) {
  Correlation correlation;
  if (dx) correlation.weights(weight, sizes, true);
  const long of_image = sizes.in * sizes.in_height() * sizes.in_width(), numbers = sizes.in * sizes.out * sizes.taps();
  std::vector<float> parts(static_cast<size_t>(dweight ? sizes.images * numbers : 0));  // of each image
  const int failed = for_each(sizes.images, threads, 2 * sizes.cost(), [&](long n) {
    static thread_local Planes in, slope;
    const float* own = g + n * sizes.out * sizes.height * sizes.width;
    const long plain[3] = {sizes.height * sizes.width, sizes.width, 1};
    if (dweight) {
      const long reach = 8 * in_lanes(sizes.width);
      in.fill(x + n * strides[0], strides + 1, sizes.in, sizes.in_height(), sizes.in_width(), 0, 0,
              reach + sizes.kernel_width - 1);
      slope.fill(own, plain, sizes.out, sizes.height, sizes.width, 0, 0, reach);
      weight_gradient(in, slope, sizes, parts.data() + n * numbers);
    }
    if (dx) {
      slope.fill(own, plain, sizes.out, sizes.height, sizes.width, sizes.kernel_height - 1, sizes.kernel_width - 1,
                 8 * in_lanes(sizes.in_width()) + sizes.kernel_width - 1);
      correlation.run(slope, nullptr, sizes.in_height(), sizes.in_width(), dx + n * of_image);
    }
  });
  // in the order of the images: the same on any number of threads
  for (long k = 0; dweight && k < numbers; ++k) {
    double sum = 0;
    for (long n = 0; n < sizes.images; ++n) sum += parts[static_cast<size_t>(n * numbers + k)];
    dweight[k] = static_cast<float>(sum);
  }
  return failed;
}

Sizes sizes_of(const long* s) { return {s[0], s[1], s[2], s[3], s[4], s[5], s[6]}; }

}  // namespace
}  // namespace ibnn

extern "C" int ibnn_convolve_f32(const float* x, const long* strides, const float* weight, const float* bias, const long* sizes,
                             float* y, int threads) {
  return ibnn::convolve(x, strides, weight, bias, ibnn::sizes_of(sizes), y, threads);
}

extern "C" int ibnn_convolution_gradients_f32(const float* x, const long* strides, const float* weight, const float* g,
                                          const long* sizes, float* dx, float* dweight, int threads) {
  return ibnn::gradients(x, strides, weight, g, ibnn::sizes_of(sizes), dx, dweight, threads);
}
