// SPDX-License-Identifier: Apache-2.0
// Gradients that pend along the same mesh dimensions, on their way to be added up in one memory.
#pragma once
#include <list>
#include <optional>

#include "engine/plan/gradient_buckets.h"
#include "engine/plan/sum_path.h"
#include "engine/tensor/redistribute.h"
#include "engine/values/timeline.h"
#include "engine/world/collectives.h"
#include "engine/world/fold.h"

namespace lockstep {

// Each rank adds up a part of all terms, which it sends to the others: a reduce-scatter, of one pass or of
// several, and then one all-gather.
class Bucket {
 public:
  // @param which numbers of its gradients, for whoever asks
  // @param like of each its Spec, pending along `dims` or not; of one dtype, the path's
  Bucket(std::vector<size_t> which, const std::vector<SpecPtr>& like, CommPtr comm,
         const std::vector<int64_t>& dims, const SumPath& path);
  // Waits for what has begun.
  ~Bucket();
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;
  const std::vector<size_t>& which() const { return which_; }

  // Terms of one pass, undefined where it has none. Begins to send them, where the path says so.
  void add(const std::vector<at::Tensor>& terms);
  // No pass is to come: begins to send what has not been sent.
  void close();
  // Waits for what was sent, and adds it up.
  void settle();
  // Begins to gather. @pre close() and settle() were called
  void gather();
  // Waits for that. @returns the sums, parts of one memory; undefined where no pass had a term
  std::vector<at::Tensor> finish();
  // Tells the timeline of the k-th sum.
  void log(size_t k, const at::Tensor& sum);

 private:
  // Of one pass, or of all, on its way: the terms, and what comes of this rank's part.
  struct Round {
    PerRank<at::Tensor> terms, parts = {};
    PerRank<std::vector<at::Tensor>> received = {};  // each rank's terms, but for a fold
    std::optional<Work> work = std::nullopt;
  };

  void note(const std::vector<at::Tensor>& terms);
  PerRank<at::Tensor> in_one_memory(const std::vector<at::Tensor>& terms, c10::ScalarType dtype) const;
  void add_pass(PerRank<at::Tensor> values);
  void send(PerRank<at::Tensor> terms);
  void take(Round& round);

  const std::vector<size_t> which_;
  const SumPath path_;
  const std::vector<int64_t> dims_;
  const CommPtr comm_;
  const Groups groups_;  // of ranks that differ in the mesh dimensions
  std::vector<SpecPtr> targets_;
  PerRank<int64_t> elements_;
  std::vector<int64_t> came_;                       // of each gradient, how many terms a rank
  std::vector<std::vector<TensorRecord>> records_;  // of these, while a timeline is recorded
  std::vector<LogResult> logs_;                     // where passes are not told apart
  PerRank<Fold> passes_;                            // of terms, or of what ranks' terms have come to
  PerRank<std::vector<at::Tensor>> all_;            // for one sum of all: this rank's part of each term
  std::list<Round> rounds_;
  PerRank<at::Tensor> parts_, whole_;  // added up
  PerRank<Buffers> into_;              // what is gathered, in these
  std::optional<Work> gathering_;
};

}  // namespace lockstep
