// SPDX-License-Identifier: Apache-2.0
// From rows in a real store to the text of the README.
#include "ci/readme/numbers.h"

#include <bit>

#include "dashboard/store/testing.h"

namespace lockstep::readme {
namespace {

using namespace dashboard;
using dashboard::testing::sample_case;
using dashboard::testing::sample_run;
using dashboard::testing::TemporaryFolder;

void write_run(const std::string& path) {
  Store store = Store::open_writer(path);
  Recorder recorder(store, sample_run(), "w");
  recorder.record(sample_case(1));
  recorder.record(sample_case(2));
  recorder.record(sample_case(3, Verdict::kExplained));
  recorder.record(PlantedFault{"lost_partial", "K1", true, 1234, 2, "ops", "v1:x", ""});
  recorder.record(PlantedFault{"stale_offset", "K2", true, 7, 3, "random", "v1:y", ""});
  recorder.record(Measurement{"cases per second per core", "1/s", 321.4});
  recorder.finish("finished", 0);
}

void write_curve(Recorder& recorder, const char* name, const char* mesh, bool reference, float second_loss,
                 float second_norm = 1) {
  const auto curve = recorder.open_curve({.name = name,
                                          .model = "llama tiny",
                                          .variant = "init+dropout",
                                          .mesh = mesh,
                                          .policy = "single-device",
                                          .lane = "exact",
                                          .dtype = "f32",
                                          .reference = reference});
  recorder.record(curve, CurvePoint{.step = 1, .loss_bits = std::bit_cast<uint32_t>(2.5F)});
  recorder.record(curve, CurvePoint{.step = 2,
                                    .loss_bits = std::bit_cast<uint32_t>(second_loss),
                                    .grad_norm_bits = std::bit_cast<uint32_t>(second_norm)});
}

void write_curves(const std::string& path) {
  Store store = Store::open_writer(path);
  auto run = sample_run();
  run.command = "lockstep curves llama";
  Recorder recorder(store, run, "w");
  write_curve(recorder, "reference", "", true, 2.25F);
  write_curve(recorder, "tp:2", "tp:2", false, 2.25F, 1.0000002F);
  write_curve(recorder, "tp:4", "tp:4", false, 2.2500002F);
  recorder.finish("finished", 0);
}

void write_grid(const std::string& path) {
  Store store = Store::open_writer(path);
  auto run = sample_run();
  run.command = "lockstep run --suite grid";
  Recorder recorder(store, run, "w");
  auto row = sample_case(1);
  row.suite = "grid";
  row.ops = "aten::uniform_";
  int64_t number = 0;
  for (const auto& [shape, verdict] : {std::pair{"256", Verdict::kEqual},
                                       {"31x33x32", Verdict::kEqual},
                                       {"65535", Verdict::kEqual},
                                       {"65536x65536", Verdict::kDifferent}}) {
    row.number = ++number;
    row.token = std::string("v1:grid;mesh=2;x0=f32[") + shape + "]:zeros@[S0];v0=aten::uniform_(x0)#0";
    row.verdict = verdict;
    recorder.record(row);
  }
  recorder.finish("finished", 0);
}

void write_init(const std::string& path) {
  Store store = Store::open_writer(path);
  auto run = sample_run();
  run.command = "lockstep init llama --mesh tp:2 --db init.db";
  Recorder recorder(store, run, "w");
  const auto add = [&](const char* name, double value) {
    recorder.record(Measurement{std::string("init llama tiny tp:2 | ") + name, "", value});
  };
  add("single-device | elements", 1234);
  add("single-device | elements that differ", 0);
  add("single-device | largest difference", 0);
  add("single-device | mean", 0.25);
  add("single-device | deviation", 1.5);
  for (const char* rank : {"rank 0 alone", "rank 1 alone"}) {
    add((std::string(rank) + " | held").c_str(), 2e9);
    add((std::string(rank) + " | most ever held").c_str(), 3e9);
    add((std::string(rank) + " | parameters that differ").c_str(), 0);
    add((std::string(rank) + " | time").c_str(), 4);
  }
  recorder.finish("finished", 0);
}

void write_peers(const std::string& path) {
  Store store = Store::open_writer(path);
  Recorder recorder(store, sample_run(), "w");
  recorder.record(Series{"dispatch add, cached, 1 rank", "dispatch", false, false, "us"});
  recorder.record(Series{"small cases, 4 ranks", "harness", false, true, "1/s"});
  const auto sample = [&](const char* series, const char* arm, double value) {
    recorder.record(Measurement{series, "us", value, arm});
  };
  for (const double noise : {0.0, 0.25, 9.0}) {
    sample("dispatch add, cached, 1 rank", "candidate", 0.75 + noise);
    sample("dispatch add, cached, 1 rank", "again", 0.5);
    sample("dispatch add, cached, 1 rank", "baseline", 8 + noise);
    recorder.record(Measurement{"small cases, 4 ranks", "1/s", 6000, "candidate"});
    recorder.record(Measurement{"small cases, 4 ranks", "1/s", 150, "baseline"});
  }
  recorder.finish("finished", 0);
}

// Every part but that of a large store, of the stores in the folder.
Json all_of(const TemporaryFolder& folder) {
  Json numbers = measure_runs(folder / "run.db", folder / "run.db");
  numbers.update(measure_draws(folder / "grid.db", folder / "init.db", folder / "init.db"));
  numbers["curves"] = measure_curves(folder / "curves.db");
  numbers["peers"] = measure_peers(folder / "peers.db");
  return numbers;
}

// Catches: a renamed view or column, a verdict class counted in the wrong row, a section that loses the page.
TEST(Numbers, AreReadFromTheStoresAndRendered) {
  const TemporaryFolder folder;
  write_run(folder / "run.db");
  write_curves(folder / "curves.db");
  write_grid(folder / "grid.db");
  write_init(folder / "init.db");
  write_peers(folder / "peers.db");
  const Json numbers = all_of(folder);
  EXPECT_EQ(Json::parse(numbers.dump(1)), numbers);
  const std::string section = render(numbers);
  EXPECT_EQ(
      replace_section("a\n<!-- numbers:begin -->\nold\n<!-- numbers:end -->\nb\n", section),
      "a\n<!-- numbers:begin -->\n\n"
      "Measured by `ci/numbers` on 2 cores of Test CPU with libtorch 2.11.0, commit c0ffee.\n\n"
      "| what | number |\n|---|---|\n"
      "| `lockstep run --seed 7`, seed 7 | 3 generated cases over 1 operators in 90 s |\n"
      "| equal, bit for bit | 2 |\n"
      "| different, and explained by both proofs | 1 |\n"
      "| on the list of exceptions | 0 |\n"
      "| unexplained differences, crashes, hangs | 0 |\n"
      "| planted faults found | 2 of 2, each within 1,234 cases, shrunk to at most 3 operators |\n"
      "| `lockstep run --seed 7` | 321 cases a second and core |\n\n"
      "`ci/peers`: this engine and PyTorch's own DTensor of the same version, in turns on Test CPU. Dispatch "
      "is what "
      "an op takes above the plain op, each in its own language; a small case is three ops against one "
      "device, with "
      "all ranks hosted (LocalTensorMode there).\n\n"
      "| what | Lockstep | PyTorch | better by |\n|---|--:|--:|--:|\n"
      "| dispatch add, cached, 1 rank | 1 us | 8.25 us | 8.2 |\n"
      "| small cases, 4 ranks | 6,000 1/s | 150 1/s | 40.0 |\n\n"
      "`lockstep curves llama`: the loss against one device, plain libtorch on the same random stream. "
      "Equal bits and the first difference are of loss and gradient norm together.\n\n"
      "| mesh | random policy | of | steps with equal bits | first difference | loss: largest ulp | largest "
      "difference | gradient norm: largest ulp | largest difference |\n"
      "|---|---|---|--:|--:|--:|--:|--:|--:|\n"
      "| tp:2 | single-device | init+dropout | 1 of 2 | step 2 | 0 | 0 | 2 | 2.38e-07 |\n"
      "| tp:4 | single-device | init+dropout | 1 of 2 | step 2 | 1 | 2.38e-07 | 0 | 0 |\n\n"
      "`lockstep run --suite grid`: cases equal bit for bit, in 1 to 5 dimensions, each dimension cut and "
      "each pair, "
      "evenly and not. Up to 128 KB whole, under devices of one and two blocks; beyond by samples, under "
      "132x2048.\n\n"
      "| operator | to 128 KB | 262 KB | 64 MB | 1 GB | 16 GB |\n|---|--:|--:|--:|--:|--:|\n"
      "| `aten::uniform_` | 2 of 2 | 1 of 1 | 0 of 0 | 0 of 0 | 0 of 1 |\n\n"
      "`lockstep init llama --mesh tp:2`: the model's first values against one device.\n\n"
      "| random policy | elements that differ | of | largest difference | mean | deviation |\n"
      "|---|--:|--:|--:|--:|--:|\n"
      "| single-device | 0 | 1,234 | 0 | 0.25 | 1.5000 |\n\n"
      "`lockstep init llama --mesh tp:2`: each of the 2 ranks, drawn alone, holds up to 2.00 GB, at most "
      "3.00 GB at "
      "once, in up to 4 s; 0 parameters differ from one device.\n\n"
      "<!-- numbers:end -->\nb\n");
}

// Catches: indexed curves whose reader takes them for curves of the stock stream; a picture that is drawn and
// not shown.
TEST(Numbers, OfCurves) {
  const TemporaryFolder folder;
  write_curves(folder / "curves.db");
  write_run(folder / "run.db");
  write_grid(folder / "grid.db");
  write_init(folder / "init.db");
  write_peers(folder / "peers.db");
  Json numbers = all_of(folder);
  EXPECT_EQ(numbers["curves"], measure_curves(folder / "curves.db"));
  numbers["curves"]["commit"] = "0123456789abcdef";  // measured later
  numbers["curves"]["picture"] = "golden/c.png";
  numbers["curves"]["rows"][1]["policy"] = "indexed";
  const auto section = render(numbers);
  EXPECT_NE(section.find("`lockstep curves llama`, commit 0123456789ab: the loss"), std::string::npos);
  EXPECT_NE(section.find("; under the indexed policy, one device on the indexed numbers. Equal bits and "
                         "the first difference are of loss and gradient norm together.\n\n![Loss "),
            std::string::npos);
  EXPECT_NE(section.find("](golden/c.png)\n\n| mesh |"), std::string::npos);
}

// Catches: a page of older numbers that can no longer be checked, or that shows columns of nothing.
TEST(Numbers, OfCurvesWithoutGradientNorms) {
  const TemporaryFolder folder;
  write_curves(folder / "curves.db");
  write_run(folder / "run.db");
  write_grid(folder / "grid.db");
  write_init(folder / "init.db");
  write_peers(folder / "peers.db");
  Json numbers = all_of(folder);
  for (auto& row : numbers["curves"]["rows"]) {
    row.erase("max_grad_norm_ulp");
    row.erase("max_grad_norm_abs");
  }
  const auto section = render(numbers);
  EXPECT_NE(section.find("| first difference | loss: largest ulp | largest difference |\n"
                         "|---|---|---|--:|--:|--:|--:|\n"
                         "| tp:2 | single-device | init+dropout | 1 of 2 | step 2 | 0 | 0 |\n"),
            std::string::npos)
      << section;
}

// Catches: a large store's numbers that are lost, or stand in the wrong column.
TEST(Numbers, OfALargeStore) {
  const TemporaryFolder folder;
  write_peers(folder / "peers.db");
  write_run(folder / "run.db");
  write_curves(folder / "curves.db");
  write_grid(folder / "grid.db");
  write_init(folder / "init.db");
  Json numbers = all_of(folder);
  const std::string without = render(numbers);
  numbers["scale"] =
      Json::parse(R"({"cases": 1000000, "rows": [{"what": "merge", "seconds": 7.25, "mib": 60}],
                                     "slowest_page_ms": 120, "server_mib": 99})");
  EXPECT_EQ(render(numbers), without +
                                 "`ci/serve_bench`: a database of 1,000,000 cases.\n\n"
                                 "| what | seconds | memory |\n|---|--:|--:|\n"
                                 "| merge | 7.2 | 60 MiB |\n"
                                 "| the dashboard's slowest page | 0.12 | 99 MiB |\n\n");
}

// Catches: a README written from a store that does not hold the numbers.
TEST(Numbers, MissingOnesAreAnError) {
  const TemporaryFolder folder;
  write_run(folder / "run.db");
  write_curves(folder / "curves.db");
  write_grid(folder / "grid.db");
  write_init(folder / "init.db");
  write_peers(folder / "peers.db");
  const auto run = folder / "run.db", curves = folder / "curves.db", grid = folder / "grid.db",
             init = folder / "init.db";
  EXPECT_NO_THROW(all_of(folder));
  EXPECT_THROW(measure_runs(curves, run), std::runtime_error);
  EXPECT_THROW(measure_runs(run, curves), std::runtime_error);
  EXPECT_THROW(measure_draws(run, init, init), std::runtime_error);
  EXPECT_THROW(measure_draws(grid, run, init), std::runtime_error);
  EXPECT_THROW(measure_draws(grid, init, run), std::runtime_error);
  EXPECT_THROW(measure_curves(run), std::runtime_error);
  EXPECT_THROW(measure_peers(run), std::runtime_error);
  EXPECT_THROW(replace_section("no markers", ""), std::runtime_error);
}

}  // namespace
}  // namespace lockstep::readme
