// Sharing work among threads: one region for a solve, and none at all for what is done before the others have woken up.
#pragma once
#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "basics/team.h"

namespace ibnn {

// Nanoseconds of work for each thread that make it worth to call them: once, or to every pass over one long row.
constexpr double kWorthSharing = 1e5, kWorthLeading = 2e5;

// Parallel regions so far, of all threads: what tests count.
inline std::atomic<long> regions_begun{0};

// Runs job(k) for all k; 0, or 1 if a checked array was indexed outside. `cost` is what one job takes, in nanoseconds, to
// within a factor of a few.
template <class Job> int for_each(long count, int threads, double cost, Job job) {
  int failed = 0;
  const int shared = static_cast<int>(std::min<double>(threads, static_cast<double>(count) * cost / kWorthSharing));
  (void)shared;
#ifdef _OPENMP
  regions_begun += shared > 1 && count > 1;
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

// How many threads a job of this cost is for, if it is shared pass by pass.
inline int worth_leading(int threads, double cost) {
#ifdef _OPENMP
  return static_cast<int>(std::min<double>(threads, cost / kWorthLeading));
#else
  return (void)threads, (void)cost, 1;
#endif
}

// As for_each, for jobs that are for all threads each: this one does them in turn, and leads the others (see chunks.h).
template <class Job> int for_each_led(long count, int threads, Job job) {
  int failed = 0;
  Team team;
  const auto leader = std::this_thread::get_id();
  (void)threads;
#ifdef _OPENMP
  ++regions_begun;
#pragma omp parallel num_threads(threads)
#endif
  if (std::this_thread::get_id() == leader) {
    Team::led() = &team;
    failed = for_each(count, 1, 0, job);
    Team::led() = nullptr;
    team.dismiss();
  } else {
    team.serve();
  }
  return failed;
}

}  // namespace ibnn
