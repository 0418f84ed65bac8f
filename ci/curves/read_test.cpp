// SPDX-License-Identifier: Apache-2.0
// JSONL, CSV and torchtitan's log: what is read, what is refused, and that nothing is left out silently.
#include "ci/curves/read.h"

#include "ci/curves/lines.h"
#include "ci/curves/testing.h"

namespace lockstep::curves {
namespace {

using testing::Folder;
using testing::has;
using testing::noted;
using testing::refusal;
using testing::steps_of;
using Steps = std::vector<int64_t>;

// Catches: a number that went through a double's shortest text, bits that lose to decimals, a lost header.
TEST(Jsonl, NumbersBitsAndEnvironment) {
  const Folder folder;
  const auto log =
      read(folder.write("a",
                        "{\"environment\":{\"gpu\":\"H100\",\"ranks\":8,\"env\":{\"A\":1.50}}}\n"
                        "{\"step\":1,\"loss\":7.10,\"grad_norm\":NaN}\r\n\n"
                        "{\"step\":2.0,\"loss\":9,\"loss_bits\":\"0x40e33333\",\"grad_norm\":-0}\n"
                        "{\"step\":3,\"loss\":\"7.25\",\"grad_norm\":null}\n"),
           {});
  EXPECT_EQ(log.format, "jsonl");
  EXPECT_EQ(log.environment.at("gpu"), "H100");
  EXPECT_EQ(log.environment.at("ranks"), "8");
  EXPECT_EQ(log.environment.at("env"), R"({"A":"1.50"})");
  ASSERT_EQ(steps_of(log), (Steps{1, 2, 3}));
  EXPECT_EQ(log.points[0].loss->digits, 3);
  EXPECT_EQ(log.points[0].grad_norm->digits, kNoDigits);
  EXPECT_EQ(log.points[1].loss->bits, 0x40e33333u);
  EXPECT_TRUE(log.points[1].loss->exact());
  EXPECT_EQ(log.points[1].grad_norm->bits, uint64_t{1} << 63);
  EXPECT_EQ(log.points[2].loss->value(), 7.25);
  EXPECT_FALSE(log.points[2].grad_norm);
}

// Catches: a resumed run that counts twice, or whose first half wins; lines without a step that vanish.
TEST(Jsonl, RepeatedLateAndOtherLinesAreCounted) {
  const Folder folder;
  const auto log =
      read(folder.write("a",
                        "{\"step\":1,\"loss\":1}\n{\"step\":3,\"loss\":3}\n{\"step\":2,\"loss\":2}\n"
                        "{\"step\":1,\"loss\":1}\n{\"step\":3,\"loss\":4}\n{\"lr\":1}\n{\"step\":9}\n"),
           {});
  EXPECT_EQ(steps_of(log), (Steps{1, 2, 3}));
  EXPECT_EQ(log.points[2].loss->value(), 4);
  EXPECT_TRUE(noted(log.notes, "2 numbers were given again"));
  EXPECT_TRUE(noted(log.notes, "1 of them changed"));
  EXPECT_TRUE(noted(log.notes, "1 numbers came after one of a later step"));
  EXPECT_TRUE(noted(log.notes, "1 lines have no step"));
  EXPECT_TRUE(noted(log.notes, "1 lines have neither"));
}

// Catches: a promise of exact texts that is not heard, usual names that are not found.
TEST(Jsonl, PromisesAndNames) {
  const Folder folder;
  const auto log =
      read(folder.write("a", "{\"round_trip\":\"f32\"}\n{\"_step\":1,\"train/loss\":0.1}\n"), {});
  EXPECT_EQ(log.points.at(0).loss->bits, std::bit_cast<uint32_t>(0.1f));
  EXPECT_TRUE(noted(log.notes, "'train/loss'"));
  const auto named = read(folder.write("b", "{\"n\":1,\"x\":0.5,\"loss\":7}\n"),
                          {.format = "jsonl", .step = "n", .loss = "x"});
  EXPECT_EQ(named.points.at(0).loss->value(), 0.5);
}

// Catches: a damaged file that is read as far as it goes; a cut last line that is an error.
TEST(Jsonl, Refusals) {
  const Folder folder;
  const ReadOptions jsonl{.format = "jsonl"};
  const std::string good = "{\"step\":1,\"loss\":1}\n";
  EXPECT_TRUE(
      has(refusal(folder.write("a", good + "garbage\n" + good)), "line 2 is no JSON object: 'garbage'"));
  EXPECT_TRUE(
      has(refusal(folder.write("b", good + "{\"step\":1.5,\"loss\":1}\n")), "a step is a whole number"));
  EXPECT_TRUE(has(refusal(folder.write("c", good + "{\"step\":2,\"loss\":true}\n")), "loss is 'true'"));
  EXPECT_TRUE(has(refusal(folder.write("d", good + "{\"step\":2,\"loss\":1e999}\n")), "is no number of f64"));
  EXPECT_TRUE(has(refusal(folder.write("e", good + "{\"step\":2,\"loss_bits\":\"zz\"}\n")), "16 hex digits"));
  EXPECT_TRUE(has(refusal(folder.write("f", good + "{\"step\":2,\"loss_bits\":1065353216}\n")), "as a text"));
  EXPECT_TRUE(
      has(refusal(folder.write("g", std::string("\x00\xff\x01{}", 5)), jsonl), "'\\x00\\xff\\x01{}'"));
  EXPECT_TRUE(has(
      refusal(folder.write("h", "{\"step\":1,\"loss\":\"" + std::string(kLongestLine, '1') + "\"}"), jsonl),
      "16 MiB"));
  EXPECT_TRUE(has(refusal((folder.path / "none").string()), "No such file"));
  EXPECT_TRUE(has(refusal(folder.write("i", "[1,2]\n"), jsonl), "no JSON object"));
  EXPECT_TRUE(has(refusal(folder.write("j", std::string(100000, '[')), jsonl), "no JSON object"));
  const auto cut = read(folder.write("k", good + "{\"step\":2,\"lo"), {});
  EXPECT_EQ(steps_of(cut), Steps{1});
  EXPECT_TRUE(noted(cut.notes, "ends within line 2"));
  EXPECT_TRUE(noted(read(folder.write("l", ""), {}).notes, "the file is empty"));
  EXPECT_TRUE(read(folder.write("m", " \n\n"), {}).points.empty());
}

// Catches: quotes, doubled quotes, line ends in cells and other separators that shift columns.
TEST(Csv, QuotingAndColumns) {
  const Folder folder;
  const auto log = read(folder.write("a.csv",
                                     "\xef\xbb\xbfstep,\"note\",loss,\"grad_norm\"\r\n"
                                     "1,\"a,\"\"b\"\"\nc\",7.10,1e-3\r\n2,,7.2,\r\n3,x,\"7.3\",nan\r\n"),
                        {});
  EXPECT_EQ(log.format, "csv");
  ASSERT_EQ(steps_of(log), (Steps{1, 2, 3}));
  EXPECT_EQ(log.points[0].loss->digits, 3);
  EXPECT_FALSE(log.points[1].grad_norm);
  EXPECT_EQ(log.points[2].loss->value(), 7.3);
  const auto tabs = read(folder.write("b", "iteration\tlm loss\n1.0\t2.5\n"), {});
  EXPECT_EQ(tabs.points.at(0).loss->value(), 2.5);
  EXPECT_TRUE(noted(tabs.notes, "'lm loss'"));
  const auto named = read(folder.write("c", "n;v\n1;2\n"), {.format = "csv", .step = "n", .loss = "v"});
  EXPECT_EQ(named.points.at(0).loss->value(), 2);
}

// Catches: rows of another length that are read anyhow, and a file that is cut within a number without a
// word.
TEST(Csv, Refusals) {
  const Folder folder;
  const ReadOptions csv{.format = "csv"};
  EXPECT_TRUE(
      has(refusal(folder.write("a", "step,loss\n1,2\n3\n4,5\n")), "line 3 has 1 cells, the header has 2"));
  EXPECT_TRUE(has(refusal(folder.write("b", "step,loss\n1,abc\n")), "the loss is 'abc'"));
  EXPECT_TRUE(has(refusal(folder.write("c", "step,loss\nx,1\n")), "the step is 'x'"));
  EXPECT_TRUE(has(refusal(folder.write("d", "step,loss\n1,\"2")), "a quote is not closed"));
  EXPECT_TRUE(has(refusal(folder.write("e", "step,loss\n1,\"2\"3\n")), "text follows a closing quote"));
  EXPECT_TRUE(has(refusal(folder.write("f", "a,b\n1,2\n"), csv), "no column for the step; it has 'a', 'b'"));
  EXPECT_TRUE(has(refusal(folder.write("g", "step,loss,loss\n1,2,3\n")), "two columns 'loss'"));
  EXPECT_TRUE(has(refusal(folder.write("h", "step,b\n1,2\n"), {.format = "csv", .loss = "c"}),
                  "no column 'c' for the loss"));
  const auto cut = read(folder.write("i", "step,loss\n1,2\n2,7.12"), {});
  EXPECT_TRUE(noted(cut.notes, "may have been cut short"));
  EXPECT_EQ(steps_of(read(folder.write("j", "step,loss\n1,2\n2"), {})), Steps{1});
  EXPECT_TRUE(read(folder.write("k", "step,loss\n"), {}).points.empty());
}

// Lines as torchtitan prints them.
const char* const kTitan =
    "[rank0]:NCCL version 2.30.7+cuda13.3\n"
    "[rank0]:[titan] 2026-05-18 16:04:46,338 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss:  8.1309  "
    "\x1b[38;2;180;60;0mgrad_norm:  1.5041  \x1b[36mmemory:  9.46GiB(64.99%)  \x1b[34mtps: 7,282\x1b[39m\n"
    "[rank1]:[titan] 2026-05-18 16:04:46,338 - root - INFO - step:  1  loss:  8.2000  grad_norm:  1.5041  "
    "memory: 1\n"
    "[rank0]:[titan] 2026-05-18 16:04:47,400 - root - INFO - Dumping profiler traces at step 1\n"
    "[rank0]:[titan] 2026-05-18 16:04:48,400 - root - INFO - validate step:  1  loss:  9.0000  memory: 1\n"
    "[rank0]:[titan] 2026-05-18 16:04:49,456 - root - INFO - step: 10  loss:  7.5001  memory:  9.46GiB\n"
    "[rank0]:[titan] 2026-05-18 16:04:50,456 - root - INFO - step: 11  loss:  7.5step: 3  memory:  9.46GiB\n";

// Catches: colours within numbers, another rank's line, validation as training, a lost gradient norm as zero.
TEST(Torchtitan, ColoursRanksAndValidation) {
  const Folder folder;
  const auto path = folder.write("a.log", kTitan);
  const auto log = read(path, {});
  EXPECT_EQ(log.format, "torchtitan");
  ASSERT_EQ(steps_of(log), (Steps{1, 10}));
  EXPECT_EQ(log.points[0].loss->value(), 8.1309);
  EXPECT_EQ(log.points[0].loss->digits, 5);
  EXPECT_EQ(log.points[0].grad_norm->value(), 1.5041);
  EXPECT_FALSE(log.points[1].grad_norm);
  EXPECT_TRUE(noted(log.notes, "1 other ranks were left out"));
  EXPECT_TRUE(noted(log.notes, "1 lines of validation"));
  EXPECT_TRUE(noted(log.notes, "1 lines of steps could not be read, the first is line 7"));
  EXPECT_EQ(read(path, {.rank = 1}).points.at(0).loss->value(), 8.2);
  EXPECT_TRUE(has(refusal(path, {.rank = 5}), "no step of rank 5"));
}

// Catches: a number that was cut at the end of the file and is taken for a shorter one.
TEST(Torchtitan, CutWithinANumber) {
  const Folder folder;
  const std::string line = "[titan] - root - INFO - step: 1  loss: 8.1309  grad_norm: 1.50";
  const auto log = read(folder.write("a.log", line + "41  memory: 1\n" + line), {.format = "torchtitan"});
  EXPECT_EQ(log.points.at(0).grad_norm->value(), 1.5041);
  EXPECT_TRUE(noted(log.notes, "1 lines of steps could not be read"));
}

// Catches: a guess where there is nothing to guess from.
TEST(Read, UnknownFormats) {
  const Folder folder;
  EXPECT_TRUE(
      has(refusal(folder.write("a", "a novel, by nobody\n")), "no format that is known here; say --format"));
  EXPECT_TRUE(has(refusal(folder.write("b", "x"), {.format = "xml"}), "there is no format 'xml'"));
}

}  // namespace
}  // namespace lockstep::curves
