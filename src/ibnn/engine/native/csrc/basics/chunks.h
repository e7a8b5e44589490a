// The units of a long row in chunks, which a team of threads shares if there is one.
//
// A row is cut by its length alone, and what is summed over it is summed over each chunk, then over the chunks in their order:
// the same numbers come out on any number of threads, also on one.
#pragma once
#include <algorithm>

#include "basics/team.h"

namespace ibnn {

constexpr long kChunk = 8192;      // units: rows of fewer are one chunk, and blocks of 256 or 512 do not reach across chunks
constexpr long kMostChunks = 128;  // longer rows have longer chunks

struct Chunks {
  long units, size, count;

  explicit Chunks(long n, long most = kMostChunks) : units(n) {
    const long blocks = (n + kChunk - 1) / kChunk;
    size = kChunk * ((blocks + most - 1) / most);
    count = (n + size - 1) / size;
  }
  long first(long k) const { return k * size; }
  long end(long k) const { return std::min(units, (k + 1) * size); }
};

// Runs job(k) for all k below count, by the team if this thread leads one.
template <class Job> void share(long count, Job job) {
  Team* team = count > 1 ? Team::led() : nullptr;
  if (team) return team->share(count, job);
  for (long k = 0; k < count; ++k) run_part<Job>(&job, k);
}

// Runs job(first unit, end) for each chunk.
template <class Job> void in_chunks(long n, Job job) {
  if (n <= kChunk) return job(0L, n);
  const Chunks chunks(n);
  share(chunks.count, [&](long k) { job(chunks.first(k), chunks.end(k)); });
}

// The same for a job that returns something; join(all, next) adds what the next chunk gave to what those before it did.
template <class Job, class Join> auto joined_chunks(long n, Job job, Join join) {
  if (n <= kChunk) return job(0L, n);
  const Chunks chunks(n);
  decltype(job(0L, n)) part[kMostChunks];
  share(chunks.count, [&](long k) { part[k] = job(chunks.first(k), chunks.end(k)); });
  for (long k = 1; k < chunks.count; ++k) join(part[0], part[k]);
  return part[0];
}
template <class Job> auto sum_of_chunks(long n, Job job) {
  return joined_chunks(n, job, [](auto& all, const auto& next) { all += next; });
}

template <class From, class To> void copy_row(const From* from, long n, To* to) {
  in_chunks(n, [=](long first, long end) { std::copy(from + first, from + end, to + first); });
}

}  // namespace ibnn
