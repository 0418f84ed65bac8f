// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/malformed.h"

#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/ownership/slicing.h"
#include "oracle/program/schema.h"

namespace lockstep::oracle {
namespace {

std::string malformed(const std::vector<TensorRecord>& records, const DeviceMesh* mesh, const char* side) {
  for (size_t i = 0; i < records.size(); ++i)
    if (auto problem = oracle::malformed(records[i], mesh); !problem.empty())
      return concat(side, i, " ", problem);
  return "";
}

// One of our own is looked at by what stands in the plain run beside it.
std::string unknown_op(const std::string& op) {
  if (is_own(op)) return "";
  try {
    find_operator(op);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

std::string malformed(const TensorRecord& record, const DeviceMesh* mesh) {
  if (record.spec == nullptr) return record.digests.empty() ? "" : "has values and no placements";
  if (mesh == nullptr || record.spec->mesh() != *mesh)
    return concat("lies on the mesh ", record.spec->mesh(), ", and the Program on ",
                  mesh == nullptr ? "none" : to_string(*mesh));
  const auto positions = as_size(record.spec->mesh().size());
  if (record.digests.empty()) return "";
  if (record.digests.size() != positions)
    return concat("has ", record.digests.size(), " locals on ", positions, " ranks");
  if (record.strides.empty()) return "";
  if (record.strides.size() != positions)
    return concat("has strides of ", record.strides.size(), " locals on ", positions, " ranks");
  const auto plan = slicing_of(*record.spec);
  for (size_t p = 0; p < positions; ++p)
    if (!record.strides[p].empty() && record.strides[p].size() != plan->shapes[p].size())
      return concat("has ", record.strides[p].size(), " strides at position ", p, ", where its slice has ",
                    plan->shapes[p].size(), " dimensions");
  return "";
}

std::string malformed(const TimelineEntry& entry, const DeviceMesh* mesh) {
  if (auto problem = unknown_op(entry.op); !problem.empty()) return problem;
  if (entry.args.size() != entry.tensors_per_arg.size())
    return concat("it has ", entry.args.size(), " arguments and says of ", entry.tensors_per_arg.size(),
                  " how many tensors they are");
  if (!entry.aliases.empty() && entry.aliases.size() != entry.outputs.size())
    return concat("it has ", entry.outputs.size(), " results and says of ", entry.aliases.size(),
                  " whose memory they are");
  for (const int64_t alias : entry.aliases)
    if (alias < -1 || alias >= std::ssize(entry.inputs))
      return concat("a result is input ", alias, ", of ", entry.inputs.size());
  if (auto problem = malformed(entry.inputs, mesh, "input "); !problem.empty()) return problem;
  return malformed(entry.outputs, mesh, "result ");
}

size_t find_malformed(const Timeline& timeline, const DeviceMesh* mesh) {
  size_t i = 0;
  while (i < timeline.size() && malformed(timeline[i], mesh).empty()) ++i;
  return i;
}

const DeviceMesh* mesh_of(std::span<const Start> starts, std::span<const Final> finals) {
  for (const Start& s : starts)
    if (s.spec != nullptr) return &s.spec->mesh();
  for (const Final& f : finals)
    if (f.record.spec != nullptr) return &f.record.spec->mesh();
  return nullptr;
}

}  // namespace lockstep::oracle
