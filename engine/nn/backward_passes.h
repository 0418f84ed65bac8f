// SPDX-License-Identifier: Apache-2.0
// Backward passes that are under way, one within the other: what is to be done at the end of the outermost,
// or when it has failed, of which libtorch tells nobody.
#pragma once
#include <functional>
#include <memory>
#include <vector>

namespace lockstep::nn {

class BackwardPasses : public std::enable_shared_from_this<BackwardPasses> {
 public:
  // @param finished may throw, out of the pass; @param failed does not
  BackwardPasses(std::function<void()> finished, std::function<void()> failed)
      : finished_(std::move(finished)), failed_(std::move(failed)) {}

  // Of the pass that runs: its end will be told. What runs again within one is a part of it. @pre one runs
  void enter();
  // Of the outermost one that was entered last.
  int64_t number() const { return number_; }

 private:
  // Leaves those that libtorch has dropped.
  void tidy();
  void finish();

  struct Pass {
    int id;
    std::weak_ptr<void> runs;  // as long as libtorch has the callback
  };
  const std::function<void()> finished_, failed_;
  std::vector<Pass> passes_;
  int64_t number_ = 0;
};

}  // namespace lockstep::nn
