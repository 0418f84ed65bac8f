// SPDX-License-Identifier: Apache-2.0
// What the hosted ranks of a group gather is put together once, and its storage shared until a rank writes to
// it. A rank that other bits have come to keeps what it was given: nothing is taken for granted.
#pragma once
#include <functional>
#include <optional>

#include "engine/values/per_rank.h"
#include "engine/world/collectives.h"

namespace lockstep {

// What one rank puts together: the whole, and views of it by place, the last of which may be left out if
// empty.
struct Whole {
  at::Tensor local;
  Buffers pieces;
};

class Gathering {
 public:
  // `make(i)`: a whole that is not filled yet, for hosted rank i. The references outlive this.
  Gathering(const Groups& groups, const PerRank<at::Tensor>& sent, std::function<Whole(size_t i)> make);

  // For each hosted rank, tensors of the forms that it receives, by place.
  PerRank<const Buffers*> forms() const;
  // The k-th piece of those with elements, for hosted rank i.
  void arrive(size_t i, size_t k, const at::Tensor& piece);
  PerRank<at::Tensor> result() &&;

 private:
  // How a piece came to the first rank of a group.
  enum class Came { kNot, kAsSent, kOther };
  struct Lead {
    std::vector<size_t> places;           // of the pieces with elements
    std::vector<const at::Tensor*> sent;  // by place; null: by a rank that is not hosted here
    std::vector<Came> came;               // by place
  };

  bool has_come(size_t first, size_t place, const at::Tensor& piece) const;
  void part(size_t i, size_t place);

  const std::function<Whole(size_t i)> make_;
  PerRank<size_t> first_;                 // the first hosted rank of its group
  PerRank<std::optional<Whole>> wholes_;  // of first ranks, and of those that have parted from theirs
  PerRank<Lead> leads_;                   // of first ranks
};

}  // namespace lockstep
