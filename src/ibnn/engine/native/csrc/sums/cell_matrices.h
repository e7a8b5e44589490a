// How the cells of cells.h talk to each other: matrices between Chebyshev moments, which depend on sigma only.
#pragma once
#include <cmath>
#include <memory>
#include <mutex>

#include "basics/sigma.h"

namespace ibnn {

constexpr int kMaxLevels = 60;

// Shared by all rows and threads.
template <int M> class CellTables {
 public:
  // Local coefficients += matrix(order, level, offset) * moments; offset = source cell - target cell, |offset| <= 3.
  struct Matrix { double at[M][M]; };
  struct Level { Matrix offset[7]; };
  Matrix shift[2];  // moments of a left/right half cell -> moments of the whole cell

  static const CellTables& of(Sigma kind) {
    static const CellTables tables[4] = {{Sigma::tanh}, {Sigma::hardtanh}, {Sigma::arctan}, {Sigma::erf}};
    return tables[static_cast<int>(kind)];
  }
  const Level& level(int order, int l) const {
    auto& slot = const_cast<CellTables*>(this)->levels_[order][l];
    std::call_once(const_cast<CellTables*>(this)->made_[order][l], [&] { slot.reset(make(order, l)); });
    return *slot;
  }

 private:
  Sigma kind_;
  double node_[M], to_coefficients_[M][M];
  std::unique_ptr<Level> levels_[kOrders][kMaxLevels];
  std::once_flag made_[kOrders][kMaxLevels];

  CellTables(Sigma kind) : kind_(kind) {
    for (int j = 0; j < M; ++j) node_[j] = std::cos(kPi * (j + 0.5) / M);
    for (int n = 0; n < M; ++n)
      for (int j = 0; j < M; ++j)
        to_coefficients_[n][j] = (n ? 2.0 : 1.0) / M * std::cos(kPi * n * (j + 0.5) / M);
    for (int side = 0; side < 2; ++side)
      for (int n = 0; n < M; ++n)
        for (int m = 0; m < M; ++m) {
          double sum = 0;
          for (int j = 0; j < M; ++j)
            sum += to_coefficients_[m][j] * std::cos(n * std::acos((node_[j] + (side ? 1 : -1)) / 2));
          shift[side].at[n][m] = sum;
        }
  }
  Level* make(int order, int l) const {
    auto* level = new Level;
    const double width = std::ldexp(cell_width(kind_), l);
    for (int offset = -3; offset <= 3; ++offset) {
      double pairs[M][M], half[M][M];
      for (int i = 0; i < M; ++i)
        for (int j = 0; j < M; ++j)
          pairs[i][j] = derivative(kind_, order, width * (offset + (node_[j] - node_[i]) / 2));
      for (int n = 0; n < M; ++n)
        for (int j = 0; j < M; ++j) {
          half[n][j] = 0;
          for (int i = 0; i < M; ++i) half[n][j] += to_coefficients_[n][i] * pairs[i][j];
        }
      // Transposed (source moment first): the inner loop of the product then runs over targets, without reductions.
      auto& out = level->offset[offset + 3].at;
      for (int m = 0; m < M; ++m)
        for (int n = 0; n < M; ++n) {
          out[m][n] = 0;
          for (int j = 0; j < M; ++j) out[m][n] += half[n][j] * to_coefficients_[m][j];
        }
    }
    return level;
  }
};

}  // namespace ibnn
