// SPDX-License-Identifier: Apache-2.0
#include "engine/static_eager/step_log.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

#include "engine/lane/numerics.h"
#include "engine/layout/layout.h"
#include "engine/ops/resolve.h"
#include "engine/values/digest.h"
#include "engine/values/error.h"
#include "engine/values/ragged.h"

namespace lockstep {
namespace {

std::string text(const Digest& digest) {
  return concat(" ", digest.lo, ".", digest.hi);
}

// What libtorch does in place on one side it may do out of place on the other.
std::string without_place(std::string op) {
  const auto dot = op.find('.');
  const auto end = dot == std::string::npos ? op.size() : dot;
  if (end > 0 && op[end - 1] == '_') op.erase(end - 1, 1);
  return op;
}

LocalRun run_of(const c10::OperatorHandle& op) {
  const auto* entry = resolve(op).entry;
  return entry == nullptr ? nullptr : entry->run[entered_lane()];
}

bool is_any_of(LocalRun run, std::initializer_list<LocalRun> all) {
  return std::find(all.begin(), all.end(), run) != all.end();
}

bool is_given_own_sizes(const c10::OperatorHandle& op) {
  return is_any_of(run_of(op), {local::sized, local::sized_as_input, local::sized_and_strided,
                                local::sized_filled, local::as_view});
}

// Tensors are told by what they hold, and what is not there by nobody.
bool is_constant(const c10::IValue& value) {
  if (value.isNone() || value.isTensor() || value.isTensorList()) return false;
  return !value.isList() || value.isIntList() || value.isDoubleList() || value.isBoolList();
}

bool is_wide(const TensorRecord& record, int64_t position) {
  return !record.digests.empty() && c10::multiply_integers(local_shape(*record.spec, position)) != 1;
}

}  // namespace

const Stretch* StepLog::of_node(uint64_t node) const {
  const auto innermost = std::find_if(stretches.begin(), stretches.end(), [&](const Stretch& s) {
    return s.first_node <= node && node < s.last_node;
  });
  return innermost == stretches.end() ? nullptr : &*innermost;
}

uint64_t StepLog::node_of(size_t entry) const {
  const auto after = std::upper_bound(nodes.begin(), nodes.end(), entry,
                                      [](size_t e, const auto& node) { return e < node.first; });
  return after == nodes.begin() ? kForward : std::prev(after)->second;
}

const Stretch* StepLog::forward_of(size_t entry) const {
  if (node_of(entry) != kForward) return nullptr;
  const auto innermost = std::find_if(stretches.begin(), stretches.end(), [&](const Stretch& s) {
    return s.first_entry <= entry && entry < s.last_entry;
  });
  return innermost == stretches.end() ? nullptr : &*innermost;
}

Site* StepLog::of_entry(size_t entry) const {
  const auto node = node_of(entry);
  const auto* stretch = node == kForward ? forward_of(entry) : of_node(node);
  return stretch == nullptr ? nullptr : stretch->site;
}

c10::OperatorHandle handle_of(const TimelineEntry& entry) {
  const auto dot = entry.op.find('.');
  const auto found = c10::Dispatcher::singleton().findSchema(
      {entry.op.substr(0, dot), dot == std::string::npos ? "" : entry.op.substr(dot + 1)});
  if (!found) throw Broken(concat("[static_eager] there is no op ", entry.op));
  return *found;
}

std::string text_of_constants(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> args) {
  auto all = without_place(concat(op.operator_name()));
  if (is_given_own_sizes(op)) return all;
  for (const auto& value : args)
    if (is_constant(value)) all += concat(" ", value);
  return all;
}

bool makes_mere_memory(std::string_view op) {
  constexpr auto kOps =
      std::to_array<std::string_view>({"aten::empty.memory_format", "aten::empty_like", "aten::empty_strided",
                                       "aten::new_empty", "aten::new_empty_strided"});
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

size_t first_read(std::string_view op) {
  return op == "aten::copy_" ? 1 : 0;
}

std::string text_of_values(at::ArrayRef<c10::IValue> values, bool are_results) {
  std::string all = are_results ? " ->" : "";
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined() && (are_results || tensor.numel() != 1)) all += text(digest(tensor));
  };
  for (const auto& value : values) {
    if (value.isTensor()) add(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorList()) add(tensor);
    if (value.isOptionalTensorList())
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList())
        if (tensor) add(*tensor);
  }
  return all;
}

std::string text_of(const TimelineEntry& entry, size_t rank, int64_t position) {
  std::vector<c10::IValue> constants;
  for (size_t i = 0; i < entry.args.size(); ++i)
    if (entry.tensors_per_arg[i] < 0) constants.push_back(entry.args[i]);
  const bool is_ours = !entry.op.starts_with("aten::");
  auto all = is_ours ? concat(entry.op, " ", entry.implicit) : text_of_constants(handle_of(entry), constants);
  for (size_t i = first_read(entry.op); i < entry.inputs.size(); ++i)
    if (is_wide(entry.inputs[i], position)) all += text(entry.inputs[i].digests[rank]);
  all += " ->";
  if (makes_mere_memory(entry.op)) return all;
  for (const auto& output : entry.outputs)
    if (!output.digests.empty()) all += text(output.digests[rank]);
  return all;
}

// Of how many elements the smallest part on any rank is.
static int64_t least_part(const Spec& spec) {
  int64_t least = spec.numel();
  for (int64_t p = 0; p < spec.mesh().size(); ++p)
    least = std::min(least, c10::multiply_integers(local_shape(spec, p)));
  return least;
}

bool adds_nothing(const TimelineEntry& entry) {
  if (!entry.op.starts_with("aten::add") || entry.outputs.empty()) return false;
  const auto is_result = [&](const TensorRecord& input) {
    return !input.digests.empty() && input.spec->numel() > 1 && input.digests == entry.outputs[0].digests;
  };
  return std::any_of(entry.inputs.begin(), entry.inputs.end(), is_result);
}

bool is_on(const TimelineEntry& entry, const DeviceMesh& mesh) {
  const auto is_there = [&](const TensorRecord& t) { return t.spec == nullptr || t.spec->mesh() == mesh; };
  return std::all_of(entry.inputs.begin(), entry.inputs.end(), is_there) &&
         std::all_of(entry.outputs.begin(), entry.outputs.end(), is_there);
}

bool moves_nothing(const TimelineEntry& entry) {
  if (entry.op != "lockstep::redistribute") return false;
  const auto &from = *entry.inputs[0].spec, &to = *entry.outputs[0].spec;
  if (from.mesh() != to.mesh()) return false;
  for (size_t d = 0; d < from.placements().size(); ++d)
    if (from.placements()[d] != to.placements()[d] && from.mesh().shape()[d] > 1) return false;
  return true;
}

std::string unlike_plain(const TimelineEntry& entry) {
  if (moves_nothing(entry)) return "";
  if (entry.implicit) return "moves what an op reads";
  if (!entry.op.starts_with("aten::")) return concat("calls ", entry.op);
  if (entry.random_offset) return concat(entry.op, " draws");
  if (entry.outputs.empty()) return concat(entry.op, " reads a value");
  const bool runs_as_it_is =
      is_any_of(run_of(handle_of(entry)), {local::stock, local::as_one_of_many, local::view, local::squeeze,
                                           local::as_view, local::blocks, local::sized, local::sized_as_input,
                                           local::sized_and_strided, local::sized_filled, local::filled,
                                           local::unless_empty, local::reduction, local::contraction});
  // What a rank has nothing of, or one element, kernels take otherwise, or not at all.
  const int64_t least = run_of(handle_of(entry)) == local::as_one_of_many ? 2 : 1;
  for (const auto* records : {&entry.inputs, &entry.outputs})
    for (const auto& record : *records)
      if (record.spec != nullptr && record.spec->numel() >= least && least_part(*record.spec) < least)
        return concat(entry.op, " meets a rank that has next to nothing");
  const auto is_whole_row = [](const TensorRecord& t) { return t.spec == nullptr || !is_flat(*t.spec); };
  const bool flat = !std::all_of(entry.inputs.begin(), entry.inputs.end(), is_whole_row) ||
                    !std::all_of(entry.outputs.begin(), entry.outputs.end(), is_whole_row);
  if (!runs_as_it_is || flat) return concat(entry.op, " runs otherwise on a part");
  return "";
}

}  // namespace lockstep
