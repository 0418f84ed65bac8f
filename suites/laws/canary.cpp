// SPDX-License-Identifier: Apache-2.0
// Law: a harness that works sees one wrong bit. One bit of one element on one rank is flipped; the case
// passes if the judgement fails.
#include <ATen/ATen.h>

#include "generators/cases/programs.h"
#include "oracle/ownership/in_host.h"
#include "suites/core/facts.h"
#include "suites/core/judge.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

// In every run, since a judge may ask for several and look at one.
class OneBitOff : public EngineUnderTest {
 public:
  explicit OneBitOff(EngineUnderTest& engine) : engine_(engine) {}
  const EngineProfile& profile() const override { return engine_.profile(); }
  std::unique_ptr<RandomSource> plain_source() override { return engine_.plain_source(); }
  bool flipped() const { return flipped_; }

  EngineResult run(const oracle::Case& c, bool want_timeline) override {
    auto result = engine_.run(c, want_timeline);
    flipped_ = flip(result);
    return result;
  }

 private:
  static bool flip(EngineResult& result) {
    for (auto v = result.values.rbegin(); v != result.values.rend(); ++v)
      for (auto& local : v->locals)
        if (local.numel() > 0 && local.scalar_type() != at::kBool) {
          local = oracle::in_host(local).clone(at::MemoryFormat::Contiguous);
          static_cast<char*>(local.data_ptr())[0] ^= 1;
          return true;
        }
    return false;
  }

  EngineUnderTest& engine_;
  bool flipped_ = false;
};

}  // namespace

oracle::Case canary_case(uint64_t run_seed, int64_t index) {
  auto c = generators::generate("program", run_seed ^ 0xca4a27, static_cast<uint64_t>(index));
  c.suite = "canary";
  return c;
}

Outcome judge_canary(const oracle::Case& c, EngineUnderTest& engine) {
  OneBitOff spoilt(engine);
  const auto outcome = judge_against_oracle(c, spoilt, Allowed::kExplained);
  if (!spoilt.flipped()) return GaveUp{{"", "nothing to flip"}, "no element whose bit could be flipped"};
  if (std::holds_alternative<Failed>(outcome)) {
    Passed passed;
    passed.note = "caught";
    return passed;
  }
  if (std::holds_alternative<Passed>(outcome))
    return failed("canary", "survived", "", placement_pattern(c), "", "a flipped bit was not seen");
  return outcome;
}

}  // namespace lockstep::suites
