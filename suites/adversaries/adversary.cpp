// SPDX-License-Identifier: Apache-2.0
#include "suites/adversaries/adversary.h"

#include <unordered_map>

#include "engine/values/digest.h"
#include "suites/core/hash_log.h"

namespace lockstep::suites {
namespace {

// Whether strides say another thing, and where the elements begin.
bool lie_apart(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || a.numel() == 0 || a.sizes() != b.sizes()) return false;
  bool apart = a.storage_offset() != b.storage_offset();
  for (int64_t d = 0; d < a.dim(); ++d) apart |= a.size(d) > 1 && a.stride(d) != b.stride(d);
  return apart;
}

// Of each local that has elements: the number of its storage, in the order in which these are met.
std::vector<size_t> storages(const EngineResult& result) {
  std::unordered_map<const c10::StorageImpl*, size_t> met;
  std::vector<size_t> numbers;
  for (const auto& value : result.values)
    for (const auto& local : value.locals)
      if (local.defined() && local.numel() > 0)
        numbers.push_back(met.emplace(local.storage().unsafeGetStorageImpl(), met.size()).first->second);
  return numbers;
}

bool differ(const EngineValue& a, const EngineValue& b) {
  if (a.defined() != b.defined()) return true;
  if (!a.defined()) return false;
  if (*a.spec != *b.spec || a.locals.size() != b.locals.size()) return true;
  for (size_t p = 0; p < a.locals.size(); ++p)
    if (digest(a.locals[p]) != digest(b.locals[p]) || lie_apart(a.locals[p], b.locals[p])) return true;
  return false;
}

// @param means of the digests: something.
bool differ(const TensorRecord& a, const TensorRecord& b, bool means) {
  return (a.spec == nullptr) != (b.spec == nullptr) || a.strides != b.strides ||
         (means && a.digests != b.digests);
}

bool differ(const TimelineEntry& a, const TimelineEntry& b) {
  if (a.op != b.op || a.args.size() != b.args.size() || a.inputs.size() != b.inputs.size() ||
      a.outputs.size() != b.outputs.size())
    return true;
  for (size_t i = 0; i < a.inputs.size(); ++i)
    if (differ(a.inputs[i], b.inputs[i], is_read(a, i))) return true;
  for (size_t i = 0; i < a.outputs.size(); ++i)
    if (differ(a.outputs[i], b.outputs[i], !leaves_unwritten(a.op))) return true;
  return false;
}

}  // namespace

std::span<const Adversary> adversaries() {
  static const auto all = [] {
    auto list = plant::liars();
    for (const auto more : {plant::forgers, plant::tellers, plant::layers, plant::edges})
      for (auto& one : more()) list.push_back(std::move(one));
    return list;
  }();
  return all;
}

bool differ(const EngineResult& a, const EngineResult& b) {
  if (a.values.size() != b.values.size() || a.random_after != b.random_after) return true;
  for (size_t i = 0; i < a.values.size(); ++i)
    if (differ(a.values[i], b.values[i])) return true;
  if (storages(a) != storages(b)) return true;
  if (a.timeline.size() != b.timeline.size()) return true;
  for (size_t k = 0; k < a.timeline.size(); ++k)
    if (differ(a.timeline[k], b.timeline[k])) return true;
  return false;
}

}  // namespace lockstep::suites
