// SPDX-License-Identifier: Apache-2.0
// What the tests of the gate share: a healthy run that a test may bend, and a pair of stores.
#pragma once
#include <fstream>

#include "ci/gate/judge.h"
#include "dashboard/store/publish.h"
#include "dashboard/store/run_row.h"
#include "dashboard/store/testing.h"
#include "engine/values/error.h"

namespace lockstep::gate::testing {

using namespace dashboard;
using dashboard::testing::sample_case;
using dashboard::testing::TemporaryFolder;

constexpr const char* kToday = "2026-06-15";

// A run that a test may bend before it is written.
struct Recorded {
  Run run = dashboard::testing::sample_run();
  std::vector<CaseRow> cases;
  std::vector<PlantedFault> faults;
  std::vector<Curve> curves;
  std::vector<Series> series;
  std::vector<Replayed> replayed;
  std::vector<Gate> gates;
  double counted = 7;                // the sample of each of `series`
  std::vector<Measurement> samples;  // beside these
  uint64_t loss = 0x40000000;        // bits of the last step of each curve
  std::string state = "finished";
};

inline Recorded healthy(const std::string& commit) {
  Recorded r;
  r.run.id = "run-of-" + commit;
  r.run.commit = commit;
  r.run.build_hash = "build-" + commit;
  r.run.version = "1.0";
  r.run.started_ms += commit.back();  // "a" before "b"
  for (int64_t i = 0; i < 60; ++i) {
    CaseRow row = sample_case(i, i % 6 == 5 ? Verdict::kExplained : Verdict::kEqual);
    if (i % 2 == 1) {
      row.suite = "gradient";
      row.op = "aten::add";
      row.coverage = {{"aten::add", "R", 1, "even", row.verdict}};
      row.labels = {"empty shard"};
    }
    r.cases.push_back(row);
  }
  CaseRow canary = sample_case(100);
  canary.suite = "canary";
  canary.self_check = true;
  r.cases.push_back(canary);
  r.faults = {{"lost_partial", "K3", true, 4, 2, "ops", "v1:x", ""},
              {"stale_offset", "K2", true, 9, 1, "ops", "v1:y", ""}};
  r.curves = {{"one device", "llama", "init", "tp:1", "single", "exact", "f32", true},
              {"tp:2", "llama", "init", "tp:2", "single", "exact", "f32", false}};
  r.series = {{"dispatch", "dispatch", true, false, "calls"}};
  return r;
}

inline void write(const Recorded& r, const std::string& path) {
  Store store = Store::open_writer(path);
  Recorder recorder(store, r.run, "w");
  for (const CaseRow& row : r.cases) recorder.record(row);
  for (const PlantedFault& f : r.faults) recorder.record(f);
  for (const Curve& c : r.curves) {
    const int64_t id = recorder.open_curve(c);
    for (int64_t step = 0; step < 4; ++step) {
      const uint64_t bits = step == 3 ? r.loss : 0x40000000;
      recorder.record(id, {.step = step,
                           .loss_bits = bits,
                           .grad_norm_bits = 0x3f800000,
                           .chain = {static_cast<uint8_t>(step), static_cast<uint8_t>(bits)}});
    }
  }
  for (const Series& s : r.series) {
    recorder.record(s);
    recorder.record(Measurement{s.name, s.unit, r.counted, "candidate"});
  }
  for (const Measurement& m : r.samples) recorder.record(m);
  for (const Replayed& p : r.replayed) recorder.record(p);
  for (const Gate& g : r.gates) recorder.record(g);
  recorder.finish(r.state, 0);
}

inline CaseRow failing(int64_t number, Verdict verdict = Verdict::kDifferent) {
  CaseRow row = sample_case(number, verdict);
  row.bucket = std::string("ops | ") + name(verdict) + " | aten::mm | S | f32";
  row.explanation = "aten::mm differs\nmore";
  return row;
}
inline const std::string kBucket = failing(0).bucket;

struct Story {
  TemporaryFolder folder;
  Recorded base = healthy("a"), candidate = healthy("b");
  Policy policy = default_policy();
  Claims claims;
  std::string other_engine;  // of one more run of the candidate
  bool for_gate = false;     // the baseline holds only what a gate reads

  Judgement judged() const {
    write(base, folder / (for_gate ? "whole.db" : "base.db"));
    if (for_gate) publish(folder / "whole.db", folder / "base.db", false, Copy::kForGate);
    write(candidate, folder / "candidate.db");
    if (!other_engine.empty()) {
      Recorded other;
      other.run = candidate.run;
      other.run.engine = other_engine;
      other.run.plan = "{}";
      write(other, folder / "candidate.db");
    }
    return again();
  }
  Judgement again() const {
    return judge(folder / "base.db", folder / "candidate.db", policy, claims, kToday);
  }
};

// A timed series of the candidate with the verdict of `ci/speed` on this run, in a file that the gate is
// given.
inline void judge_timed(Story& s, const std::string& verdict, const Run& run, const std::string& reason = "",
                        double alpha = 0.01) {
  s.candidate.series.push_back({"step", "training", false, false, "us"});
  s.claims.speed = s.folder / "speed.json";
  std::string key;
  for (const uint8_t byte : dashboard::key_of(run))
    key += "0123456789ABCDEF"[byte >> 4], key += "0123456789ABCDEF"[byte & 15];
  std::ofstream(s.claims.speed) << concat(
      R"({"schema":"lockstep-speed/1","numbers":{"alpha":)", alpha,
      R"(},"series":[{"series":"step","area":"training","against":"turns","samples":40,"ratio":1.15,)",
      R"("low":1.1,"high":1.2,"p":0.001,"detectable":0.03,"false_alarms":0,"baseline_value":100,)",
      R"("candidate_value":115,"unit":"us","detail":"15 % more","verdict":")", verdict, R"(","reason":")",
      reason, R"(","run":")", key, R"("}]})");
}

inline void mute(Story& s, const std::string& expires) {
  s.policy.mutes = {{kBucket, "ann", "ticket 7", expires}};
}

// "rule: subject (effect)" of the findings that are not notes about the environment.
inline std::vector<std::string> told(const Judgement& j) {
  std::vector<std::string> lines;
  for (const Finding& f : j.findings)
    lines.push_back(f.rule + ": " + f.subject + " (" + name(f.effect) + ")");
  return lines;
}
using Lines = std::vector<std::string>;

}  // namespace lockstep::gate::testing
