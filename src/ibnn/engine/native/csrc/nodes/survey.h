// What the nodes of a row are placed by, from one pass over its units.
#pragma once
#include <cmath>

#include "basics/row_values.h"

namespace ibnn {

struct Survey {
  float low, high;
  float deviation;  // standard deviation of the units
  bool tied;        // whether many units share one value, `tie`, as the background of an image does
  float tie;

  Survey(const float* row, long n) {
    const float origin = row[0], values[kValues] = {row[0], row[n / 3], row[n - 1]};
    const Part all = sum_of_chunks(n, [&](long first, long end) {
      Part here;
      ends_of(row + first, end - first, &here.ends.low, &here.ends.high);
      float sum = 0, squares = 0;
      for (long i = first; i < end; ++i) {
        const float from = row[i] - origin;
        sum += from, squares += from * from;
      }
      here.sum = sum, here.squares = squares;
      for (long i = first; i < end; ++i)
        for (int j = 0; j < kValues; ++j) here.equal[j] += row[i] == values[j];
      return here;
    });
    low = all.ends.low, high = all.ends.high;
    const float mean = static_cast<float>(all.sum) / static_cast<float>(n);
    deviation = std::sqrt(std::max(0.0f, static_cast<float>(all.squares) / static_cast<float>(n) - mean * mean));
    tied = false, tie = 0;
    for (int j = kValues - 1; j >= 0; --j)
      if (all.equal[j] > n / 16) tied = true, tie = values[j];
  }

 private:
  static constexpr int kValues = 3;
  struct Part {
    Ends<float> ends;
    double sum, squares;
    int equal[kValues] = {};
    void operator+=(const Part& next) {
      ends = ends.with(next.ends), sum += next.sum, squares += next.squares;
      for (int j = 0; j < kValues; ++j) equal[j] += next.equal[j];
    }
  };
};

}  // namespace ibnn
