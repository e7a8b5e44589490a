// A team of threads for one long row: one of them solves it, and the others wait to be called to its passes over the units.
//
// Nobody is waited for who has not come: a pass is cut into parts, whoever is awake takes the next, and the pass ends when all
// parts are done. So threads that others keep from their core slow it down in proportion. Who waits sleeps, but for a moment.
#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace ibnn {

// One function for all who call it: compiled twice, here into a loop and there behind a pointer, sums may be rounded in two ways.
#ifdef __clang__
#define IBNN_COMPILED_ONCE __attribute__((noinline))
#else
#define IBNN_COMPILED_ONCE __attribute__((noinline, noclone))
#endif
template <class Job> IBNN_COMPILED_ONCE void run_part(void* job, long k) { (*static_cast<Job*>(job))(k); }

class Team {
 public:
  // The team that this thread leads, or null.
  static Team*& led() {
    static thread_local Team* team = nullptr;
    return team;
  }

  // Runs job(k) for all k below count, on all who are awake. Only the leader calls it.
  template <class Job> void share(long count, Job& job) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      run_ = run_part<Job>;
      job_ = &job, count_ = count, next_ = 0, open_ = true, ++calls_;
    }
    called_.notify_all();
    led() = nullptr;  // a part is not shared again
    take_parts();
    led() = this;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      open_ = false;
    }
    wait(left_, [this] { return at_work_ == 0; });
    if (failed_.exchange(false)) throw std::runtime_error("ibnn: a part of a row failed");
  }

  // What the others do until they are dismissed.
  void serve() {
    for (long heard = 0;;) {
      wait(called_, [&] { return calls_ != heard || dismissed_; });
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (dismissed_) return;
        heard = calls_;
        if (!open_) continue;
        ++at_work_;
      }
      take_parts();
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        --at_work_;
      }
      left_.notify_one();
    }
  }

  void dismiss() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      dismissed_ = true;
    }
    called_.notify_all();
  }

 private:
  // Looks before a thread goes to sleep, some 30 ns each: from one pass to the next it is a few microseconds unless the nodes
  // are solved in between. With 1000 looks a row of 1e5 floats took 1.5 times the processor time of one thread.
  static constexpr int kLooks = 200;
  std::mutex mutex_;
  std::condition_variable called_, left_;
  void (*run_)(void*, long) = nullptr;
  void* job_ = nullptr;
  long count_ = 0;
  std::atomic<long> next_{0}, calls_{0}, at_work_{0};
  std::atomic<bool> dismissed_{false}, failed_{false};
  bool open_ = false;

  void take_parts() {
    try {
      for (long k; (k = next_.fetch_add(1)) < count_;) run_(job_, k);
    } catch (const std::exception&) {
      failed_ = true;
    }
  }

  template <class Condition> void wait(std::condition_variable& change, Condition condition) {
    for (int look = 0; look < kLooks; ++look) {
      if (condition()) return;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#else
      std::this_thread::yield();
#endif
    }
    std::unique_lock<std::mutex> lock(mutex_);
    change.wait(lock, condition);
  }
};

}  // namespace ibnn
