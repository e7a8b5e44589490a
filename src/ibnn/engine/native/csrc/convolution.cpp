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
  long weights() const { return in * out * taps(); }
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

// What a register holds, and how many there are: sums, weights and the numbers they meet have to fit.
#ifdef __AVX512F__
typedef float Wide __attribute__((vector_size(64)));
constexpr long kWide = 16, kRegisters = 32;
using ibnn::fused;
inline Wide fused(Wide a, Wide b, Wide c) { return (Wide)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#else
typedef Lanes Wide;
constexpr long kWide = 8, kRegisters = 16;
#endif

template <class Vector> inline Vector load(const float* p) {
  Vector v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class Vector> inline Vector spread(float x) { return x - Vector{}; }

inline float total(const Wide& v) {
  float sum = 0;
  for (long k = 0; k < kWide; ++k) sum += v[k];
  return sum;
}

constexpr long in_lanes(long n) { return (n + kWide - 1) / kWide; }

// Calls job with n as a constant, 1 to `most`.
template <long most, class Job> void with_constant(long n, Job job) {
  if constexpr (most > 1)
    if (n < most) return with_constant<most - 1>(n, job);
  job(std::integral_constant<long, most>());
}

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
    for (long first = 0; first < out_;) {
      const long left = out_ - first, channels = left == 4 || left > 6 ? 4 : std::min(left, 3L);
      with_constant<4>(channels, [&](auto c) {
        for (long h = 0; h < height; h += kRows)
          with_constant<kRows>(std::min(kRows, height - h), [&](auto rows) {
            band<c.value, rows.value>(in, bias, first, h, height, width, out);
          });
      });
      first += channels;
    }
  }

 private:
  static constexpr long kRows = kRegisters / 16;  // that a tile has, if there are so many
  std::vector<float> weight_;
  long in_ = 0, out_ = 0, rows_ = 0, columns_ = 0;

  // H rows from column 0 to the last
  template <long C, long H>
  void band(const Planes& in, const float* bias, long first, long h, long height, long width, float* out) const {
    constexpr long most = kRegisters == 16 && C < 4 ? 4 : 2;
    for (long w = 0; w < width;) {
      const long left = width - w;
      if (kWide > 8 && left <= 8) return tile<Lanes, C, H, 1>(in, bias, first, h, w, height, width, out);
      // lanes that would have no more than 8 numbers are left for a narrower one
      const long ahead = kWide > 8 && left % kWide <= 8 ? left / kWide : in_lanes(left);
      const long lanes = ahead > most && ahead < 2 * most ? (ahead + 1) / 2 : std::min(ahead, most);  // 3 + 2, not 4 + 1
      with_constant<most>(lanes, [&](auto v) { tile<Wide, C, H, v.value>(in, bias, first, h, w, height, width, out); });
      w += lanes * kWide;
    }
  }

  template <class Vector, long C, long H, long V>
  void tile(const Planes& in, const float* bias, long first, long h, long w, long height, long width, float* out) const {
    constexpr long lanes = sizeof(Vector) / sizeof(float);
    Vector sum[C][H][V];
    for (long c = 0; c < C; ++c)
      for (auto& row : sum[c])
        for (Vector& each : row) each = spread<Vector>(bias ? bias[first + c] : 0.0f);
    const float* weight = weight_.data() + first;
    for (long i = 0; i < in_; ++i)
      for (long r = 0; r < rows_; ++r) {
        const float* x = in.channel(i) + (h + r) * in.pitch + w;
        for (long s = 0; s < columns_; ++s, weight += out_) {
          Vector factor[C];
          for (long c = 0; c < C; ++c) factor[c] = spread<Vector>(weight[c]);
          for (long k = 0; k < H; ++k)
            for (long v = 0; v < V; ++v) {
              const Vector value = load<Vector>(x + k * in.pitch + s + lanes * v);
              for (long c = 0; c < C; ++c) sum[c][k][v] = fused(factor[c], value, sum[c][k][v]);
            }
        }
      }
    for (long c = 0; c < C; ++c)
      for (long k = 0; k < H; ++k)
        for (long v = 0; v < V; ++v) {
          float* to = out + ((first + c) * height + h + k) * width + w + lanes * v;
          const long there = std::min(lanes, width - w - lanes * v);
          std::memcpy(to, &sum[c][k][v], static_cast<size_t>(there) * sizeof(float));
        }
  }
};

// Of some images: weight[o][i][r][s] = sum over h, w of g[o][h][w] in[i][h + r][w + s], lane by lane until all are in.
class WeightGradient {
 public:
  explicit WeightGradient(const Sizes& sizes) : sizes_(sizes), sums_(static_cast<size_t>(sizes.weights())) {}

  void add(const Planes& in, const Planes& g) {
    const auto columns = [&](long s) { return std::min(kColumns, sizes_.kernel_width - s); };
    const auto channels = [&](long o) { return std::min(kChannels, sizes_.out - o); };
    for (long o = 0; o < sizes_.out; o += channels(o))
      for (long i = 0; i < sizes_.in; ++i)
        for (long r = 0; r < sizes_.kernel_height; ++r)
          for (long s = 0; s < sizes_.kernel_width; s += columns(s))
            with_constant<kChannels>(channels(o), [&](auto c) {
              with_constant<kColumns>(columns(s), [&](auto k) { tile<c.value, k.value>(in, g, o, i, r, s); });
            });
  }

  void write(float* out) const {
    for (const Wide& each : sums_) *out++ = total(each);
  }

 private:
  static constexpr long kColumns = 5, kChannels = kRegisters == 32 ? 4 : 2;  // 4 * 5 sums and 4 + 1 numbers, or 2 * 5 and 2 + 1
  const Sizes& sizes_;
  std::vector<Wide> sums_;

  template <long C, long S> void tile(const Planes& in, const Planes& g, long o, long i, long r, long s) {
    const long first = (o * sizes_.in + i) * sizes_.taps() + r * sizes_.kernel_width + s;
    const auto at = [&](long c) { return sums_.data() + first + c * sizes_.in * sizes_.taps(); };
    Wide sum[C][S];
    for (long c = 0; c < C; ++c)
      for (long k = 0; k < S; ++k) sum[c][k] = at(c)[k];
    const long lanes = in_lanes(sizes_.width);
    for (long h = 0; h < sizes_.height; ++h) {
      const float* x = in.channel(i) + (h + r) * in.pitch + s;
      const float* slope = g.channel(o) + h * g.pitch;
      for (long lane = 0; lane < lanes; ++lane, x += kWide, slope += kWide) {
        Wide factor[C];
        for (long c = 0; c < C; ++c) factor[c] = load<Wide>(slope + c * g.plane);
        for (long k = 0; k < S; ++k) {
          const Wide value = load<Wide>(x + k);
          for (long c = 0; c < C; ++c) sum[c][k] = fused(factor[c], value, sum[c][k]);
        }
      }
    }
    for (long c = 0; c < C; ++c)
      for (long k = 0; k < S; ++k) at(c)[k] = sum[c][k];
  }
};

int convolve(const float* x, const long* strides, const float* weight, const float* bias, const Sizes& sizes, float* y,
             int threads) {
  Correlation correlation;
  correlation.weights(weight, sizes, false);
  return for_each(sizes.images, threads, sizes.cost(), [&](long n) {
    static thread_local Planes in;
    in.fill(x + n * strides[0], strides + 1, sizes.in, sizes.in_height(), sizes.in_width(), 0, 0,
            kWide * in_lanes(sizes.width) + sizes.kernel_width - 1);
    correlation.run(in, bias, sizes.height, sizes.width, y + n * sizes.out * sizes.height * sizes.width);
  });
}

constexpr long kChunk = 8;  // images whose gradients one thread adds up

// dx and dweight may be null; g and dx are contiguous
int gradients(const float* x, const long* strides, const float* weight, const float* g, const Sizes& sizes, float* dx,
              float* dweight, int threads) {
  Correlation correlation;
  if (dx) correlation.weights(weight, sizes, true);
  const long of_image = sizes.in * sizes.in_height() * sizes.in_width(), chunks = (sizes.images + kChunk - 1) / kChunk;
  std::vector<float> parts(static_cast<size_t>(dweight ? chunks * sizes.weights() : 0));  // of each chunk
  const int failed = for_each(chunks, threads, 2 * kChunk * sizes.cost(), [&](long chunk) {
    static thread_local Planes in, slope;
    WeightGradient gradient(sizes);
    for (long n = chunk * kChunk; n < std::min(sizes.images, (chunk + 1) * kChunk); ++n) {
      const float* own = g + n * sizes.out * sizes.height * sizes.width;
      const long plain[3] = {sizes.height * sizes.width, sizes.width, 1};
      if (dweight) {
        const long reach = kWide * in_lanes(sizes.width);
        in.fill(x + n * strides[0], strides + 1, sizes.in, sizes.in_height(), sizes.in_width(), 0, 0,
                reach + sizes.kernel_width - 1);
        slope.fill(own, plain, sizes.out, sizes.height, sizes.width, 0, 0, reach);
        gradient.add(in, slope);
      }
      if (dx) {
        slope.fill(own, plain, sizes.out, sizes.height, sizes.width, sizes.kernel_height - 1, sizes.kernel_width - 1,
                   kWide * in_lanes(sizes.in_width()) + sizes.kernel_width - 1);
        correlation.run(slope, nullptr, sizes.in_height(), sizes.in_width(), dx + n * of_image);
      }
    }
    if (dweight) gradient.write(parts.data() + chunk * sizes.weights());
  });
  // in the order of the images: the same on any number of threads
  for (long k = 0; dweight && k < sizes.weights(); ++k) {
    double sum = 0;
    for (long chunk = 0; chunk < chunks; ++chunk) sum += parts[static_cast<size_t>(chunk * sizes.weights() + k)];
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
