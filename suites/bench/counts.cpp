// SPDX-License-Identifier: Apache-2.0
#include "suites/bench/counts.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include "engine/context/context.h"

namespace lockstep::suites {
namespace {

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

double tensor_allocations(const std::function<void()>& action) {
  const Counting counting;
  action();
  return static_cast<double>(counting.count());
}

double decisions(const std::function<void()>& action) {
  const auto before = current_context()->counters.cache_misses;
  action();
  return static_cast<double>(current_context()->counters.cache_misses - before);
}

}  // namespace lockstep::suites
