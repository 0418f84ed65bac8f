// SPDX-License-Identifier: Apache-2.0
// torchtitan's log, as it is seen: lines such as
//   [rank0]:[titan] 2026-05-18 16:04:46,338 - root - INFO - step: 14  loss:  3.24405  grad_norm:  0.8319  …
// with or without colours, the rank's prefix (torchrun writes one), and the gradient norm.
#include <algorithm>

#include "ci/curves/lines.h"
#include "ci/curves/read.h"
#include "engine/values/error.h"

namespace lockstep::curves {
namespace {

// The number in "[rank3]:", "[default3]:" at the beginning; -1: no prefix.
int64_t rank_of(std::string_view text) {
  if (!text.starts_with('[')) return -1;
  const auto close = text.find("]:");
  if (close == std::string_view::npos || close > 24) return -1;
  auto name = text.substr(1, close - 1);
  const auto digits = name.find_first_of("0123456789");
  if (digits == std::string_view::npos || digits == 0) return -1;
  return parse_step(name.substr(digits)).value_or(-1);
}

// What stands after "name:" and blanks, up to the next blank. `from` moves behind it. Empty: not there; `cut`
// if the text ends with it.
std::string_view word_after(std::string_view text, std::string_view name, size_t& from, bool& cut) {
  for (auto at = text.find(name, from); at != std::string_view::npos; at = text.find(name, at + 1)) {
    if (at > 0 && text[at - 1] != ' ') continue;
    const auto begin = text.find_first_not_of(' ', at + name.size());
    if (begin == std::string_view::npos) return {};
    const auto end = std::min(text.find(' ', begin), text.size());
    cut = end == text.size();
    from = end;
    return text.substr(begin, end - begin);
  }
  return {};
}

struct StepLine {
  int64_t rank = -1;
  int64_t step = 0;
  std::optional<Number> numbers[2]{};
};

enum class Kind { kOther, kStep, kValidation, kUnreadable };

Kind parse(const Line& line, const std::string& round_trip, StepLine& out) {
  const auto clean = without_colours(line.text);
  const std::string_view text = clean;
  size_t from = 0;
  bool cut = false;
  const auto step = word_after(text, "step:", from, cut);
  if (step.empty()) return Kind::kOther;
  const auto before = text.substr(0, text.rfind("step:", from));
  if (before.ends_with("validate ")) return Kind::kValidation;
  if (text.find("loss:", from) == std::string_view::npos) return Kind::kOther;
  out = {.rank = rank_of(text)};
  const auto number = parse_step(step);
  if (!number) return Kind::kUnreadable;
  out.step = *number;
  for (const auto field : kFields) {
    const auto key = concat(kFieldNames[field], ":");
    const auto word = word_after(text, key, from, cut);
    if (word.empty() && field == kGradNorm && text.find(key, from) == std::string_view::npos) break;
    const auto n = parse_decimal(word, round_trip);
    if (!n || (cut && !line.whole)) return Kind::kUnreadable;
    out.numbers[field] = n;
  }
  return Kind::kStep;
}

}  // namespace

Log read_torchtitan(const std::string& path, const ReadOptions& options) {
  Log log;
  std::map<int64_t, Collector> ranks;
  int64_t validation = 0, unreadable = 0, first_unreadable = 0, too_long = 0;
  Lines lines(path);
  for (Line line; lines.next(line);) {
    StepLine found;
    too_long += line.too_long ? 1 : 0;
    const auto kind = parse(line, options.round_trip, found);
    if (kind == Kind::kValidation) ++validation;
    if (kind == Kind::kUnreadable && ++unreadable == 1) first_unreadable = line.number;
    if (kind != Kind::kStep) continue;
    for (const auto field : kFields)
      if (const auto& n = found.numbers[field]) ranks[found.rank].add(found.step, field, *n);
  }
  log.note_if(unreadable, " lines of steps could not be read, the first is line ", first_unreadable,
              ": left out");
  log.note_if(validation, " lines of validation: left out");
  log.note_if(too_long, " lines are longer than 16 MiB: only their beginnings were read");
  if (ranks.empty()) return log;
  const auto rank = options.rank.value_or(ranks.begin()->first);
  LOCKSTEP_CHECK(ranks.contains(rank), "[curves] ", path, " has no step of rank ", rank,
                 "; the lowest that has is ", ranks.begin()->first);
  if (ranks.size() > 1)
    log.note("the lines of rank ", rank, " count; the steps of ", ranks.size() - 1,
             " other ranks were left out (--rank chooses)");
  std::move(ranks.at(rank)).finish(log);
  return log;
}

}  // namespace lockstep::curves
