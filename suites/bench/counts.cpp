// SPDX-License-Identifier: Apache-2.0
#include "suites/bench/counts.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include "engine/context/context.h"

namespace lockstep::suites {
namespace {

// libtorch's own allocator, counting. Memory that it gave out is freed by the one below.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator& below) : below_(below) {}
  c10::DataPtr allocate(size_t n) override {
    ++count_;
    return below_.allocate(n);
  }
  c10::DeleterFnPtr raw_deleter() const override { return below_.raw_deleter(); }
  void copy_data(void* to, const void* from, size_t n) const override { default_copy_data(to, from, n); }
  int64_t count() const { return count_; }

 private:
  c10::Allocator& below_;
  int64_t count_ = 0;
};

// libtorch keeps a pointer to the allocator; ours stands there only while something is counted.
class Counting {
 public:
  Counting() : below_(*c10::GetAllocator(c10::kCPU)), allocator_(below_) {
    c10::SetAllocator(c10::kCPU, &allocator_);
  }
  ~Counting() { c10::SetAllocator(c10::kCPU, &below_); }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;
  int64_t count() const { return allocator_.count(); }

 private:
  c10::Allocator& below_;
  CountingAllocator allocator_;
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
