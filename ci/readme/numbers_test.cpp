// SPDX-License-Identifier: Apache-2.0
// From rows in a real store to the text of the README.
#include "ci/readme/numbers.h"

#include <bit>

#include "dashboard/testing.h"

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

void write_curve(Recorder& recorder, const char* name, const char* mesh, bool reference, float second_loss) {
  const auto curve = recorder.open_curve({.name = name,
                                          .model = "llama tiny",
                                          .variant = "init+dropout",
                                          .mesh = mesh,
                                          .policy = "single-device",
                                          .lane = "exact",
                                          .dtype = "f32",
                                          .reference = reference});
  recorder.record(curve, CurvePoint{.step = 1, .loss_bits = std::bit_cast<uint32_t>(2.5F)});
  recorder.record(curve, CurvePoint{.step = 2, .loss_bits = std::bit_cast<uint32_t>(second_loss)});
}

void write_curves(const std::string& path) {
  Store store = Store::open_writer(path);
  auto run = sample_run();
  run.command = "lockstep curves llama";
  Recorder recorder(store, run, "w");
  write_curve(recorder, "reference", "", true, 2.25F);
  write_curve(recorder, "tp:2", "tp:2", false, 2.25F);
  write_curve(recorder, "tp:4", "tp:4", false, 2.2500002F);
  recorder.finish("finished", 0);
}

// Catches: a renamed view or column, a verdict class counted in the wrong row, a section that loses the page.
TEST(Numbers, AreReadFromTheStoresAndRendered) {
  const TemporaryFolder folder;
  write_run(folder / "run.db");
  write_curves(folder / "curves.db");
  const Json numbers = measure({folder / "run.db", folder / "run.db", folder / "curves.db"});
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
      "`lockstep curves llama`: the loss against one device, plain libtorch on the same random stream.\n\n"
      "| mesh | random policy | of | steps with equal bits | first difference | largest ulp | largest "
      "difference |\n"
      "|---|---|---|--:|--:|--:|--:|\n"
      "| tp:2 | single-device | init+dropout | 2 of 2 | none | 0 | 0 |\n"
      "| tp:4 | single-device | init+dropout | 1 of 2 | step 2 | 1 | 2.38e-07 |\n\n"
      "<!-- numbers:end -->\nb\n");
}

// Catches: a README written from a store that does not hold the numbers.
TEST(Numbers, MissingOnesAreAnError) {
  const TemporaryFolder folder;
  write_run(folder / "run.db");
  write_curves(folder / "curves.db");
  EXPECT_THROW(measure({folder / "curves.db", folder / "run.db", folder / "curves.db"}), std::runtime_error);
  EXPECT_THROW(measure({folder / "run.db", folder / "curves.db", folder / "curves.db"}), std::runtime_error);
  EXPECT_THROW(replace_section("no markers", ""), std::runtime_error);
}

}  // namespace
}  // namespace lockstep::readme
