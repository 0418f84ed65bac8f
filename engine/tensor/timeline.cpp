// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/timeline_log.h"

#include "engine/stream/random_source.h"
#include "engine/tensor/run.h"
#include "engine/values/digest.h"

namespace lockstep {
namespace {

// For each output, which of the listed inputs it is.
std::vector<int64_t> aliases(const Dispatched& d, size_t outputs) {
  std::vector<int64_t> result(outputs, -1);
  if (d.resolved.variant == Variant::kFunctional) return result;
  size_t j = 0;
  int64_t listed = 0;
  for (size_t i = 0; i < d.call.tensors.size() && j < outputs; ++i) {
    if (d.call.operands.specs[i] == nullptr) continue;
    if (d.call.operands.mutated[i]) result[j++] = listed;
    ++listed;
  }
  return result;
}

}  // namespace

Timeline* current_timeline() {
  return current_context()->timeline;
}

TensorRecord record(const at::Tensor& tensor) {
  const auto* impl = dtensor_impl(tensor);
  return impl == nullptr ? TensorRecord{} : record(impl->spec(), impl->locals());
}

void note_read(const at::Tensor& dtensor) {
  if (auto* given = dtensor_impl(dtensor)->comm()->context->given) given->push_back({dtensor});
}

void log_read(const char* op, const at::Tensor& dtensor) {
  auto* timeline = dtensor_impl(dtensor)->comm()->context->timeline;
  if (timeline == nullptr) return;
  TimelineEntry entry;
  entry.op = op;
  entry.args = {c10::IValue()};
  entry.tensors_per_arg = {1};
  entry.inputs = {record(dtensor)};
  timeline->push_back(std::move(entry));
}

void log_cast(const at::Tensor& from, const at::Tensor& to, bool implicit) {
  auto* timeline = dtensor_impl(from)->comm()->context->timeline;
  if (timeline == nullptr) return;
  const c10::IValue none;
  TimelineEntry entry;
  entry.op = "aten::_to_copy";
  entry.implicit = implicit;
  entry.args = {none, to.scalar_type(), none, none, none, false, none};
  entry.tensors_per_arg = {1, -1, -1, -1, -1, -1, -1};
  entry.inputs = {record(from)};
  entry.outputs = {record(to)};
  entry.aliases = {-1};
  timeline->push_back(std::move(entry));
}

TimelineEntry begin_entry(const Dispatched& d) {
  TimelineEntry entry;
  entry.op = d.op.schema().name();
  if (!d.op.schema().overload_name().empty()) entry.op += "." + d.op.schema().overload_name();
  entry.args = constants(d.resolved, d.args, d.call);
  entry.tensors_per_arg.assign(d.args.size(), -1);
  for (size_t i = 0; i < d.args.size(); ++i)
    if (d.resolved.kinds[i] != ArgKind::kConstant) entry.tensors_per_arg[i] = 0;
  for (size_t i = 0; i < d.placed.size(); ++i) {
    const size_t arg = d.call.operands.arg[i];
    if (d.call.operands.specs[i] == nullptr) {
      const bool constant = d.call.operands.metas[i].defined;
      if (constant && d.resolved.kinds[arg] == ArgKind::kTensor) entry.tensors_per_arg[arg] = -1;
      continue;
    }
    ++entry.tensors_per_arg[arg];
    entry.inputs.push_back(record(d.placed[i]));
  }
  if (d.resolved.entry->kind == OpKind::kRandom) entry.random_offset = generator().state.offset;
  return entry;
}

void end_entry(const Dispatched& d, TimelineEntry entry, at::ArrayRef<at::Tensor> outputs) {
  for (const auto& t : outputs) entry.outputs.push_back(record(t));
  entry.aliases = aliases(d, entry.outputs.size());
  current_timeline()->push_back(std::move(entry));
}

}  // namespace lockstep
