// Sharing work among threads: one region for a solve, and none at all for what is done before the others have woken up.
#pragma once
#include <algorithm>
#include <exception>

namespace ibnn {

constexpr double kWorthSharing = 1e5;  // nanoseconds of work for each thread

// Runs job(k) for all k; 0, or 1 if a checked array was indexed outside. `cost` is what one job takes, in nanoseconds, to
// within a factor of a few.
template <class Job> int for_each(long count, int threads, double cost, Job job) {
  int failed = 0;
  const int shared = static_cast<int>(std::min<double>(threads, static_cast<double>(count) * cost / kWorthSharing));
  (void)shared;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads(shared) reduction(| : failed) if (shared > 1 && count > 1)
#endif
  for (long k = 0; k < count; ++k) {
    try {
      job(k);
    } catch (const std::exception&) {
      failed |= 1;
    }
  }
  return failed;
}

}  // namespace ibnn
