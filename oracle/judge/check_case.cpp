// SPDX-License-Identifier: Apache-2.0
// A Case before the judge: what its inputs begin as.
#include <ATen/ATen.h>

#include "engine/values/error.h"
#include "oracle/judge/judge_op.h"
#include "oracle/program/statements.h"
#include "oracle/program/values.h"

namespace lockstep::oracle {

RenditionPtr begun_as(const Start& start, const Window& window, const Recording& recording, Shadow& shadow) {
  const SlicingPtr plan = slicing_of(*start.spec);
  Tensors terms;
  for (int64_t t = 0; t < plan->terms; ++t)
    terms.push_back(at::empty_strided(window.shape, window.stride, at::TensorOptions(window.dtype)));
  for (size_t p = 0; p < start.locals.size(); ++p)
    paste(start.locals[p].detach(), *plan, static_cast<int64_t>(p),
          terms[static_cast<size_t>(plan->term[p])]);
  const bool is_plain = plan->partial_dims.empty() && same_bits(terms[0], recording.read(window));
  return is_plain ? Shadow::plain() : shadow.rendition(window, terms, *plan);
}

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
