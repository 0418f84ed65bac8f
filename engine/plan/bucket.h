// SPDX-License-Identifier: Apache-2.0
// Gradients that pend along the same mesh dimensions, on their way to be added up in one memory.
#pragma once
#include <optional>

#include "engine/plan/gradient_buckets.h"
#include "engine/tensor/redistribute.h"
#include "engine/world/collectives.h"

namespace lockstep {

// Each rank adds up a part of all terms, which it sends to the others: a reduce-scatter, and then an
// all-gather.
class Bucket {
 public:
  // Begins the first exchange. @param which numbers of its terms, for whoever asks
  // @pre at least one term; of one dtype; they pend along `dims` and are alike else
  Bucket(std::vector<size_t> which, const std::vector<at::Tensor>& terms, const std::vector<int64_t>& dims,
         SumOrder order);
  // Waits for what has begun.
  ~Bucket();
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;
  const std::vector<size_t>& which() const { return which_; }
  // Waits for the first exchange and begins the second one.
  void go_on();
  // Waits for that. @returns the sums, parts of one memory. @pre go_on() was called
  std::vector<at::Tensor> finish();

 private:
  Work begin();

  const std::vector<size_t> which_;
  const SumOrder order_;
  CommPtr comm_;
  Groups groups_;  // of ranks that differ in the mesh dimensions
  std::vector<SpecPtr> targets_;
  std::vector<LogResult> logs_;
  PerRank<at::Tensor> terms_;                  // of all, flat
  PerRank<std::vector<at::Tensor>> received_;  // of this rank's part each rank's terms, but for a fold
  PerRank<at::Tensor> parts_, whole_;          // added up
  PerRank<Buffers> into_;                      // what is received, in these
  std::optional<Work> work_;
};

}  // namespace lockstep
