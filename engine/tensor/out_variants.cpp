// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/plain_guard.h"
#include "engine/tensor/run.h"
#include "engine/tensor/timeline_log.h"
#include "engine/world/bits.h"

namespace lockstep {
namespace {

// An op that draws into out in the order of its memory fills it as its functional overload fills the result.
void check_memory_of_out(const Dispatched& d, const at::Tensor& out) {
  const auto order = d.resolved.entry->memory_of_out;
  if (order == OutMemory::kAny || out.numel() == 0) return;
  const bool fits =
      order == OutMemory::kContiguous ? out.is_contiguous() : out.strides() == d.call.tensors[0].strides();
  if (!fits)
    refuse(Refusal::kOut, d,
           concat("draws in the order of out's memory, and out has strides ", out.strides(), "; "),
           "pass an empty out, or copy_ the functional op's result");
}

// What out.copy_(value) does. In the result's own placements nothing is to be decided; a timeline wants the
// op.
void write(const at::Tensor& out, const at::Tensor& value) {
  const auto &to = *dtensor_impl(out), &from = *dtensor_impl(value);
  if (current_timeline() != nullptr || !(*to.spec() == *from.spec())) {
    out.copy_(value);
    return;
  }
  const PlainGuard guard;
  for (size_t r = 0; r < to.locals().size(); ++r) copy_bits(to.locals()[r], from.locals()[r]);
}

}  // namespace

void run_out(const Dispatched& d, torch::jit::Stack& stack) {
  const auto outs = mutated_tensors(d);
  const size_t n = d.args.size() - outs.size();
  check_memory_of_out(d, outs.back());
  const auto& functional = d.resolved.functional;
  if (!functional.has_value())
    refuse(Refusal::kOut, d, "has no functional overload to run; ", "call the functional op");
  torch::jit::Stack inner(d.args.begin(), d.args.begin() + static_cast<int64_t>(n));
  functional->callBoxed(inner);
  for (size_t j = 0; j < outs.size(); ++j) {
    const auto value = inner[j].toTensor();
    auto* out = dtensor_impl(outs[j]);
    if (outs[j].sizes() == value.sizes()) {
      write(outs[j], value);
    } else {
      if (outs[j].numel() != 0 || outs[j].scalar_type() != value.scalar_type())
        refuse(Refusal::kOut, d,
               concat("out has shape ", outs[j].sizes(), " and the result ", value.sizes(), "; "),
               "pass an empty out of the same dtype, or one of the result's shape");
      out->reset(dtensor_impl(value)->spec(), dtensor_impl(value)->locals());
    }
    stack.emplace_back(outs[j]);
  }
}

}  // namespace lockstep
