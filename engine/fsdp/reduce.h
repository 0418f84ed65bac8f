// SPDX-License-Identifier: Apache-2.0
// The reduction of a group's gradients into its shards: one exchange for each mesh dimension.
#pragma once
#include <memory>
#include <optional>

#include "engine/fsdp/dbuffer.h"

namespace lockstep::fsdp {

class Reduction;

// Gradients on their way, over one mesh dimension after the other.
class Reducing {
 public:
  explicit Reducing(std::shared_ptr<Reduction> reduction, std::optional<Work> begun = std::nullopt);
  // Waits for the exchange that has begun, and begins the next one. False: there is none, and the gradients
  // are there.
  bool go_on();
  void finish() {
    while (go_on()) continue;
  }
  // Waits for the exchange that has begun, and begins none: the gradients will not be there.
  void stop();
  // At the end, for each tensor of the group its gradient as sharded(i) is placed, undefined where none was
  // given. Those of terms are parts of one memory like the shards, whose padding is NaN.
  const std::vector<at::Tensor>& gradients() const;

 private:
  const std::shared_ptr<Reduction> reduction_;
  std::optional<Work> begun_;
};

// The same terms in another dtype, also of a sum that pends, which dispatch would make first, in the
// gradient's own dtype.
at::Tensor cast_terms(const at::Tensor& gradient, c10::ScalarType dtype);

// Gradients that reduce() brought, in another dtype, in one memory like the shards; undefined ones stay so.
std::vector<at::Tensor> cast_reduced(const DBuffer& buffer, const std::vector<at::Tensor>& gradients,
                                     c10::ScalarType dtype);

// Begins to bring gradients to where the group's tensors are cut, in the dtype that each has. Law: each comes
// out as redistribute brings it there, but for the order in which it is reduced over several mesh dimensions:
// over the buffer's first, in rank order, then over the others, of which by then there is only a shard. Each
// is logged as such.
// @param across over the others too; false: what pends along them does so still
// @pre gradients.size() is that of the group; they are of whole(i)'s shape
Reducing reduce(const DBuffer& buffer, const std::vector<at::Tensor>& gradients, bool across = true);
// The rest of what reduce() has left to pend, or sums of such.
std::vector<at::Tensor> reduce_across(const DBuffer& buffer, const std::vector<at::Tensor>& gradients);

}  // namespace lockstep::fsdp
