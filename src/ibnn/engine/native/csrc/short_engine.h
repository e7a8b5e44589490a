// Packs of short rows in the units of the caller: scaled, centred, sorted by how far apart their units are, and back.
#pragma once
#include "short_rows.h"
#include "tasks.h"

namespace ibnn {

template <Sigma kind, class T> class ShortEngine {
 public:
  using V = Pack<T>;
  using M = Mask<T>;

  // Solves the pack of rows that starts at `first`. `otherwise(row)` is called for rows that are not for this engine, or
  // that it could not solve.
  template <class Otherwise> void find_roots(const RootTask<T>& task, long first, Otherwise otherwise) {
    const long n = task.layout.units;
    const RowPack<T> pack(task.layout, first);
    const int count = pack.count();
    reserve(n);
    pack.read(task.y, raw_.data());
    const V c = lanes_of(task.strength, first, count, T(0)), p = lanes_of(task.slope, first, count, T(1));
    V low, high;
    range_of_lanes<T>(raw_.data(), n, &low, &high);
    const V range = p * (high - low);
    // The units of z are closer together than those of y for c < 0, farther apart by up to 2 c and 1 / (1 - c) otherwise.
    const V reach = c > 0 ? least_of(range + 2 * c, range / (1 - c)) : range;
    M mine = finite_lanes<T>(raw_.data(), n) & (c < 1) & (c > T(-1e30)) & (c != 0) & (range < T(1e30));
    const V near = static_cast<T>(task.resolution) * (c > 0 ? least_of(range, pack_of(T(1))) : range), asked = lanes_of(task.atol, first, count, T(0));
    // What rounding leaves of B, which is at most 1 and the spread of z, must not be seen in z, nor in its differences.
    const V noise = 2 * std::numeric_limits<T>::epsilon() * size_of(c), least = c > 0 ? 1 - c : pack_of(T(1));
    mine &= (noise * least_of(reach, pack_of(T(1))) <= 4 * least * asked) & ((c < 0) | (noise <= T(5e-5) * least));
    const V atol = (near > 0) & (near < asked) ? near : asked;
    const V origin = origin_of(low, high, p, reach);
    // Nor must the rounding of the origin, in units that are nearer to 0 than it.
    mine &= p * std::numeric_limits<T>::epsilon() * size_of(origin - nearest_to_zero(low, high)) <= asked;
    M solved = {};
    for (Reach one : {Reach::close, Reach::usual, Reach::far}) {
      const M now = mine & lanes_at(one, reach);
      if (!any_lane(now)) continue;
      V* y = solver_.y();
      for (long i = 0; i < n; ++i) y[i] = now ? p * (raw_[i] - origin) : V{};
      const auto found = solver_.find_roots(c, atol, one, now);
      for (long i = 0; i < n; ++i) out_[i] = now ? origin + solver_.z()[i] / p : out_[i];
      for (int lane = 0; lane < count; ++lane)
        if (now[lane]) {
          task.residual[first + lane] = found.residual[lane];
          task.steps[first + lane] = static_cast<int>(found.steps[lane]);
          task.solved[first + lane] = found.solved[lane] != 0;
        }
      solved |= now & found.solved;
    }
    pack.write(out_.data(), task.z);
    for (int lane = 0; lane < count; ++lane)
      if (!solved[lane]) otherwise(first + lane);
  }

  template <class Otherwise> void solve_jacobian(const JacobianTask<T>& task, long first, Otherwise otherwise) {
    const long n = task.layout.units;
    const RowPack<T> pack(task.layout, first);
    const int count = pack.count();
    reserve(n);
    pack.read(task.z, raw_.data());
    pack.read(task.g, g_.data());
    const V c = lanes_of(task.strength, first, count, T(0));
    V low, high;
    range_of_lanes<T>(raw_.data(), n, &low, &high);
    const V reach = high - low, origin = origin_of(low, high, pack_of(T(1)), reach);
    const M mine = finite_lanes<T>(raw_.data(), n) & finite_lanes<T>(g_.data(), n) & (c < 1) & (c > T(-1e30)) & (reach < T(1e30));
    M solved = {};
    for (Reach one : {Reach::close, Reach::usual, Reach::far}) {
      const M now = mine & lanes_at(one, reach);
      if (!any_lane(now)) continue;
      // J passes a constant on unchanged; without it the rest keeps its digits. Squares of g stay within the floats.
      V mean = {}, size = pack_of(std::numeric_limits<T>::min());
      for (long i = 0; i < n; ++i) size = most_of(size, now ? size_of(g_[i]) : V{});
      const V scale = 1 / size;
      for (long i = 0; i < n; ++i) mean += now ? scale * g_[i] : V{};
      mean /= static_cast<T>(n);
      for (long i = 0; i < n; ++i) {
        solver_.y()[i] = now ? scale * g_[i] - mean : V{};
        solver_.z()[i] = now ? raw_[i] - origin : V{};
      }
      V dots;
      const V residual = solver_.solve_jacobian(c, one, now, &dots);
      for (long i = 0; i < n; ++i) out_[i] = now ? size * (mean + solver_.v()[i]) : out_[i];
      for (int lane = 0; lane < count; ++lane)
        if (now[lane]) {
          task.residual[first + lane] = residual[lane];
          if (task.dots) task.dots[first + lane] = static_cast<double>(size[lane]) * dots[lane];
        }
      solved |= now & (residual <= kResidual);
    }
    pack.write(out_.data(), task.v);
    for (int lane = 0; lane < count; ++lane)
      if (!solved[lane]) otherwise(first + lane);
  }

 private:
  static constexpr T kResidual = sizeof(T) == 4 ? T(1e-5) : T(1e-10);
  ShortRows<kind, T> solver_;
  Array<V> raw_, g_, out_;

  void reserve(long n) {
    solver_.resize(n);
    for (auto* a : {&raw_, &g_, &out_}) a->resize(n);
  }

  static V nearest_to_zero(V low, V high) { return low > 0 ? low : (high < 0 ? high : V{}); }

  // Units are counted from the place of the row that is nearest to 0: differences keep the digits of y. If E = e^(2 z) would
  // not fit in its type then, from the middle of the row, and where it never fits, from 0.
  static V origin_of(V low, V high, V slope, V reach) {
    const V nearest = nearest_to_zero(low, high), middle = T(0.5) * low + T(0.5) * high;
    const V longest = slope * most_of(high - nearest, nearest - low) + T(0.5) * (reach - slope * (high - low));
    if (kind != Sigma::tanh) return nearest;
    return longest <= T(0.5) * kUsual<T> && reach > T(kClose) ? nearest : (reach <= kUsual<T> ? middle : V{});
  }

  static M lanes_at(Reach which, V reach) {
    if (kind != Sigma::tanh) return which == Reach::far ? M{} - 1 : M{};
    switch (which) {
      case Reach::close: return reach <= T(kClose);
      case Reach::usual: return (reach > T(kClose)) & (reach <= kUsual<T>);
      default: return ~(reach <= kUsual<T>);
    }
  }
};

}  // namespace ibnn
