// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/malformed.h"

#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/ownership/slicing.h"

namespace lockstep::oracle {
namespace {

std::string malformed(const std::vector<TensorRecord>& records, const char* side) {
  for (size_t i = 0; i < records.size(); ++i)
    if (auto problem = oracle::malformed(records[i]); !problem.empty()) return concat(side, i, " ", problem);
  return "";
}

}  // namespace

std::string malformed(const TensorRecord& record) {
  if (record.spec == nullptr) return record.digests.empty() ? "" : "has values and no placements";
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

std::string malformed(const TimelineEntry& entry) {
  if (entry.args.size() != entry.tensors_per_arg.size())
    return concat("it has ", entry.args.size(), " arguments and says of ", entry.tensors_per_arg.size(),
                  " how many tensors they are");
  if (!entry.aliases.empty() && entry.aliases.size() != entry.outputs.size())
    return concat("it has ", entry.outputs.size(), " results and says of ", entry.aliases.size(),
                  " whose memory they are");
  for (const int64_t alias : entry.aliases)
    if (alias < -1 || alias >= std::ssize(entry.inputs))
      return concat("a result is input ", alias, ", of ", entry.inputs.size());
  if (auto problem = malformed(entry.inputs, "input "); !problem.empty()) return problem;
  return malformed(entry.outputs, "result ");
}

}  // namespace lockstep::oracle
