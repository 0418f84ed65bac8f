// SPDX-License-Identifier: Apache-2.0
#include "suites/adversaries/adversary.h"

#include "engine/values/digest.h"

namespace lockstep::suites {
namespace {

bool differ(const EngineValue& a, const EngineValue& b) {
  if (a.defined() != b.defined()) return true;
  if (!a.defined()) return false;
  if (*a.spec != *b.spec || a.locals.size() != b.locals.size()) return true;
  for (size_t p = 0; p < a.locals.size(); ++p)
    if (digest(a.locals[p]) != digest(b.locals[p])) return true;
  return false;
}

bool differ(const TensorRecord& a, const TensorRecord& b) {
  return (a.spec == nullptr) != (b.spec == nullptr) || a.digests != b.digests || a.strides != b.strides;
}

bool differ(const std::vector<TensorRecord>& a, const std::vector<TensorRecord>& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (differ(a[i], b[i])) return true;
  return a.size() != b.size();
}

}  // namespace

std::span<const Adversary> adversaries() {
  static const auto all = [] {
    auto list = plant::liars();
    for (const auto more : {plant::forgers, plant::edges})
      for (auto& one : more()) list.push_back(std::move(one));
    return list;
  }();
  return all;
}

bool differ(const EngineResult& a, const EngineResult& b) {
  if (a.values.size() != b.values.size() || a.random_after != b.random_after) return true;
  for (size_t i = 0; i < a.values.size(); ++i)
    if (differ(a.values[i], b.values[i])) return true;
  if (a.timeline.size() != b.timeline.size()) return true;
  for (size_t k = 0; k < a.timeline.size(); ++k)
    if (differ(a.timeline[k].inputs, b.timeline[k].inputs) ||
        differ(a.timeline[k].outputs, b.timeline[k].outputs) ||
        a.timeline[k].args.size() != b.timeline[k].args.size())
      return true;
  return false;
}

}  // namespace lockstep::suites
