// SPDX-License-Identifier: Apache-2.0
// Where two logs of digests part: at fault, fed with something else, or another sequence.
#include "ci/curves/localize.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "ci/curves/testing.h"

namespace lockstep::curves {
namespace {

using testing::Folder;
using testing::has;
using testing::noted;

struct Op {
  int64_t step, seq, rank;
  std::string name, input = "aa", output = "bb", phase = "forward";
};

// Two ranks, three steps, four ops each.
std::vector<Op> program() {
  std::vector<Op> ops;
  for (const int64_t step : {1, 2, 3})
    for (const int64_t rank : {0, 1})
      for (const int64_t seq : {0, 1, 2, 3})
        ops.push_back(
            {step, seq, rank, std::vector<std::string>{"mm", "relu", "mm", "sum"}[static_cast<size_t>(seq)]});
  return ops;
}

Op& at(std::vector<Op>& ops, int64_t step, int64_t rank, int64_t seq) {
  for (auto& op : ops)
    if (op.step == step && op.rank == rank && op.seq == seq) return op;
  throw std::logic_error("no such op");
}

std::string text_of(const std::vector<Op>& ops) {
  std::string text;
  for (const auto& op : ops)
    text += concat(R"({"step":)", op.step, R"(,"seq":)", op.seq, R"(,"op":")", op.name, R"(","rank":)",
                   op.rank, R"(,"phase":")", op.phase, R"(","inputs":[")", op.input, R"("],"outputs":["0)",
                   op.output, "\"]}\n");
  return text;
}

Localized located(const std::vector<Op>& reference, const std::vector<Op>& candidate) {
  const Folder folder;
  return localize(folder.write("a.jsonl", text_of(reference)), folder.write("b.jsonl", text_of(candidate)));
}

void expect_at(const Localized& l, int64_t step, int64_t position, int64_t rank, const char* what,
               const char* op) {
  EXPECT_EQ(l.row.step, step) << l.text;
  EXPECT_EQ(l.row.position, position) << l.text;
  EXPECT_EQ(l.row.rank, rank) << l.text;
  EXPECT_EQ(l.row.what, what) << l.text;
  EXPECT_EQ(l.row.op, op) << l.text;
}

// Catches: equal logs that part; entries that are not compared.
TEST(Localize, EqualLogs) {
  const auto l = located(program(), program());
  EXPECT_FALSE(l.row.step);
  EXPECT_EQ(l.row.compared, 24);
  EXPECT_EQ(l.steps, 3);
  EXPECT_TRUE(has(l.text, "all 24 entries of 3 common steps agree"));
}

// Catches: an op blamed that was only fed with what another spoilt; a later rank or step told first.
TEST(Localize, OutputBeforeWhatFollows) {
  auto spoilt = program();
  at(spoilt, 2, 1, 1).output = "ff";
  at(spoilt, 2, 1, 2).input = at(spoilt, 2, 1, 2).output = "ff";
  at(spoilt, 2, 0, 2).output = at(spoilt, 3, 0, 0).input = "ff";
  const auto l = located(program(), spoilt);
  expect_at(l, 2, 1, 1, "output", "relu (forward)");
  EXPECT_EQ(l.row.expected, "output 0: 0bb");
  EXPECT_EQ(l.row.got, "output 0: 0ff");
  EXPECT_TRUE(has(l.text, "the op itself is at fault"));
}

// Catches: data or weights that differ taken for the fault of the op that reads them; on another rank at the
// same position, an output that follows from it.
TEST(Localize, InputsThatNoLoggedOpMade) {
  auto spoilt = program();
  at(spoilt, 1, 1, 2).input = at(spoilt, 1, 1, 2).output = "ff";
  at(spoilt, 1, 0, 2).output = "ff";
  const auto l = located(program(), spoilt);
  expect_at(l, 1, 2, 1, "input", "mm (forward)");
  EXPECT_TRUE(has(l.text, "was not logged"));
}

// Catches: a lost, added or changed op that shifts all others and is told as their difference.
TEST(Localize, Sequences) {
  auto lost = program();
  std::erase_if(lost, [](const Op& op) { return op.step == 2 && op.rank == 0 && op.seq == 1; });
  auto l = located(program(), lost);
  expect_at(l, 2, 1, 0, "missing", "relu (forward)");
  EXPECT_TRUE(has(l.text, "is missing"));
  l = located(lost, program());
  expect_at(l, 2, 1, 0, "sequence", "mm (forward)");
  EXPECT_TRUE(has(l.text, "relu (forward) was added")) << l.text;
  auto other = program();
  at(other, 3, 1, 3).name = "mean";
  l = located(program(), other);
  expect_at(l, 3, 3, 1, "sequence", "sum (forward)");
  EXPECT_TRUE(has(l.text, "another op ran")) << l.text;
  other = program();
  at(other, 3, 1, 0).phase = "backward";
  expect_at(located(program(), other), 3, 0, 1, "sequence", "mm (forward)");
  auto end = program();
  end.pop_back();
  l = located(program(), end);
  expect_at(l, 3, 3, 1, "missing", "sum (forward)");
  EXPECT_EQ(l.row.got, "the end of the step");
}

// The ops of one rank and step, each of its own name.
std::vector<Op> numbered(int64_t n) {
  std::vector<Op> ops;
  for (int64_t i = 0; i < n; ++i) ops.push_back({1, i, 0, "op" + std::to_string(i)});
  return ops;
}
std::vector<Op> in_order(std::vector<Op> ops) {
  for (size_t i = 0; i < ops.size(); ++i) ops[i].seq = static_cast<int64_t>(i);
  return ops;
}

// Catches: an insertion, a deletion or a change of order longer than a look-ahead, told as another op.
TEST(Localize, LongEdits) {
  const auto ops = numbered(3000);
  auto more = ops;
  for (int64_t i = 0; i < 1000; ++i)
    more.insert(more.begin() + 2000, {1, 0, 0, "new" + std::to_string(999 - i)});
  auto l = located(ops, in_order(more));
  expect_at(l, 1, 2000, 0, "sequence", "op2000 (forward)");
  EXPECT_TRUE(has(l.text, "1000 ops were added, new0 (forward) the first")) << l.text;
  l = located(in_order(more), ops);
  expect_at(l, 1, 2000, 0, "missing", "new0 (forward)");
  EXPECT_TRUE(has(l.text, "1000 ops are missing, new0 (forward) the first")) << l.text;
  auto turned = ops;
  std::rotate(turned.begin() + 100, turned.begin() + 300, turned.begin() + 2000);  // 200 ops go back by 1,500
  l = located(ops, in_order(turned));
  expect_at(l, 1, 100, 0, "sequence", "op100 (forward)");
  EXPECT_TRUE(has(l.text, "200 ops were moved, op100 (forward) the first: position 1800 in the candidate"))
      << l.text;
  l = located(in_order(turned), ops);
  expect_at(l, 1, 100, 0, "sequence", "op300 (forward)");
  EXPECT_TRUE(has(l.text, "200 ops were moved, op100 (forward) the first: position 1800 in the reference"))
      << l.text;
  auto swapped = ops;
  std::swap(swapped[7], swapped[8]);
  EXPECT_TRUE(has(located(ops, in_order(swapped)).text, "was moved"));
  auto others = numbered(6000);
  for (auto& op : others) op.name = "x" + op.name;
  l = located(numbered(6000), others);
  expect_at(l, 1, 0, 0, "sequence", "op0 (forward)");
  EXPECT_TRUE(has(l.text, "too different to be aligned (more than 4096 edits)")) << l.text;
}

// Catches: a shorter run that is a difference, a hole in the middle that is none, nothing in common that
// passes.
TEST(Localize, StepsOfOneSide) {
  const auto steps = [](std::set<int64_t> kept) {
    auto ops = program();
    std::erase_if(ops, [&](const Op& op) { return !kept.contains(op.step); });
    return ops;
  };
  auto l = located(program(), steps({2}));
  EXPECT_FALSE(l.row.step);
  EXPECT_TRUE(noted(l.notes, "1 steps before the first common one are in the reference alone"));
  EXPECT_TRUE(noted(l.notes, "1 steps after the last common one are in the reference alone"));
  l = located(program(), steps({1, 3}));
  EXPECT_EQ(l.row.step, 2);
  EXPECT_EQ(l.row.what, "missing");
  l = located(steps({1, 3}), program());
  EXPECT_EQ(l.row.step, 2);
  EXPECT_EQ(l.row.what, "sequence");
  EXPECT_EQ(located(steps({1}), steps({2, 3})).steps, 0);
  EXPECT_EQ(located({}, {}).steps, 0);
}

// Catches: ranks in files of their own, interleaved otherwise, or without seq that are paired by line number.
TEST(Localize, InterleavingDoesNotMatter) {
  const Folder folder;
  auto ops = program();
  const auto whole = folder.write("whole.jsonl", text_of(ops));
  std::stable_sort(ops.begin(), ops.end(), [](const Op& a, const Op& b) {
    return std::tie(a.step, b.rank) < std::tie(b.step, a.rank);
  });
  EXPECT_FALSE(localize(whole, folder.write("turned.jsonl", text_of(ops))).row.step);
  for (const int64_t rank : {0, 1}) {
    auto mine = program();
    std::erase_if(mine, [&](const Op& op) { return op.rank != rank; });
    folder.write("ranks/" + std::to_string(rank) + ".jsonl", text_of(mine));
  }
  const auto l = localize(whole, (folder.path / "ranks").string());
  EXPECT_FALSE(l.row.step);
  EXPECT_EQ(l.row.compared, 24);
  const auto bare = folder.write(
      "c.jsonl",
      "{\"step\":1,\"op\":\"a\",\"outputs\":[\"AB\"]}\n{\"step\":1,\"op\":\"b\",\"outputs\":[null]}\n");
  const auto same = folder.write(
      "d.jsonl",
      "{\"step\":1,\"op\":\"a\",\"outputs\":[\"ab\"]}\n{\"step\":1,\"op\":\"b\",\"outputs\":[\"00\"]}\n");
  const auto found = localize(bare, same);
  expect_at(found, 1, 1, 0, "output", "b");
  EXPECT_EQ(found.row.expected, "output 0: none");
  EXPECT_TRUE(has(found.text, "Inputs were not logged"));
}

std::string refusal(const std::string& text) {
  const Folder folder;
  const auto path = folder.write("a.jsonl", text);
  try {
    localize(path, path);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// Catches: a log that was appended to an older one, unsorted or damaged, and is compared anyhow.
TEST(Localize, Refusals) {
  const std::string good = "{\"step\":2,\"seq\":1,\"op\":\"a\",\"outputs\":[\"00\"]}\n";
  EXPECT_TRUE(has(refusal(good + good), "seq 1 stood in line 1 already"));
  EXPECT_TRUE(has(refusal(good + "{\"step\":1,\"op\":\"a\",\"outputs\":[]}\n"), "sort the log by step"));
  EXPECT_TRUE(has(refusal(good + "{\"step\":2,\"op\":\"a\"}\n"), "there are no outputs"));
  EXPECT_TRUE(has(refusal("{\"step\":2,\"op\":7,\"outputs\":[12]}\n"), "write it as a text of hex digits"));
  EXPECT_TRUE(has(refusal("{\"step\":2,\"op\":\"a\",\"outputs\":[\"xy\"]}\n"), "in hex digits"));
  EXPECT_TRUE(has(refusal("{\"step\":2,\"op\":\"a\",\"rank\":\"0\",\"outputs\":[]}\n"),
                  "the rank is no whole number"));
  EXPECT_TRUE(has(refusal("{\"op\":\"a\",\"outputs\":[]}\n"), "a line needs step"));
  EXPECT_TRUE(has(refusal("\xff\xfe\n"), "no JSON object"));
  EXPECT_EQ(refusal(good + "{\"step\":2,\"op"), "");
}

}  // namespace
}  // namespace lockstep::curves
