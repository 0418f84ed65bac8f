// SPDX-License-Identifier: Apache-2.0
// A Case before the judge: what its inputs begin as.
#include "engine/values/error.h"
#include "oracle/judge/check.h"
#include "oracle/program/statements.h"
#include "oracle/program/values.h"

namespace lockstep::oracle {

using Tensors = std::vector<at::Tensor>;

Judgement check(const Case& c, const PlainRun& plain, const Timeline& timeline,
                const std::vector<TensorRecord>& finals) {
  LOCKSTEP_CHECK(finals.size() == plain.values.size(), "[check] ", finals.size(),
                 " final values of the engine for ", plain.values.size(), " of the Program");
  std::vector<Start> starts;
  for (size_t i = 0; i < plain.inputs.size(); ++i) {
    const auto input = static_cast<int64_t>(i);
    if (is_plain(c.placements[i])) {
      starts.push_back({plain.inputs[i], nullptr, {}});
      continue;
    }
    auto spec = std::make_shared<const Spec>(spec_of(c, input));
    const bool pending = spec->has_partial();
    starts.push_back({plain.inputs[i], std::move(spec), pending ? make_locals(c, input) : Tensors()});
  }
  std::vector<Final> ends;
  for (size_t i = 0; i < c.program.inputs.size(); ++i) ends.push_back({plain.values[i], finals[i]});
  for (const Call& call : c.program.calls)
    for (int64_t i = 0; i < call.results; ++i)
      ends.push_back({plain.values[ends.size()], finals[ends.size()], runs_backward(call.op)});
  return check(plain.recording, timeline, starts, ends, c.numerics);
}

}  // namespace lockstep::oracle
