// SPDX-License-Identifier: Apache-2.0
#include "suites/bench/measure.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "engine/context/context.h"

namespace lockstep::suites {
namespace {

constexpr int kTurns = 9;

double timed(const Action& action, int64_t calls) {
  const double start = thread_seconds();
  for (int64_t i = 0; i < calls; ++i) action();
  return thread_seconds() - start;
}

// The least power of two of calls that takes so long; calls them, which also warms up.
int64_t calls_for(const Action& action, double least) {
  int64_t calls = 1;
  while (timed(action, calls) < least) calls *= 2;
  return calls;
}

// libtorch's own allocator, counting while it stands in its place. Memory that it gave out is freed by the
// one below.
class Counting final : public c10::Allocator {
 public:
  Counting() { c10::SetAllocator(c10::kCPU, this); }
  ~Counting() override { c10::SetAllocator(c10::kCPU, &below_); }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

  c10::DataPtr allocate(size_t n) override {
    ++count_;
    return below_.allocate(n);
  }
  c10::DeleterFnPtr raw_deleter() const override { return below_.raw_deleter(); }
  void copy_data(void* to, const void* from, size_t n) const override { default_copy_data(to, from, n); }
  int64_t count() const { return count_; }

 private:
  c10::Allocator& below_ = *c10::GetAllocator(c10::kCPU);
  int64_t count_ = 0;
};

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double seconds_per_call(const Action& action, double least) {
  const int64_t calls = calls_for(action, least / kTurns);
  std::vector<double> turns;
  for (int i = 0; i < kTurns; ++i) turns.push_back(timed(action, calls));
  return median(std::move(turns)) / static_cast<double>(calls);
}

double seconds_above(const Action& action, const Action& base, double least) {
  const int64_t calls = calls_for(action, least / kTurns);
  std::vector<double> turns;
  timed(base, calls);
  for (int i = 0; i < kTurns; ++i) turns.push_back(timed(action, calls) - timed(base, calls));
  return median(std::move(turns)) / static_cast<double>(calls);
}

double tensor_allocations(const Action& action) {
  const Counting counting;
  action();
  return static_cast<double>(counting.count());
}

double decisions(const Action& action) {
  const auto before = current_context()->counters.cache_misses;
  action();
  return static_cast<double>(current_context()->counters.cache_misses - before);
}

}  // namespace lockstep::suites
