// SPDX-License-Identifier: Apache-2.0
// A Case before the judge: what its inputs begin as.
#include <algorithm>

#include "engine/values/error.h"
#include "oracle/judge/check.h"
#include "oracle/program/statements.h"
#include "oracle/program/values.h"

namespace lockstep::oracle {

using Tensors = std::vector<at::Tensor>;

namespace {

const Target* placed_by(const Call& call) {
  if (call.op == kRedistribute || maps_locals(call.op))
    return std::get_if<Target>(&call.args.rbegin()[maps_locals(call.op) ? 1 : 0]);
  return placed_by_factory(call);
}

// What the Program itself places lies so to the end: no op moves a value that is there. Transposed in place
// it is another value.
std::optional<Mismatch> misplaced(const Case& c, const std::vector<TensorRecord>& finals, size_t end) {
  const auto& calls = c.program.calls;
  for (size_t k = 0, value = c.program.inputs.size(); k < calls.size(); ++k) {
    const Target* target = placed_by(calls[k]);
    const SpecPtr spec = target != nullptr ? finals.at(value).spec : nullptr;
    const auto writes = [&](const Call& call) {
      return is_in_place(call.op) && call.args.at(0) == Arg(Ref{static_cast<int64_t>(value)});
    };
    if (spec && std::none_of(calls.begin() + static_cast<ptrdiff_t>(k), calls.end(), writes) &&
        *spec != spec->with_placements(target->placements, target->order))
      return Mismatch{.condition = Condition::kFinal,
                      .entry = end,
                      .op = calls[k].op,
                      .text = concat("value ", value, " is handed in as ", *spec,
                                     ", where the Program places it ", to_string(target->placements))};
    value += static_cast<size_t>(calls[k].results);
  }
  return std::nullopt;
}

}  // namespace

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
  for (size_t i = 0; i < finals.size(); ++i) ends.push_back({plain.values[i], finals[i]});
  Judgement judgement = check(plain.recording, timeline, starts, ends, c.numerics);
  if (!judgement.mismatch) judgement.mismatch = misplaced(c, finals, timeline.size());
  return judgement;
}

}  // namespace lockstep::oracle
