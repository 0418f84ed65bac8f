// SPDX-License-Identifier: Apache-2.0
// A judgement in one sentence: what was found, how sure that is, and what to do where nothing could be found.
#pragma once
#include <string>
#include <vector>

#include "ci/perf/judge_series.h"

namespace lockstep::perf {

std::string turns_sentence(const SeriesJudgement& j, size_t family, const Policy& policy);
std::string history_sentence(const SeriesJudgement& j, const Policy& policy);
std::string exact_sentence(const SeriesJudgement& j);
// Counted samples of one binary that are not one number.
std::string spread_sentence(const std::string& side, const std::vector<double>& values);

}  // namespace lockstep::perf
