// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/replay.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/ragged.h"
#include "oracle/ownership/in_host.h"
#include "oracle/ownership/reduce.h"
#include "oracle/plain/device_call.h"
#include "oracle/plain/dropped.h"
#include "oracle/plain/float64_call.h"
#include "oracle/plain/hosted_source.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::oracle {
namespace {

using torch::jit::Stack;

bool same_memory(const Window& a, const Window& b) {
  return a.defined() && b.defined() && a.id() == b.id();
}

Tensors collect(const std::vector<Effect>& effects, const Tensors& results, const Tensors& inputs) {
  Tensors tensors;
  for (const Effect& e : effects)
    tensors.push_back(e.result >= 0 ? results.at(as_size(e.result)) : inputs.at(as_size(e.input)));
  return tensors;
}

bool is_any(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// native_dropout on other values: the mask is the plain run's, handed in after the inputs.
Tensors dropped(const RecordedOp& op, const Tensors& inputs) {
  const at::Tensor& mask = inputs.at(1);
  if (op.args.at(2).isBool() && !op.args[2].toBool()) return {inputs[0].clone(), mask};
  if (op.args.at(1).toDouble() == 1) return {at::zeros_like(inputs[0]), mask};
  const auto there = [&](const at::Tensor& t) { return on_device(op.device, t); };
  return {in_host(dropped_by(there(mask), there(inputs.at(0)), op.args.at(1).toDouble())), mask};
}

// What asks for no kernel's bits asks the CPU's, where it has one.
c10::Device device_of_float64(const RecordedOp& op) {
  return op.op->on_cuda_alone ? op.device : c10::Device(at::kCPU);
}

// ---- one rank ----

const Partial* pending(const SpecPtr& spec) {
  if (!spec) return nullptr;
  for (const Placement& p : spec->placements())
    if (const auto* partial = std::get_if<Partial>(&p)) return partial;
  return nullptr;
}

at::Tensor filled(const Locality& where, ReduceOp op) {
  const Spec& spec = *where.outputs.at(0);
  const bool widened = where.float64 && c10::isFloatingType(spec.dtype());
  const auto dtype = widened ? c10::ScalarType::Double : spec.dtype();
  return at::full(local_shape(spec, where.position), identity(op, dtype), at::TensorOptions(dtype));
}

bool reduces(std::string_view name) {
  return is_any(name, {"aten::sum", "aten::mean", "aten::prod", "aten::amax", "aten::amin", "aten::max",
                       "aten::min", "aten::any", "aten::all"});
}

// The rank's sum has no element, and others' have: its term must leave theirs as they are.
bool sums_nothing(std::string_view name, const RecordedOp& op, const Tensors& inputs) {
  for (const Window& whole : op.inputs)
    if (whole.defined() && whole.numel() == 0) return false;
  if (reduces(name)) return inputs[0].numel() == 0;
  const bool adds = is_any(name, {"aten::addmm", "aten::baddbmm"});
  if (!adds && !is_any(name, {"aten::mm", "aten::bmm", "aten::mv", "aten::dot"})) return false;
  if (adds && inputs[0].numel() > 0) return false;
  const at::Tensor& left = inputs[adds ? 1 : 0];
  return left.dim() > 0 && left.size(-1) == 0;
}

// All elements of what is cut flat become one.
bool reduces_flat(std::string_view name, const Locality& where) {
  const SpecPtr& input = where.inputs.at(0);
  return reduces(name) && input && lockstep::has_ragged(input->placements()) &&
         where.outputs.at(0)->numel() == 1;
}

// Of one tensor, whose flat slice has whole rows: what each row gives lies as the row does.
bool reduces_rows(std::string_view name, const Locality& where) {
  const SpecPtr &input = where.inputs.at(0), &output = where.outputs.at(0);
  const bool is_one = reduces(name) ||
                      is_any(name, {"aten::argmax", "aten::argmin", "aten::logsumexp", "aten::var",
                                    "aten::var_mean", "aten::std", "aten::linalg_vector_norm", "aten::norm"});
  return is_one && where.inputs.size() == 1 && input && output && lockstep::has_ragged(input->placements()) &&
         lockstep::has_ragged(output->placements());
}

// The rows of a flat slice are its first dimension, instead of the first few of the whole.
Stack in_rows(const RecordedOp& op, Stack stack, const Locality& where) {
  const auto& placements = where.inputs[0]->placements();
  const auto together =
      std::ssize(std::get<RaggedShard>(placements[as_size(lockstep::ragged_dim(placements))]).dims);
  std::vector<int64_t> shape;
  int64_t results = 1;
  const Share from = owned(*where.inputs[0], where.position), to = owned(*where.outputs[0], where.position);
  for (int64_t d = together; d < std::ssize(from.lists); ++d)
    shape.push_back(std::ssize(from.lists[as_size(d)]));
  for (int64_t d = together; d < std::ssize(to.lists); ++d) results *= std::ssize(to.lists[as_size(d)]);
  shape.insert(shape.begin(), results == 0 ? 0 : (to.run->end - to.run->begin) / results);
  for (size_t a = 0; a < stack.size(); ++a) {
    if (stack[a].isTensor()) stack[a] = stack[a].toTensor().reshape(shape);
    if (op.op->args.at(a).name != "dim") continue;
    const auto later = [&](int64_t d) { return d < 0 ? d : d - together + 1; };
    if (stack[a].isInt()) {
      stack[a] = later(stack[a].toInt());
    } else {
      std::vector<int64_t> dims;
      for (const int64_t d : stack[a].toIntVector()) dims.push_back(later(d));
      stack[a] = dims;
    }
  }
  return stack;
}

// The elements of what a flat slice is a run of, and its place among them.
std::pair<std::vector<int64_t>, Run> box_of(const Spec& spec, int64_t position) {
  const Share share = owned(spec, position);
  std::vector<int64_t> shape;
  for (const Indices& list : share.lists) shape.push_back(std::ssize(list));
  return {shape, *share.run};
}

// Neighbours of the first dimension's indices of what is cut flat, which stay cut so.
bool cuts_flat(std::string_view name, const RecordedOp& op, const Locality& where) {
  const SpecPtr &input = where.inputs.at(0), &output = where.outputs.at(0);
  if (!is_any(name, {"aten::slice", "aten::split", "aten::split_with_sizes"}) || !input || !output ||
      !lockstep::has_ragged(input->placements()) || !lockstep::has_ragged(output->placements()))
    return false;
  for (size_t a = 0; a < op.args.size(); ++a) {
    const auto& arg = op.op->args[a].name;
    if (arg == "dim" && op.args[a].toInt() != 0 && op.args[a].toInt() != -input->ndim()) return false;
    if (arg == "step" && op.args[a].toInt() != 1 && output->shape()[0] > 1) return false;
  }
  return true;
}

// An op that looks at tiles, whole matrices or indices: on all that the other placements leave, of which this
// rank knows its slice and takes the rest for zeros.
Tensors in_box(const RecordedOp& op, Stack stack, const Locality& where, c10::Device device) {
  size_t input = 0;
  for (c10::IValue& value : stack) {
    if (!value.isTensor()) continue;
    const SpecPtr& spec = where.inputs.at(input++);
    if (!spec || !lockstep::has_ragged(spec->placements())) continue;
    const auto [shape, run] = box_of(*spec, where.position);
    const at::Tensor box = at::zeros(shape, value.toTensor().options());
    box.flatten().slice(0, run.begin, run.end).copy_(value.toTensor());
    value = box;
  }
  Tensors results = call_on(device, *op.op, stack);
  for (size_t r = 0; r < results.size(); ++r) {
    const SpecPtr& spec = where.outputs.at(r);
    if (!spec || !lockstep::has_ragged(spec->placements())) continue;
    const Run run = box_of(*spec, where.position).second;
    results[r] = results[r].flatten().slice(0, run.begin, run.end).clone();
  }
  return results;
}

// Which rows of the whole tensor a rank holds, and which ones the other placements leave to those that share
// a flat one.
struct HeldRows {
  Indices own, box;
  int64_t width = 0;
};
HeldRows rows_of(const Spec& spec, int64_t position) {
  const Share share = owned(spec, position);
  HeldRows held{share.lists[0], share.lists[0], std::ssize(share.lists[1])};
  if (!share.run.has_value()) return held;
  if (held.width == 0) {  // as with features enough for each rank to have one
    const std::vector<int64_t> wider{spec.shape()[0], spec.mesh().size()};
    held.own = rows_of(spec.with_tensor(wider, contiguous_strides(wider), spec.dtype()), position).own;
    return held;
  }
  held.own.clear();
  for (int64_t at = share.run->begin; at < share.run->end; at += held.width)
    held.own.push_back(held.box[as_size(at / held.width)]);
  return held;
}

// A grouped product (kernels/operators/experts.h) of a rank's rows: of each block that is left to it, as many
// rows as it holds of each of its experts.
Tensors of_experts(const RecordedOp& op, Stack stack, const Locality& where, c10::Device device) {
  const auto counts = stack.at(2).toIntVector();
  const int64_t blocks = stack.at(3).toInt(), experts = std::ssize(counts) / blocks;
  const bool of_weight = where.outputs.at(0)->shape().size() == 3;
  const HeldRows rows = rows_of(*where.inputs.at(0), where.position);
  const Spec& weights = of_weight ? *where.outputs[0] : *where.inputs.at(1);
  const Indices mine = owned(weights, where.position).lists[0];
  const auto within = [](const Indices& list, int64_t begin, int64_t end) {
    return std::count_if(list.begin(), list.end(), [&](int64_t row) { return row >= begin && row < end; });
  };
  const bool all = std::ssize(rows.box) == where.inputs[0]->shape()[0];
  std::vector<int64_t> local;
  int64_t left = 0, begin = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    const auto first = counts.begin() + b * experts;
    const int64_t end = std::accumulate(first, first + experts, begin);
    const bool is_left = all || within(rows.box, begin, end) > 0;
    left += is_left ? 1 : 0;
    for (int64_t e = 0; e < experts; ++e) {
      const int64_t of_expert = first[e];
      if (is_left && std::binary_search(mine.begin(), mine.end(), e))
        local.push_back(within(rows.own, begin, begin + of_expert));
      begin += of_expert;
    }
  }
  const int64_t held = std::ssize(rows.own);
  stack[0] = stack[0].toTensor().reshape({held, rows.width});
  if (of_weight)
    stack[1] = stack[1].toTensor().reshape({held, rows_of(*where.inputs.at(1), where.position).width});
  stack[2] = local;
  stack[3] = left;
  Tensors results = call_on(device, *op.op, stack);
  if (!of_weight && rows.width == 0 && where.inputs[0]->shape()[1] > 0)
    results[0] = filled(where, ReduceOp::kSum);
  results[0] = results[0].reshape(local_shape(*where.outputs[0], where.position));
  return results;
}

// The reduction of a flat slice, which has one dimension.
at::Tensor of_all(const RecordedOp& op, Stack stack, c10::Device device) {
  for (size_t a = 0; a < stack.size(); ++a)
    if (op.op->args.at(a).name == "dim")
      stack[a] = stack[a].isInt() ? c10::IValue(0) : c10::IValue(std::vector<int64_t>{0});
  return call_on(device, *op.op, stack).at(0);
}

// Rows of the table by their global number; those that other ranks hold are -0.0.
at::Tensor embed_rows(const Tensors& inputs, const Locality& where) {
  const at::Tensor &table = inputs[0], &wanted = inputs[1];
  const Indices rows = owned(*where.inputs[0], where.position).lists[0];
  at::Tensor result = filled(where, ReduceOp::kSum);
  for (size_t r = 0; r < rows.size(); ++r) {
    const at::Tensor here = at::eq(wanted, rows[r]).unsqueeze(-1);
    result = at::where(here, table[static_cast<int64_t>(r)], result);
  }
  return result;
}

constexpr std::array<std::string_view, 9> kSizesAtOne = {
    "aten::new_zeros",       "aten::new_ones",       "aten::new_full", "aten::new_empty",
    "aten::select_backward", "aten::slice_backward", "aten::expand",   kView,
    "aten::_unsafe_view"};

}  // namespace

std::vector<Effect> effects(const RecordedOp& op) {
  std::vector<Effect> list;
  std::vector<bool> covered(op.inputs.size(), false);
  for (size_t r = 0; r < op.results.size(); ++r) {
    Effect e{.window = op.results[r], .result = static_cast<int64_t>(r)};
    for (size_t i = 0; i < op.inputs.size() && e.input < 0; ++i)
      if (same_memory(op.inputs[i], e.window)) e.input = static_cast<int64_t>(i);
    for (const size_t i : op.written) {
      if (!same_memory(op.inputs[i], e.window) || covered[i]) continue;
      e.input = static_cast<int64_t>(i);
      e.written = covered[i] = true;
      break;
    }
    list.push_back(std::move(e));
  }
  for (const size_t i : op.written) {
    if (covered[i]) continue;
    Effect e{.window = op.inputs[i], .input = static_cast<int64_t>(i), .written = true};
    for (const size_t other : op.written)
      e.window.epoch += same_memory(op.inputs[other], op.inputs[i]) ? 1 : 0;
    list.push_back(std::move(e));
  }
  return list;
}

bool returns_view(const RecordedOp& op, const Effect& effect) {
  return effect.result >= 0 && op.op->handle.schema().returns().at(0).alias_info() != nullptr;
}

bool keeps_order(const RecordedOp& op, const std::vector<Effect>& effects) {
  if (effects.size() != 1 || effects[0].input != 0 || op.inputs.size() != 1) return false;
  const bool is_view = !effects[0].written || op.inputs[0].shape != effects[0].window.shape;  // as unsqueeze_
  if (!is_view || op.inputs[0].numel() != effects[0].window.numel()) return false;
  const Tensors places{at::arange(op.inputs[0].numel(), at::kLong).view(op.inputs[0].shape)};
  Stack stack = stack_of(*op.op, op.args, op.tensors_per_arg, places);
  const at::Tensor viewed = collect(effects, call_boxed(*op.op, stack), places)[0];
  return viewed.reshape({-1}).equal(places[0].reshape({-1}));
}

Tensors writable(const RecordedOp& op, Tensors inputs) {
  for (const size_t w : op.written) {
    const at::Tensor old = inputs[w];
    if (!old.defined()) continue;
    const at::Tensor fresh = old.clone();
    for (at::Tensor& t : inputs)
      if (t.is_same(old)) t = fresh;
  }
  return inputs;
}

// as_strided of the memory that its input is: the terms of what pends have a memory of their own.
static bool names_its_input(const RecordedOp& op) {
  if (stem(op.op->name) != "aten::as_strided" || op.results.size() != 1) return false;
  const Window &from = op.inputs[0], &to = op.results[0];
  return from.shape == to.shape && from.stride == to.stride && from.offset == to.offset;
}

Tensors apply(const RecordedOp& op, const std::vector<Effect>& effects, Tensors inputs) {
  if (names_its_input(op)) return collect(effects, inputs, inputs);
  if (op.op->random) return collect(effects, dropped(op, inputs), inputs);
  Stack stack = stack_of(*op.op, op.args, op.tensors_per_arg, inputs);
  return collect(effects, call_on(op.device, *op.op, stack), inputs);
}

Tensors draw_again(const RecordedOp& op, const std::vector<Effect>& effects, Tensors inputs) {
  const ForkRng fork;
  SimulatedSource simulated;
  HostedSource hosted(simulated);
  const RandomScope scope(hosted);
  generator() = *op.stream;
  Stack stack = stack_of(*op.op, op.args, op.tensors_per_arg, inputs);
  return collect(effects, call_on(op.device, *op.op, stack), inputs);
}

Tensors apply_f64(const RecordedOp& op, const std::vector<Effect>& effects, Tensors inputs) {
  if (op.op->random) return collect(effects, dropped(op, inputs), inputs);
  Stack stack = in_float64(*op.op, stack_of(*op.op, op.args, op.tensors_per_arg, inputs));
  return collect(effects, call_on(device_of_float64(op), *op.op, stack), inputs);
}

Tensors apply_magnitudes(const RecordedOp& op, const std::vector<Effect>& effects, Tensors inputs) {
  RecordedOp positive = op;
  for (size_t i = 0; i < positive.args.size(); ++i) {
    c10::IValue& value = positive.args[i];
    const bool number = op.op->args[i].kind == ArgKind::kScalar || op.op->args[i].kind == ArgKind::kFloat;
    if (number && value.isDouble()) value = std::abs(value.toDouble());
    if (number && value.isInt())  // of the least one there is none
      value = std::abs(std::max(value.toInt(), -std::numeric_limits<int64_t>::max()));
  }
  const std::string& name = op.op->name;
  if (name.starts_with("aten::sub")) positive.op = &find_operator("aten::add" + name.substr(9));
  Tensors results = apply_f64(positive, effects, std::move(inputs));
  for (at::Tensor& r : results)
    if (r.defined() && r.is_floating_point()) r = r.abs();
  return results;
}

// The fused optimizers believe that tensors of one place in their lists are of one shape.
static void check_lists(const RecordedOp& op, const Tensors& inputs) {
  if (!op.op->name.starts_with("aten::_fused_")) return;
  std::vector<const at::Tensor*> first;
  size_t next = 0;
  for (size_t a = 0; a < op.tensors_per_arg.size(); ++a) {
    const auto n = as_size(std::max<int64_t>(op.tensors_per_arg[a], 0));
    for (size_t k = 0; k < n && op.op->args[a].kind == ArgKind::kTensorList; ++k) {
      const at::Tensor& t = inputs.at(next + k);
      if (first.size() == k) first.push_back(&t);
      const bool single = op.op->args[a].name == "state_steps";
      if (!single && first.at(k)->sizes() != t.sizes())
        throw Error(concat("[", op.op->name, "] element ", k, " of ", op.op->args[a].name, " has the shape ",
                           t.sizes(), ", unlike the parameter's ", first[k]->sizes()));
    }
    next += n;
  }
}

Tensors apply_local(const RecordedOp& op, const std::vector<Effect>& effects, Tensors inputs,
                    const Locality& where) {
  if (op.op->random) return collect(effects, dropped(op, inputs), inputs);
  const std::string_view name = stem(op.op->name);
  const SpecPtr& output = where.outputs.at(0);
  if (names_its_input(op)) return inputs;
  if (where.flat_view) return {inputs[0].reshape(local_shape(*output, where.position))};
  // A dimension that is cut to one element is none of size 1.
  if (name == "aten::squeeze" || name == "aten::squeeze_")
    return {inputs[0].reshape(local_shape(*output, where.position))};
  // Autograd's copy into memory that it made lies as that memory does: a number may lie in a flat local.
  if (name == "aten::clone" && output && output->shape().empty())
    return {inputs[0].clone().reshape(local_shape(*output, where.position))};
  if (const Partial* partial = pending(output)) {
    if (sums_nothing(name, op, inputs)) return {filled(where, partial->op)};
    if (name == "aten::embedding") return {embed_rows(inputs, where)};
  }
  Stack stack = stack_of(*op.op, op.args, op.tensors_per_arg, inputs);
  if (name.starts_with("optim::") || cuts_flat(name, op, where)) {
    if (where.float64) stack = in_float64(*op.op, std::move(stack));
    return collect(effects,
                   in_box(op, std::move(stack), where, where.float64 ? device_of_float64(op) : op.device),
                   inputs);
  }
  if (name.starts_with("experts::grouped_linear")) {
    if (where.float64) stack = in_float64(*op.op, std::move(stack));
    return collect(effects, of_experts(op, stack, where, where.float64 ? device_of_float64(op) : op.device),
                   inputs);
  }
  // A flat slice is in no memory format, and of one dimension, as is then a number that its elements meet.
  const bool is_flat = output && lockstep::has_ragged(output->placements());
  for (size_t a = 0; is_flat && a < stack.size(); ++a) {
    if (op.op->args.at(a).name == "memory_format") stack[a] = c10::IValue();
    const bool is_number =
        stack[a].isTensor() && stack[a].toTensor().defined() && stack[a].toTensor().numel() <= 1;
    if (is_number && stack[a].toTensor().dim() > 1) stack[a] = stack[a].toTensor().flatten();
  }
  if (std::find(kSizesAtOne.begin(), kSizesAtOne.end(), name) != kSizesAtOne.end())
    stack.at(1) = local_shape(*output, where.position);
  if (where.float64) stack = in_float64(*op.op, std::move(stack));
  const c10::Device device = where.float64 ? device_of_float64(op) : op.device;
  check_lists(op, inputs);
  if (reduces_rows(name, where)) {
    stack = in_rows(op, std::move(stack), where);
    Tensors results = call_on(device, *op.op, stack);
    for (size_t r = 0; r < results.size(); ++r)
      results[r] = results[r].reshape(local_shape(*where.outputs[r], where.position));
    return collect(effects, results, inputs);
  }
  if (reduces_flat(name, where))
    return {of_all(op, std::move(stack), device).reshape(local_shape(*output, where.position))};
  return collect(effects, call_on(device, *op.op, stack), inputs);
}

}  // namespace lockstep::oracle
