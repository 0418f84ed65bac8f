// SPDX-License-Identifier: Apache-2.0
// dashboard_fill FILE [--cases N] [--shards K]: writes FILE.0 … FILE.(K-1), shards of the same runs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "dashboard/store/recorder.h"
#include "dashboard/store/store.h"

namespace lockstep::dashboard {
namespace {

constexpr int kCommits = 12;
constexpr const char* kSuites[] = {"ops", "program", "redistribute", "gradient", "layout", "random"};
constexpr const char* kPlacements[] = {"R", "S", "P", "P+R", "P+S", "R+S", "P+R+S", "I+R", "I+P", "G+R"};
constexpr const char* kMeshes[] = {"2", "4", "8", "2x2", "2x4", "4x2", "2x2x2", "1x4"};
constexpr const char* kDtypes[] = {"f32", "bf16", "f16", "f64", "i64"};
constexpr const char* kEvenness[] = {"even", "uneven", "empty"};
constexpr int64_t kOps = 280;

// SplitMix64: the same number gives the same case.
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::string op_name(uint64_t n) {
  return "aten::op_" + std::to_string(n % static_cast<uint64_t>(kOps));
}

Run run_of(int commit) {
  Run run;
  run.id = "fill-" + std::to_string(commit);
  run.command = "dashboard_fill";
  run.seed = static_cast<uint64_t>(commit);
  run.numerics = "exact";
  run.plan = R"({"suites":[{"name":"ops","least":1000}],"labels":[{"name":"uneven","least":50}]})";
  run.build_hash = "build-" + std::to_string(commit);
  run.commit = "c" + std::to_string(1000000 + commit * 7919);
  run.cpu = "synthetic";
  run.compiler = "none";
  run.libtorch = "2.11.0";
  run.cores = 8;
  run.started_ms = 1'760'000'000'000 + commit * 86'400'000LL;
  run.ended_ms = run.started_ms + 600'000;
  return run;
}

Verdict verdict_of(uint64_t dice, int commit) {
  if (dice % 40 == 0) return Verdict::kExplained;
  if (dice % 1000 == 1) return Verdict::kGaveUp;
  if (commit >= 8 && dice % 20'000 == 3) return Verdict::kDifferent;
  if (commit == kCommits - 1 && dice % 50'000 == 5) return Verdict::kCrashed;
  return Verdict::kEqual;
}

CaseRow case_of(int64_t number, int commit) {
  const uint64_t dice = mixed(static_cast<uint64_t>(number) * 31 + static_cast<uint64_t>(commit));
  const auto pick = [&](const auto& list, int shift) {
    return std::string(list[(dice >> shift) % std::size(list)]);
  };
  CaseRow row;
  row.number = number;
  row.suite = pick(kSuites, 3);
  row.law = "a law of " + row.suite;
  row.verdict = verdict_of(dice, commit);
  row.op = row.ops = op_name(dice >> 20);
  if (row.suite == "program") row.ops += " " + op_name(dice >> 30) + " " + op_name(dice >> 40);
  row.placement = pick(kPlacements, 7);
  row.mesh = pick(kMeshes, 11);
  row.mesh_rank = 1 + std::count(row.mesh.begin(), row.mesh.end(), 'x');
  row.dtype = pick(kDtypes, 15);
  row.evenness = pick(kEvenness, 17);
  row.how = "random";
  row.token = "v1:" + row.suite + ";mesh=" + row.mesh + ";seed=" + std::to_string(number) +
              ";x0=" + row.dtype + "[7x13]:normal@[" + row.placement + "];v0=" + row.op + "(x0)#" +
              std::to_string(dice % 0xffffff);
  row.time_ns = 300'000 + static_cast<int64_t>(dice % 2'000'000);
  row.bytes_moved = static_cast<int64_t>(dice % 65'536);
  row.labels = {row.evenness};
  row.coverage = {{row.op, row.placement, row.mesh_rank, row.evenness, row.verdict}};
  if (is_failure(row.verdict))
    row.bucket = row.suite + " | " + name(row.verdict) + " | aten::op_" + std::to_string(dice % 7);
  if (row.verdict == Verdict::kExplained || row.verdict == Verdict::kDifferent) {
    row.explanation = "the order of " + row.op;
    row.diffs = {{.value = "v0",
                  .bit_class = "ulp",
                  .dtype = "f32",
                  .elements = 91,
                  .different = 3,
                  .max_ulp = 1,
                  .first_index = {3, 4},
                  .rank = 1,
                  .local_index = 4,
                  .expected_bits = 0x3f800000,
                  .actual_bits = 0x3f800001,
                  .explained_by = row.verdict == Verdict::kExplained ? "order" : ""}};
  }
  return row;
}

// What the first shard says for the whole run: series, faults, curves.
void fill_measured(Recorder& recorder, int commit) {
  for (int s = 0; s < 40; ++s) {
    const std::string series = "dispatch aten::op_" + std::to_string(s) + " cached";
    recorder.record(Series{series, "dispatch", false, false, "us"});
    for (uint64_t k = 0; k < 9; ++k) {
      const double noise =
          static_cast<double>(mixed(k + static_cast<uint64_t>(commit * 100 + s)) % 100) / 2000;
      recorder.record(
          Measurement{series, "us", (s % 10 == 0 && commit > 6 ? 1.15 : 1.0) * (1 + s * 0.1 + noise)});
    }
  }
  for (int f = 0; f < 40; ++f)
    recorder.record(PlantedFault{"fault_" + std::to_string(f), "K" + std::to_string(f % 8), true, 3 + f, 2,
                                 "ops", "v1:x", ""});
  for (const bool reference : {true, false}) {
    const int64_t id =
        recorder.open_curve({reference ? "one device" : "tp:4", "llama tiny", "init",
                             reference ? "1" : "tp:4", "single-device", "exact", "f32", reference});
    for (int64_t step = 1; step <= 200; ++step) {
      const auto loss = static_cast<float>(1 + 3 * std::exp(-static_cast<double>(step) / 60));
      const uint64_t off = reference || step < 40 ? 0 : static_cast<uint64_t>(step / 20);
      Key chain{};
      chain[0] = static_cast<uint8_t>(off);
      chain[1] = static_cast<uint8_t>(step);
      recorder.record(id, {.step = step,
                           .loss_bits = std::bit_cast<uint32_t>(loss) + off,
                           .grad_norm_bits = std::bit_cast<uint32_t>(loss),
                           .chain = chain,
                           .tokens_per_second = 900,
                           .peak_bytes = 1 << 20});
    }
  }
}

void fill(const std::string& path, int64_t cases, int64_t shard, int64_t shards) {
  Store store = Store::open_writer(path);
  for (int commit = 0; commit < kCommits; ++commit) {
    // Half of the cases belong to the newest commit: a page about one build sees a large run too.
    const int64_t here = commit == kCommits - 1 ? cases - (kCommits - 1) * (cases / 2 / (kCommits - 1))
                                                : cases / 2 / (kCommits - 1);
    Recorder recorder(store, run_of(commit), "worker " + std::to_string(shard));
    for (int64_t i = shard; i < here; i += shards) recorder.record(case_of(i, commit));
    if (shard == 0) fill_measured(recorder, commit);
    recorder.finish("finished", commit >= 8 ? 1 : 0);
  }
}

}  // namespace
}  // namespace lockstep::dashboard

int main(int argc, char** argv) {
  std::string file;
  int64_t cases = 10'000, shards = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--cases" && i + 1 < argc)
      cases = std::atoll(argv[++i]);
    else if (word == "--shards" && i + 1 < argc)
      shards = std::atoll(argv[++i]);
    else
      file = word;
  }
  if (file.empty() || cases < 1 || shards < 1) {
    std::fprintf(stderr, "dashboard_fill FILE [--cases N] [--shards K]\n");
    return 2;
  }
  for (int64_t s = 0; s < shards; ++s)
    lockstep::dashboard::fill(file + "." + std::to_string(s), cases, s, shards);
  return 0;
}
