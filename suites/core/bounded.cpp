// SPDX-License-Identifier: Apache-2.0
#include "suites/core/bounded.h"

#include <ATen/ATen.h>

#include "engine/values/error.h"
#include "oracle/judge/twin.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/ownership.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::suites {
namespace {

// The value put together, terms folded in float64.
at::Tensor global_of(const EngineValue& value) {
  if (!value.defined()) return {};
  const Spec& spec = *value.spec;
  if (!spec.has_partial() || !c10::isFloatingType(spec.dtype()))
    return oracle::assemble(value.locals, spec).global;
  std::vector<at::Tensor> wide;
  for (const auto& local : value.locals) wide.push_back(local.to(at::kDouble));
  return oracle::assemble(wide, spec.with_tensor(spec.shape(), spec.stride(), at::kDouble)).global;
}

// One run of the engine beside the single device's answer in float64.
struct Side {
  const oracle::Case& c;
  const std::vector<at::Tensor>& plain;
  const EngineResult& got;
  oracle::Reach reach;

  Side(const oracle::Case& of, const std::vector<at::Tensor>& p, const EngineResult& g)
      : c(of), plain(p), got(g), reach(oracle::reach_of(of, p)) {}

  bool same(size_t v) const {
    if (!plain[v].defined()) return true;
    const auto& value = got.values[v];
    return oracle::compare(plain[v], oracle::assemble(value.locals, *value.spec).global).equal();
  }

  // Elements that have the plain answer's bits need no bound.
  at::Tensor differing(size_t v, const at::Tensor& global) const {
    const auto wide = plain[v].to(at::kDouble);
    return at::logical_not(
        at::logical_or(at::eq(global, wide), at::logical_and(at::isnan(global), at::isnan(wide))));
  }

  // Zeros of the other sign than the plain answer's. In the fast lane kernels choose it by shape.
  at::Tensor other_zeros(size_t v, const at::Tensor& global) const {
    const auto wide = plain[v].to(at::kDouble);
    if (c.numerics == Lane::kFast) return at::zeros(wide.sizes(), at::kBool);
    return at::logical_and(at::logical_and(at::eq(global, 0), at::eq(wide, 0)),
                           at::ne(at::signbit(global), at::signbit(wide)));
  }

  // The sign of a zero is no matter of distance: the terms give it in any order, or it is not known.
  Bounded judge_zeros(size_t v, const at::Tensor& global, const std::string& name) const {
    const auto other = other_zeros(v, global);
    if (!other.any().item<bool>()) return {};
    const auto open = oracle::open_signs(c, plain)[v];
    const auto wrong = at::logical_and(other, at::logical_not(open)).reshape({-1}).to(at::kByte);
    if (!wrong.any().item<bool>()) return {std::nullopt, "the sign of a zero", name};
    return {{{v, concat(name, " of ", oracle::to_token(c), ": element ", wrong.argmax().item<int64_t>(),
                        " (row-major) is a zero of the other sign, whatever the order of its terms")}},
            "",
            ""};
  }

  // Where no number came out, and terms of all ranks, as great as the answer, have a sum that is none: on the
  // way to an average it overflows, though its end does not.
  at::Tensor may_overflow(size_t v, const at::Tensor& global) const {
    const auto sum = at::mul(reach.values[v].answer, c.mesh.size()).to(plain[v].scalar_type());
    return at::logical_and(at::logical_not(at::isfinite(global)), at::logical_not(at::isfinite(sum)));
  }

  Bounded judge(size_t v) const {
    const auto& expected = reach.values[v];
    const auto name = oracle::value_name(c.program, static_cast<int64_t>(v));
    if (!expected.reach.defined())
      return expected.settled
                 ? Bounded{{{v, name + " differs, and no rounding on the way changes it"}}, "", ""}
                 : Bounded{std::nullopt, "a rounding decides", name};
    const auto global = global_of(got.values[v]).to(at::kDouble);
    const auto open = differing(v, global);
    // Where the plain answer itself is out of reach, something overflowed on the way, and the reach says
    // nothing.
    const auto plainly = at::sub(plain[v].to(at::kDouble), expected.answer).abs();
    const auto known =
        at::logical_and(at::logical_and(at::isfinite(expected.reach), at::le(plainly, expected.reach)),
                        at::logical_not(may_overflow(v, global)));
    const auto distance = at::sub(global, expected.answer).abs();
    const auto outside =
        at::logical_and(at::logical_and(open, known), at::logical_not(at::le(distance, expected.reach)));
    if (outside.any().item<bool>()) return {{{v, worst(name, distance, expected, outside)}}, "", ""};
    if (at::logical_and(open, at::logical_not(known)).any().item<bool>())
      return {std::nullopt, "no bound", name};
    return judge_zeros(v, global, name);
  }

  std::string worst(const std::string& name, const at::Tensor& distance, const oracle::Reach::Value& expected,
                    const at::Tensor& outside) const {
    const auto i = outside.reshape({-1}).to(at::kByte).argmax().item<int64_t>();
    const auto at_i = [i](const at::Tensor& t) { return t.reshape({-1})[i].item<double>(); };
    return concat(name, " of ", oracle::to_token(c), ": element ", i, " (row-major) is ", at_i(distance),
                  " from the float64 answer ", at_i(expected.answer), ", where roundings reach ",
                  at_i(expected.reach));
  }
};

// What is wrong with the first value that is outside, else why some value is open.
Bounded judge_all(const Side& side, std::vector<bool>& differs) {
  Bounded first;
  for (size_t v = 0; v < side.plain.size(); ++v) {
    if (side.same(v)) continue;
    differs[v] = true;
    auto one = side.judge(v);
    if (one.outside) return one;
    if (first.open.empty()) first = std::move(one);
  }
  return first;
}

Bounded blind(const Side& twin, const std::vector<bool>& differs) {
  const auto blind = oracle::blind_spots(twin.c, twin.plain, twin.reach);
  for (size_t v = 0; v < differs.size(); ++v)
    if (differs[v] && blind[v])
      return {std::nullopt, "bound too wide",
              concat("value ", v, ": a rank's part could be lost, doubled or averaged unseen")};
  return {};
}

Bounded judge_twin(const oracle::Case& c, EngineUnderTest& engine, std::vector<bool>& differs) {
  const auto twin = oracle::float64_twin(c);
  oracle::SimulatedSource source;
  const auto plain = oracle::evaluate(twin, source);
  const auto got = engine.run(twin, false);
  for (size_t v = 0; v < plain.size(); ++v) {
    const auto& value = got.values.at(v);
    const bool fits = plain[v].defined() == value.defined() &&
                      (!value.defined() || (value.spec->shape() == plain[v].sizes().vec() &&
                                            value.spec->dtype() == plain[v].scalar_type()));
    if (!fits) return {{{v, "has another shape or dtype in the float64 twin"}}, "", ""};
    if (value.defined())
      if (const auto d = oracle::assemble(value.locals, *value.spec).disagreement)
        return {{{v, "replicas in the float64 twin: " + d->text}}, "", ""};
  }
  const Side side(twin, plain, got);
  auto judged = judge_all(side, differs);
  if (judged.outside) judged.outside->text = "in the float64 twin, " + judged.outside->text;
  return judged.outside || !judged.open.empty() ? judged : blind(side, differs);
}

}  // namespace

Bounded judge_bounded(const oracle::Case& c, const oracle::PlainRun& plain, const EngineResult& got,
                      EngineUnderTest& engine) {
  try {
    std::vector<bool> differs(plain.values.size(), false);
    const auto own = judge_all(Side(c, plain.values, got), differs);
    if (own.outside) return own;
    const auto twin = judge_twin(c, engine, differs);
    return twin.outside || own.open.empty() ? twin : own;
  } catch (const std::exception& e) {
    if (is_lost(e)) throw;
    return {std::nullopt, "no float64 twin", e.what()};
  }
}

}  // namespace lockstep::suites
