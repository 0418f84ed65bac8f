// SPDX-License-Identifier: Apache-2.0
// The law: what is saved from any placements is, by the published form of its files, the tensors, each
// element once, of which no byte has moved; loaded into any others it is the same in every bit, and where a
// file was harmed all of it is still right, or the load says what is not, and nothing was written. saving.h
// says what a case is.
#include <ATen/ATen.h>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/ownership.h"
#include "suites/checkpoint/saved.h"
#include "suites/core/judge.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

using at::Tensor;

// Of the words in which processes tell each other how it went: four of 8 bytes, from each to each.
constexpr int64_t kBytesOfVerdicts = 4 * 8;

// What the ranks are to hold, one behind the other.
Tensor held(const Saving& s, size_t tensor, uint64_t age) {
  const auto whole = s.value(tensor, age);
  const Spec spec(s.onto, s.into[tensor], s.shapes[tensor], s.dtypes[tensor]);
  std::vector<Tensor> row;
  for (int64_t rank = 0; rank < s.mesh.size(); ++rank) {
    row.push_back(at::zeros({1}, at::kByte));
    if (s.is_plain(tensor))
      row.push_back(whole.flatten().view(at::kByte));
    else if (rank < s.onto.size())
      row.push_back(oracle::slice(whole, spec, rank).contiguous().flatten().view(at::kByte));
  }
  return at::cat(row);
}

class Report {
 public:
  Report(const Saving& s, const EngineResult& result) : s_(s), values_(result.values) {}

  std::string unlike() const {
    const size_t n = s_.shapes.size();
    if (values_.size() != 2 * n + 2) return concat(values_.size(), " values come of it, not ", 2 * n + 2);
    if (auto why = moved(); !why.empty()) return why;
    if (auto why = s_.harm == Harm::kNone ? other_files() : ""; !why.empty()) return why;
    const bool refused = fact(SavingFact::kRefused) != 0;
    if (refused && s_.harm == Harm::kNone) return "the load refuses what was saved";
    if (refused && fact(SavingFact::kNamed) == 0) return "the load refuses it, and does not say what";
    bool goes_on = true;  // of loads one by one, from the last on
    for (size_t i = n; i-- > 0;) {
      const auto got = global(values_[i]);
      const auto before = oracle::compare(held(s_, i, 2), got), after = oracle::compare(held(s_, i, 0), got);
      const bool may_be_loaded = !refused || (s_.one_by_one != 0 && goes_on);
      if (after.equal() && may_be_loaded) continue;
      goes_on = false;
      if (!refused || !before.equal())
        return concat(s_.name(i), refused ? ", though the load refuses it: " : ": ",
                      oracle::describe(refused ? before : after, at::kByte));
    }
    return "";
  }

 private:
  static Tensor global(const EngineValue& value) {
    const auto whole = oracle::assemble(value.locals, *value.spec);
    LOCKSTEP_CHECK(!whole.disagreement, whole.disagreement->text);
    return whole.global;
  }
  int64_t fact(SavingFact which) const {
    return global(values_[values_.size() - 2])[static_cast<int64_t>(which)].item<int64_t>();
  }

  std::string moved() const {
    const auto sent = global(values_.back());
    const int64_t most = kBytesOfVerdicts * (s_.mesh.size() - 1);
    for (int64_t rank = 0; rank < sent.numel(); ++rank)
      if (const auto bytes = sent[rank].item<int64_t>(); bytes > most)
        return concat("rank ", rank, " sends ", bytes, " bytes while it saves, and ", most,
                      " tell how it went");
    return "";
  }

  std::string other_files() const {
    if (fact(SavingFact::kUnlisted) != 0)
      return concat(fact(SavingFact::kUnlisted), " tensors of files are not in the index, or the other way");
    if (fact(SavingFact::kRepeated) != 0)
      return concat(fact(SavingFact::kRepeated), " elements are not once in the files");
    if (fact(SavingFact::kFiles) > s_.mesh.size())
      return concat(fact(SavingFact::kFiles), " files of ", s_.mesh.size(), " ranks");
    for (size_t i = 0; i < s_.shapes.size(); ++i) {
      const auto expected = s_.value(i);
      const auto difference = oracle::compare(expected, global(values_[s_.shapes.size() + i]));
      if (!difference.equal())
        return concat("the files have another ", s_.name(i), ": ",
                      oracle::describe(difference, expected.scalar_type()));
    }
    return "";
  }

  const Saving& s_;
  const std::vector<EngineValue>& values_;
};

}  // namespace

oracle::Case checkpoint_case(uint64_t run_seed, int64_t index) {
  return case_of(any_saving(run_seed, index));
}

void check_checkpoint(const oracle::Case& c) {
  saving_of(c);
}

std::vector<oracle::Case> simpler_checkpoint(const oracle::Case& c) {
  return simpler_savings(c);
}

EngineResult run_checkpoint(const WorldPtr& world, const oracle::Case& c) {
  const auto saving = saving_of(c);
  EngineResult ends;
  for (const auto& tensor : saved_and_loaded(world, saving)) ends.values.push_back(value_of(tensor));
  return ends;
}

Outcome judge_checkpoint(const oracle::Case& c, EngineUnderTest& engine) {
  const auto saving = saving_of(c);
  EngineResult result;
  if (auto failure = fails_to_run(c, engine, result)) return *std::move(failure);
  if (const auto why = Report(saving, result).unlike(); !why.empty())
    return failed("checkpoint", "different", "", "-", dtype_name(saving.dtypes[0]), why);
  return Passed{};
}

}  // namespace lockstep::suites
