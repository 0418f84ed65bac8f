// SPDX-License-Identifier: Apache-2.0
// The queries of the rules: queries_*.cpp, by subject. Each row of an answer is a finding:
// subject, expected, got, detail, replay. Those that fill a table are run by Sides.
#pragma once

namespace lockstep::gate {

// queries_failures.cpp: cases that fail
extern const char* const kHarnessErrors;
extern const char* const kNewDifferences;
extern const char* const kRegressed;
extern const char* const kCrashes;
extern const char* const kHangs;
extern const char* const kGoldenMismatches;
extern const char* const kKnownDifferences;
extern const char* const kNondeterminismQuery;

// queries_verdicts.cpp: cases that came out worse, curves, planted faults
extern const char* const kWorseVerdicts;
extern const char* const kNoLongerJudged;
extern const char* const kRefusesMore;
extern const char* const kCurveDivergence;
extern const char* const kCurvesChanged;
extern const char* const kFaultsSurvived;

// queries_measured.cpp: what was not measured at all
extern const char* const kNotMeasuredQuery;
extern const char* const kMissingShards;
extern const char* const kWrongCommit;
extern const char* const kWrongBinary;
extern const char* const kWrongEngine;
extern const char* const kDirtyCommit;
extern const char* const kDemanded;
extern const char* const kEnvironment;

// queries_lost.cpp: what the baseline measured and the candidate did not; mutes
extern const char* const kLostSuites;
extern const char* const kFewerCases;
extern const char* const kLostOps;
extern const char* const kLostPairs;
extern const char* const kLostLabels;
extern const char* const kLostDemands;
extern const char* const kLostFaults;
extern const char* const kLostCurves;
extern const char* const kLostSeries;
extern const char* const kExpiredMutes;
extern const char* const kUnexpectedPasses;
extern const char* const kUnprovenMutes;
extern const char* const kUnknownMutes;

// queries_series.cpp: fill the table `speed`
extern const char* const kJudgeCounted;
extern const char* const kReadTimed;
extern const char* const kTimedWithoutVerdict;
extern const char* const kOtherNumbers;
// queries_series.cpp: what got slower, or cannot tell
extern const char* const kSlowerSeries;
extern const char* const kFasterSeries;
extern const char* const kCountedMore;
extern const char* const kCountedLess;
extern const char* const kSeriesNotMeasured;

}  // namespace lockstep::gate
