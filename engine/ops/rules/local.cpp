// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/rules/local.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/layout/layout.h"
#include "engine/move/execute.h"
#include "engine/ops/rules/families.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/ragged.h"

namespace lockstep::local {
namespace {

using torch::jit::Stack;

void set_results(Stack& stack, at::Tensor result) {
  stack.clear();
  stack.emplace_back(std::move(result));
}

const Partial* pending(const LocalCall& c) {
  for (const auto& p : c.outputs[0]->placements())
    if (const auto* partial = std::get_if<Partial>(&p)) return partial;
  return nullptr;
}

// Whether the whole tensor has no element along any dimension: then the stock result of nothing is the
// answer.
bool globally_empty(const TensorMeta& meta) {
  return std::find(meta.shape.begin(), meta.shape.end(), 0) != meta.shape.end();
}

bool flat_output(const LocalCall& c) {
  return !c.outputs.empty() && c.outputs[0] != nullptr && is_flat(*c.outputs[0]);
}

at::Tensor full_of(const LocalCall& c, const at::Scalar& value) {
  return empty_local(*c.outputs[0], local_shape(*c.outputs[0], c.position)).fill_(value);
}

// Which indices no rank has a row for. On the CPU that is an error here; on other devices, whose values are
// not asked for, they reach the kernel as they are, and it asserts.
at::Tensor beyond_table(const LocalCall& c, const at::Tensor& indices) {
  const int64_t rows = c.call.inputs[0].shape[0];
  auto beyond = at::bitwise_or(indices.lt(0), indices.ge(rows));
  if (beyond.is_cpu() && beyond.any().item<bool>())
    throw Error(concat("[", c.op.operator_name(), "] index ",
                       indices.masked_select(beyond)[0].item<int64_t>(), " is not a row of the table ",
                       *c.inputs[0], "; its indices go from 0 to ", rows - 1));
  return beyond;
}

}  // namespace

void stock(const LocalCall& c, Stack& stack) {
  if (!flat_output(c)) return c.op.callBoxed(stack);
  // It has no dimensions to put in another memory order.
  if (const auto format = c.op.schema().argumentIndexWithName("memory_format"))
    stack[as_size(*format)] = c10::IValue();
  // Of one element, what meets a flat local has no more dimensions than that.
  for (auto& value : stack)
    if (value.isTensor() && value.toTensor().dim() > 1 && value.toTensor().numel() <= 1)
      value = value.toTensor().flatten();
  c.op.callBoxed(stack);
}

// Two operands that are what one rank has of these.
static void as_of_many(at::Tensor& a, const SpecPtr& of_a, at::Tensor& b, const SpecPtr& of_b) {
  const auto dtype = at::result_type(a, b);
  if (!at::isReducedFloatingType(dtype)) return;
  const auto convert = [dtype](at::Tensor& local, const SpecPtr& of) {
    if (of != nullptr && of->numel() != 1 && local.numel() == 1 && local.scalar_type() != dtype)
      local = local.to(dtype);
  };
  convert(a, of_a);
  convert(b, of_b);
}

// Arithmetic of halves takes one element of another dtype as it is, and several in halves: so one of several,
// too. Arithmetic of a wider dtype that is written to a half is none of halves.
void as_one_of_many(const LocalCall& c, Stack& stack) {
  if (stack[0].isTensor() && stack[1].isTensor()) {
    auto a = stack[0].toTensor(), b = stack[1].toTensor();
    as_of_many(a, c.inputs[0], b, c.inputs[1]);
    stack[0] = a, stack[1] = b;
  } else if (stack[0].isTensorList() && stack[1].isTensor()) {
    auto a = stack[0].toTensorVector();
    auto b = stack[1].toTensor();
    for (size_t i = 0; i < a.size(); ++i) as_of_many(a[i], c.inputs[i], b, nullptr);
    stack[0] = a;
  } else if (stack[0].isTensorList() && stack[1].isTensorList()) {
    auto a = stack[0].toTensorVector(), b = stack[1].toTensorVector();
    for (size_t i = 0; i < a.size(); ++i) as_of_many(a[i], c.inputs[i], b[i], c.inputs[a.size() + i]);
    stack[0] = a, stack[1] = b;
  }
  stock(c, stack);
}

void sized(const LocalCall& c, Stack& stack) {
  stack[c.call.args.position("size")] = local_shape(*c.outputs[0], c.position);
  c.op.callBoxed(stack);
}

void sized_as_input(const LocalCall& c, Stack& stack) {
  stack[c.call.args.position("input_sizes")] = local_shape(*c.outputs[0], c.position);
  c.op.callBoxed(stack);
}

void sized_and_strided(const LocalCall& c, Stack& stack) {
  const auto shape = local_shape(*c.outputs[0], c.position);
  if (flat_output(c)) stack[c.call.args.position("stride")] = contiguous_strides(shape);
  sized(c, stack);
}

static void set_views(const LocalCall& c, Stack& stack, std::vector<at::Tensor> views) {
  if (c.op.schema().returns()[0].type()->kind() != c10::TypeKind::ListType)
    return set_results(stack, views.at(0));
  stack.clear();
  stack.emplace_back(std::move(views));
}

void view(const LocalCall& c, Stack& stack) {
  if (!flat_output(c)) return c.op.callBoxed(stack);
  set_views(c, stack, {stack[0].toTensor().alias()});
}

// The results have neighbours of the first dimension's indices.
void blocks(const LocalCall& c, Stack& stack) {
  if (!flat_output(c)) return c.op.callBoxed(stack);
  const auto& whole = c.call.inputs[0];
  const auto local = stack[0].toTensor();
  const auto input = owned_by(*c.inputs[0], c.position);
  int64_t of_index = 1;
  for (size_t d = 1; d < input.lists.size(); ++d) of_index *= length(input.lists[d]);
  std::vector<at::Tensor> parts;
  for (size_t j = 0; j < c.outputs.size(); ++j) {
    const auto& result = c.call.outputs[j];
    const int64_t start = whole.stride[0] == 0 ? 0 : result.offset / whole.stride[0];
    const int64_t before = std::clamp<int64_t>(start * of_index - input.flat->start, 0, local.numel());
    parts.push_back(local.narrow(0, before, local_shape(*c.outputs[j], c.position)[0]));
  }
  set_views(c, stack, std::move(parts));
}

void squeeze(const LocalCall& c, Stack& stack) {
  if (flat_output(c)) return view(c, stack);
  set_results(stack, at::squeeze(stack[0].toTensor(), rules::squeezed_dims(c.call)));
}

void as_view(const LocalCall& c, Stack& stack) {
  set_results(stack, stack[0].toTensor().view(local_shape(*c.outputs[0], c.position)));
}

void as_strided(const LocalCall& c, Stack& stack) {
  const auto local = stack[0].toTensor();
  const auto& placements = c.inputs[0]->placements();
  if (std::any_of(placements.begin(), placements.end(), distributes))
    return set_results(stack, local.alias());
  // The whole tensor, which may lie at another place in this rank's memory.
  const auto& offset = c.call.args["storage_offset"];
  const int64_t further = offset.isNone() ? 0 : offset.toInt() - c.call.inputs[0].offset;
  set_results(stack, local.as_strided(c.call.integers("size"), c.call.integers("stride"),
                                      local.storage_offset() + further));
}

// That the whole call is one that the kernel takes was found out when its results were inferred.
void unless_empty(const LocalCall& c, Stack& stack) {
  Stack results;
  for (const auto& output : c.outputs) {
    const auto shape = local_shape(*output, c.position);
    if (c10::multiply_integers(shape) > 0) return c.op.callBoxed(stack);
    results.emplace_back(empty_local(*output, shape));
  }
  stack = std::move(results);
}

void filled(const LocalCall& c, Stack& stack) {
  const bool made = c.call.args.find("fill_value") != nullptr;
  const auto& value = stack[c.call.args.position(made ? "fill_value" : "value")];
  if (c.outputs[0]->numel() != 1 && value.isScalar() &&
      c10::multiply_integers(local_shape(*c.outputs[0], c.position)) <= 1)
    at::empty({0}, at::dtype(c.outputs[0]->dtype())).fill_(value.toScalar());
  unless_empty(c, stack);
}

void sized_filled(const LocalCall& c, Stack& stack) {
  stack[c.call.args.position("size")] = local_shape(*c.outputs[0], c.position);
  filled(c, stack);
}

// The shape of a flat local with its rows as first dimension; how many there are of no elements the result
// knows.
static std::vector<int64_t> shape_of_rows(const LocalCall& c, size_t leading) {
  const auto input = owned_by(*c.inputs[0], c.position), output = owned_by(*c.outputs[0], c.position);
  int64_t per_row = 1;
  for (size_t d = leading; d < output.lists.size(); ++d) per_row *= length(output.lists[d]);
  std::vector<int64_t> shape{per_row == 0 ? 0 : output.flat->length / per_row};
  for (size_t d = leading; d < input.lists.size(); ++d) shape.push_back(length(input.lists[d]));
  return shape;
}

void within_rows(const LocalCall& c, Stack& stack) {
  if (!flat_output(c)) return c.op.callBoxed(stack);
  if (c10::multiply_integers(local_shape(*c.outputs[0], c.position)) == 0) return unless_empty(c, stack);
  const auto& placements = c.inputs[0]->placements();
  const auto& ragged = std::get<RaggedShard>(placements[as_size(ragged_dim(placements))]);
  const auto shift = [&](int64_t dim) { return dim < 0 ? dim : dim - std::ssize(ragged.dims) + 1; };
  stack[0] = stack[0].toTensor().view(shape_of_rows(c, ragged.dims.size()));
  auto& dim = stack[c.call.args.position("dim")];
  if (dim.isInt()) {
    dim = shift(dim.toInt());
  } else {
    auto dims = dim.toIntVector();
    std::transform(dims.begin(), dims.end(), dims.begin(), shift);
    dim = std::move(dims);
  }
  c.op.callBoxed(stack);
  for (size_t j = 0; j < c.outputs.size(); ++j)
    stack[j] = stack[j].toTensor().reshape(local_shape(*c.outputs[j], c.position));
}

// A flat local has one dimension, and all of it is reduced.
static void flat_reduction(const LocalCall& c, Stack& stack) {
  if (const auto dim = c.op.schema().argumentIndexWithName("dim"))
    stack[as_size(*dim)] =
        stack[as_size(*dim)].isInt() ? c10::IValue(0) : c10::IValue(std::vector<int64_t>{0});
  c.op.callBoxed(stack);
  set_results(stack, stack[0].toTensor().view(local_shape(*c.outputs[0], c.position)));
}

void reduction(const LocalCall& c, Stack& stack) {
  const auto* partial = pending(c);
  const auto& input = stack[0].toTensor();
  if (partial == nullptr || input.numel() > 0 || globally_empty(c.call.inputs[0]))
    return is_flat(*c.inputs[0]) && !flat_output(c) ? flat_reduction(c, stack) : within_rows(c, stack);
  // Reduced over no element at all: only the identity leaves the other ranks' terms as they are.
  Stack identities;
  for (const auto& output : c.outputs)
    identities.emplace_back(
        empty_local(*output, local_shape(*output, c.position)).fill_(identity(partial->op, output->dtype())));
  stack = std::move(identities);
}

void contraction(const LocalCall& c, Stack& stack) {
  const auto* partial = pending(c);
  const auto& last = stack[stack.size() > 2 && stack[2].isTensor() ? 1 : 0].toTensor();
  const bool nothing = last.dim() > 0 && last.size(-1) == 0;
  if (partial == nullptr || !nothing || globally_empty(c.call.inputs.back())) return c.op.callBoxed(stack);
  // The term to be added, if there is one, still counts.
  if (stack.size() > 2 && stack[2].isTensor() && stack[0].toTensor().numel() > 0)
    return c.op.callBoxed(stack);
  set_results(stack, full_of(c, identity(ReduceOp::kSum, c.outputs[0]->dtype())));
}

void embedding(const LocalCall& c, Stack& stack) {
  if (pending(c) == nullptr) return c.op.callBoxed(stack);
  const auto weight = stack[0].toTensor();
  const auto indices = stack[1].toTensor();
  const auto rows = owned_by(*c.inputs[0], c.position).lists[0];
  const auto beyond = beyond_table(c, indices);
  auto result = full_of(c, identity(ReduceOp::kSum, c.outputs[0]->dtype()));
  int64_t at = 0;
  for (const auto& owned : rows) {
    const auto mine = at::bitwise_and(indices.ge(owned.start), indices.lt(owned.start + owned.length));
    const auto others = at::bitwise_or(mine, beyond).bitwise_not();
    const auto where = (indices - (owned.start - at)).masked_fill(others, 0);
    result = at::where(mine.unsqueeze(-1), at::embedding(weight, where), result);
    at += owned.length;
  }
  set_results(stack, result.contiguous());
}

}  // namespace lockstep::local
