// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Reduction.h>

#include <set>

#include "engine/move/execute.h"
#include "engine/ops/rules/laid_out.h"
#include "engine/tensor/plain_guard.h"
#include "engine/tensor/run.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/as_size.h"
#include "engine/world/bits.h"

namespace lockstep {
namespace {

// An op that fills out in the order of its memory fills it as its functional overload fills the result.
void check_memory_of_out(const Dispatched& d, const at::Tensor& out) {
  const auto order = d.resolved.entry == nullptr ? OutMemory::kAny : d.resolved.entry->memory_of_out;
  if (order == OutMemory::kAny || out.numel() == 0) return;
  const bool fits =
      order == OutMemory::kContiguous ? out.is_contiguous() : out.strides() == d.call.tensors[0].strides();
  if (!fits)
    refuse(Refusal::kOut, d,
           concat("fills out's memory in an order of its own, and out has strides ", out.strides(), "; "),
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

// What has no argument for the dtype in which it sums, and sums in that of out.
bool sums_as_out(const std::string& op, const torch::jit::Stack& stack) {
  if (op == "aten::mse_loss") return stack[2].toInt() != at::Reduction::None;
  return op == "aten::logsumexp" || op == "aten::std" || op == "aten::var";
}

// The dtype of the result that the op gives by itself.
c10::ScalarType dtype_alone(const torch::jit::Stack& stack) {
  auto dtype = stack[0].toTensor().scalar_type();
  if (stack[1].isTensor()) dtype = at::result_type(stack[0].toTensor(), stack[1].toTensor());
  return at::isFloatingType(dtype) ? dtype : at::kFloat;
}

// Where an op may choose the dtype in which it sums, an out variant sums in that of out.
void choose_dtype(const c10::FunctionSchema& functional, const at::Tensor& out, torch::jit::Stack& stack) {
  const auto dtype = functional.argumentIndexWithName("dtype");
  if (dtype.has_value() && stack[as_size(*dtype)].isNone()) stack[as_size(*dtype)] = out.scalar_type();
  if (sums_as_out(functional.name(), stack) && out.scalar_type() != dtype_alone(stack))
    throw NotBuilt(concat("[", functional.name(), ".out] libtorch sums in the dtype of out, ",
                          out.scalar_type(), ", which is not built for DTensors whose result is ",
                          dtype_alone(stack), "; convert the operands first, or pass an out of that dtype"));
}

// Contiguous, in memory that nothing else has: _unsafe_view gives that of its operand.
at::Tensor own_contiguous(const at::Tensor& local) {
  return local.storage().use_count() > 1 ? local.clone(at::MemoryFormat::Contiguous) : local.contiguous();
}

// Whether libtorch generates the out variant from the functional op: all backends have it, and nobody wrote
// it.
bool is_generated(const c10::OperatorHandle& op) {
  static const std::set<std::string> by_hand = {"aten::bitwise_and.Scalar_out",
                                                "aten::bitwise_left_shift.Tensor_Scalar_out",
                                                "aten::bitwise_or.Scalar_out",
                                                "aten::bitwise_right_shift.Tensor_Scalar_out",
                                                "aten::bitwise_xor.Scalar_out",
                                                "aten::copysign.Scalar_out",
                                                "aten::deg2rad.out",
                                                "aten::fmod.Scalar_out",
                                                "aten::ldexp.out",
                                                "aten::rad2deg.out",
                                                "aten::remainder.Scalar_out",
                                                "aten::soft_margin_loss_backward.grad_input",
                                                "aten::sort.values",
                                                "aten::xlogy.OutScalar_Other",
                                                "aten::xlogy.OutScalar_Self"};
  const auto& schema = op.schema();
  const bool special =
      schema.name().starts_with("aten::special_") && schema.overload_name().ends_with("scalar_out");
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) && !special &&
         !by_hand.contains(c10::toString(op.operator_name()));
}

// An empty out of these lies as their operands do, the first after the others; the functional result as the
// first, or contiguous, where the others do not make it larger.
bool lies_as_operands(const c10::OperatorHandle& op) {
  static const std::set<std::string> names = {"aten::huber_loss_backward", "aten::log_sigmoid_backward",
                                              "aten::mse_loss_backward", "aten::smooth_l1_loss_backward"};
  return names.contains(op.schema().name());
}

std::vector<int64_t> strides_as_operands(const Dispatched& d) {
  const auto& t = d.call.tensors;
  const bool asks_no_buffer =
      d.op.schema().name() == "aten::log_sigmoid_backward" && d.call.comm->mesh.device_type() == c10::kCUDA;
  return laid_out_by(t[1], t[asks_no_buffer ? 1 : 2], t[0]).strides().vec();
}

// Integers have nothing to replace, and are copied into an out of their size.
bool copies_integers(const Dispatched& d) {
  return d.op.schema().name() == "aten::nan_to_num" &&
         at::isIntegralType(d.call.tensors[0].scalar_type(), /*includeBool=*/true);
}

// An empty out becomes the result. A generated out variant makes it contiguous.
void take_over(const Dispatched& d, DTensorImpl& out, const DTensorImpl& value) {
  const PlainGuard guard;
  const Spec& its = *value.spec();
  const bool as_operands = lies_as_operands(d.op);
  if (!as_operands && !is_generated(d.op) && !copies_integers(d))
    return out.reset(value.spec(), value.locals());
  const auto strides = as_operands ? strides_as_operands(d) : contiguous_strides(its.shape());
  const auto spec = std::make_shared<const Spec>(its.with_tensor(its.shape(), strides, its.dtype()));
  PerRank<at::Tensor> locals;
  for (const auto& local : value.locals()) locals.push_back(own_contiguous(local));
  conform_all(locals, *spec);
  out.reset(spec, std::move(locals));
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
  choose_dtype(functional->schema(), outs[0], inner);
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
      take_over(d, *out, *dtensor_impl(value));
    }
    stack.emplace_back(outs[j]);
  }
}

}  // namespace lockstep
