// SPDX-License-Identifier: Apache-2.0
#include "suites/core/by_library.h"

#include <c10/core/ScalarTypeToTypeMeta.h>
#include <c10/util/accumulate.h>

namespace lockstep::suites {
namespace {

constexpr const char *kOption = "reduce", *kLibrary = "library";
constexpr int64_t kLarge = 1 << 20;

}  // namespace

bool is_by_library(const oracle::Case& c) {
  const auto found = c.options.find(kOption);
  return found != c.options.end() && found->second == kLibrary;
}

void make_by_library(oracle::Case& c) {
  c.options[kOption] = kLibrary;
}

// The last dimension grows by a whole factor, so that blocks and units still divide it. What an uneven shard
// leaves does not, and so the lists of units that follow it go.
oracle::Case enlarged(oracle::Case c) {
  oracle::each_target(c, [](oracle::Target& target) {
    for (auto& p : target.placements)
      if (const auto* ragged = std::get_if<RaggedShard>(&p); ragged != nullptr && ragged->lists > 1)
        p = Replicate{};
  });
  for (auto& input : c.program.inputs) {
    const auto size = static_cast<int64_t>(c10::elementSize(input.dtype));
    const int64_t bytes = c10::multiply_integers(input.shape) * size;
    if (input.shape.empty() || bytes == 0) continue;
    if (!input.values.bits.empty()) {  // which are as many as there are elements
      if (!c10::isFloatingType(input.dtype)) continue;
      input.values = {.kind = oracle::ValueKind::kNormal, .seed = input.values.seed};
    }
    input.shape.back() *= kLarge / bytes + 1;
  }
  return c;
}

}  // namespace lockstep::suites
