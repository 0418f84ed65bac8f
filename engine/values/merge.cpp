// SPDX-License-Identifier: Apache-2.0
#include "engine/values/merge.h"

#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

bool same_spec(const TensorRecord& a, const TensorRecord& b) {
  if (a.spec == nullptr || b.spec == nullptr) return a.spec == b.spec;
  return *a.spec == *b.spec && a.digests.empty() == b.digests.empty();
}

bool same_specs(const std::vector<TensorRecord>& a, const std::vector<TensorRecord>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_spec);
}

std::string text(const std::vector<c10::IValue>& values) {
  std::string all;
  for (const auto& value : values) all += concat(value, "; ");
  return all;
}

// What differs between two ranks' views of an entry, digests and strides aside; empty: nothing.
std::string difference(const TimelineEntry& a, const TimelineEntry& b) {
  if (a.op != b.op) return concat("runs ", a.op, ", the other ", b.op);
  const auto other = [&](const char* what) { return concat("runs ", a.op, " with other ", what); };
  if (a.implicit != b.implicit) return other("reasons to move");
  if (a.tensors_per_arg != b.tensors_per_arg || text(a.args) != text(b.args)) return other("arguments");
  if (!same_specs(a.inputs, b.inputs)) return other("inputs");
  if (!same_specs(a.outputs, b.outputs)) return other("outputs");
  if (a.aliases != b.aliases) return other("aliases");
  if (a.order != b.order) return other("orders of reduction");
  if (a.random_offset != b.random_offset) return other("offsets of the random stream");
  return "";
}

// Makes room for a digest of every position.
void widen(TensorRecord& record) {
  if (record.digests.empty()) return;
  record.digests.assign(as_size(record.spec->mesh().size()), {});
  record.strides.clear();
}

// Positions whose locals are dense keep no strides, where others have some.
void place(TensorRecord& into, const TensorRecord& from, const std::vector<int64_t>& positions) {
  if (from.digests.empty()) return;
  if (!from.strides.empty()) into.strides.resize(into.digests.size());
  for (size_t i = 0; i < positions.size(); ++i) {
    into.digests[as_size(positions[i])] = from.digests[i];
    if (!from.strides.empty()) into.strides[as_size(positions[i])] = from.strides[i];
  }
}

template <class F>
void each_record(TimelineEntry& into, const TimelineEntry& from, F&& f) {
  for (size_t i = 0; i < into.inputs.size(); ++i) f(into.inputs[i], from.inputs[i]);
  for (size_t i = 0; i < into.outputs.size(); ++i) f(into.outputs[i], from.outputs[i]);
}

TimelineEntry merged(const std::vector<HostedTimeline>& parts, size_t entry) {
  const auto& first = parts.front();
  TimelineEntry result = first.timeline[entry];
  each_record(result, result, [](TensorRecord& into, const TensorRecord&) { widen(into); });
  for (const auto& part : parts) {
    const auto what = difference(first.timeline[entry], part.timeline[entry]);
    LOCKSTEP_CHECK(what.empty(), "[timeline] entry ", entry, ": position ", first.positions.at(0), " ", what,
                   ", which is position ", part.positions.at(0), "; all ranks must run the same program");
    each_record(result, part.timeline[entry],
                [&](TensorRecord& into, const TensorRecord& from) { place(into, from, part.positions); });
  }
  return result;
}

}  // namespace

Timeline merge(const std::vector<HostedTimeline>& parts) {
  Timeline result;
  const size_t entries = parts.at(0).timeline.size();
  for (const auto& part : parts)
    LOCKSTEP_CHECK(part.timeline.size() == entries, "[timeline] position ", parts[0].positions.at(0), " ran ",
                   entries, " ops and moves, position ", part.positions.at(0), " ran ", part.timeline.size(),
                   "; all ranks must run the same program");
  for (size_t i = 0; i < entries; ++i) result.push_back(merged(parts, i));
  return result;
}

}  // namespace lockstep
