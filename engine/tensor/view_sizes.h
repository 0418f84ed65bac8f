// SPDX-License-Identifier: Apache-2.0
// The sizes that a program gives to views are those of whole tensors. Seen once, on DTensors, the same program
// runs on what a rank has of them: there each is given the rank's own.
#pragma once
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string>
#include <vector>

#include "engine/values/per_rank.h"

namespace lockstep {

// A call of an op that is given sizes: view, reshape, expand, unflatten, new_zeros and their like.
struct SizedCall {
  std::string op;
  std::vector<int64_t> asked;
  PerRank<std::vector<int64_t>> own;  // what each hosted rank is to ask
};

// While alive, such calls of this thread pass here, above autograd, as the program makes them. One that is
// made of others stands for them.
class ViewSizes {
 public:
  ViewSizes();
  ~ViewSizes();
  ViewSizes(const ViewSizes&) = delete;
  ViewSizes& operator=(const ViewSizes&) = delete;

  // Whose calls they are at the moment.
  struct Turn {
    std::vector<SizedCall>* calls = nullptr;  // null: they pass as they are
    int64_t rank = -1;                        // of the hosted ones: its calls are those, in turn; -1: DTensors, and
                                              // their calls are appended
    size_t next = 0;
  };
  Turn turn;

 private:
  ViewSizes* outer_;
  c10::impl::IncludeDispatchKeyGuard include_;
};

}  // namespace lockstep
