// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/rules.h"

#include <algorithm>

#include "ci/gate/queries.h"
#include "engine/values/exit_code.h"

namespace lockstep::gate {
namespace {

constexpr Effect kBlock = Effect::kBlock, kWarn = Effect::kWarn, kNote = Effect::kNote;

const Rule kRules[] = {
    {"harness_error", kHarnessError, kBlock, false, "the harness itself works", kHarnessErrors},
    {"fault_survived", kFaultSurvived, kBlock, false, "every planted fault and the canary are found",
     kFaultsSurvived},

    {"not_measured", kNotMeasured, kBlock, false, "every run ended and did what its plan demands",
     kNotMeasuredQuery},
    {"missing_shard", kNotMeasured, kBlock, false, "of a run in shards, every shard is there",
     kMissingShards},
    {"wrong_commit", kNotMeasured, kBlock, false,
     "the runs are of the commit that is claimed, and of one commit", kWrongCommit},
    {"wrong_binary", kNotMeasured, kBlock, false,
     "the runs are of the binary that is claimed, and of one binary", kWrongBinary},
    {"wrong_engine", kNotMeasured, kBlock, false, "the runs are of one engine", kWrongEngine},
    {"dirty_commit", kNotMeasured, kWarn, false, "the source was committed", kDirtyCommit},
    {"demanded", kNotMeasured, kBlock, false, "what the policy requires was measured", kDemanded},
    {"lost_suite", kNotMeasured, kBlock, true, "every suite that the baseline measured is measured",
     kLostSuites},
    {"fewer_cases", kNotMeasured, kBlock, true, "no suite measures far fewer cases than in the baseline",
     kFewerCases},
    {"no_longer_judged", kNotMeasured, kBlock, true,
     "a case that was equal or explained is not given up or excused", kNoLongerJudged},
    {"refuses_more", kNotMeasured, kBlock, true,
     "no op gives up more cases than in the baseline, beyond chance", kRefusesMore},
    {"lost_op", kNotMeasured, kBlock, true, "every op that the baseline covered often is covered", kLostOps},
    {"lost_pair", kNotMeasured, kBlock, true,
     "every op on a placement that the baseline covered often is covered", kLostPairs},
    {"lost_label", kNotMeasured, kBlock, true, "every label that the baseline had often is there",
     kLostLabels},
    {"lost_demand", kNotMeasured, kBlock, true, "what a run must cover is not struck off its list",
     kLostDemands},
    {"lost_fault", kNotMeasured, kBlock, true, "every fault that the baseline planted is planted",
     kLostFaults},
    {"lost_curve", kNotMeasured, kBlock, true, "every curve that the baseline trained is trained",
     kLostCurves},
    {"lost_series", kNotMeasured, kBlock, true, "every series that the baseline measured is measured",
     kLostSeries},
    {"expired_mute", kNotMeasured, kBlock, false, "no mute is past its day", kExpiredMutes},
    {"unexpected_pass", kNotMeasured, kBlock, true,
     "a muted failure still fails; where it passes, remove the mute or bless it", kUnexpectedPasses},
    {"unproven_mute", kNotMeasured, kWarn, false, "the kept case of a muted failure is replayed",
     kUnprovenMutes},
    {"unknown_mute", kNotMeasured, kWarn, false, "a mute names a failure that was seen", kUnknownMutes},

    {"new_difference", kDifference, kBlock, false, "nothing differs that did not differ in the baseline",
     kNewDifferences},
    {"regressed", kDifference, kBlock, false, "what was fixed stays fixed", kRegressed},
    {"crash", kDifference, kBlock, false, "no case takes its process along", kCrashes},
    {"hang", kDifference, kBlock, false, "no case hangs", kHangs},
    {"golden_mismatch", kDifference, kBlock, false, "goldens match", kGoldenMismatches},
    {"known_difference", kDifference, kBlock, false, "what differs in the baseline is mended or muted",
     kKnownDifferences},
    {"worse_verdict", kDifference, kBlock, true, "no case has a worse class of verdict than in the baseline",
     kWorseVerdicts},
    {"curve_divergence", kDifference, kBlock, true,
     "no loss curve leaves its reference earlier, farther or less explained than in the baseline",
     kCurveDivergence},
    {"curve_changed", kDifference, kBlock, true, "loss curves have the bits that they have in the baseline",
     kCurvesChanged},

    {"nondeterminism", kNondeterminism, kBlock, false, "a case comes out in one way", kNondeterminismQuery},

    {"slower", kSlower, kBlock, true, "no timed series is slower, beyond its noise", kSlowerSeries},
    {"counted_more", kSlower, kBlock, true, "no counted series counts more work", kCountedMore},
    {"counted_less", kNotMeasured, kBlock, true, "less counted work is expected by somebody", kCountedLess},
    {"faster", kNotMeasured, kNote, true, "a series that got faster is told", kFasterSeries},
    {"series_not_measured", kNotMeasured, kBlock, true,
     "each timed series can tell a slowdown of the size that the policy asks for", kSeriesNotMeasured},

    {"environment", kNotMeasured, kNote, false, "baseline and candidate ran in the same environment",
     kEnvironment},
};

}  // namespace

std::span<const Rule> rules() {
  return kRules;
}

const Rule* find_rule(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& r) { return r.name == name; });
  return found == std::end(kRules) ? nullptr : found;
}

}  // namespace lockstep::gate
