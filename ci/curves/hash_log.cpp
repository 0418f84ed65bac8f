// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/hash_log.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <tuple>

#include "ci/curves/json_line.h"
#include "ci/curves/number.h"
#include "engine/values/error.h"

namespace lockstep::curves {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string where(const Lines& lines, const Line& line) {
  return place(lines.path(), line) + ": ";
}

std::optional<int64_t> whole_number(const Json& object, const char* key) {
  const auto it = object.find(key);
  const auto text = it == object.end() ? std::nullopt : number_text(*it);
  return text ? parse_step(*text) : std::nullopt;
}

// A digest is any hex text, or null for a tensor that is not there; case does not matter.
Digests digests_in(const Json& list, const std::string& where) {
  LOCKSTEP_CHECK(list.is_array(), where, "inputs and outputs are lists of hex texts");
  Digests digests;
  for (const auto& item : list) {
    if (item.is_null()) {
      digests.emplace_back("none");
      continue;
    }
    LOCKSTEP_CHECK(item.is_string() && !number_text(item), where, "a digest is ", in_quotes(plain_text(item)),
                   "; write it as a text of hex digits, or null");
    auto text = item.get<std::string>();
    for (auto& c : text) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    LOCKSTEP_CHECK(!text.empty() && text.find_first_not_of("0123456789abcdef") == std::string::npos, where,
                   "a digest is ", in_quotes(text), "; write it in hex digits");
    digests.push_back(std::move(text));
  }
  return digests;
}

std::string text_at(const Json& object, const char* key) {
  return object.contains(key) ? plain_text(object[key]) : "";
}

std::vector<std::string> files_of(const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.is_regular_file() && entry.path().extension() == ".jsonl")
      files.push_back(entry.path().string());
  LOCKSTEP_CHECK(!files.empty(), "[curves] ", path,
                 " holds no *.jsonl; name a hash log, or a folder of them");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

uint32_t Names::of(const std::string& text) {
  const auto [it, fresh] = numbers_.try_emplace(text, static_cast<uint32_t>(texts_.size()));
  if (fresh) texts_.push_back(text);
  return it->second;
}

HashLog::HashLog(const std::string& path, Names& names) : names_(names) {
  for (const auto& file : files_of(path)) {
    sources_.push_back({Lines(file), static_cast<uint32_t>(sources_.size())});
    advance(sources_.back());
  }
}

// Reads the next entry of a file.
void HashLog::advance(Source& source) {
  const auto before = source.next ? source.next->step : std::numeric_limits<int64_t>::min();
  source.next.reset();
  for (Line line; source.lines.next(line);) {
    const auto at = where(source.lines, line);
    LOCKSTEP_CHECK(!line.too_long, at, "the line is longer than 16 MiB; write one op a line");
    if (line.text.find_first_not_of(" \t") == std::string::npos) continue;
    const auto object = parse_json_line(line.text);
    if (!object && !line.whole) {
      notes_.push_back(
          concat(source.lines.path(), " ends within line ", line.number, ": that line is left out"));
      return;
    }
    LOCKSTEP_CHECK(object, at, "no JSON object: ", in_quotes(line.text));
    const auto step = whole_number(*object, "step");
    const auto op = object->find("op");
    LOCKSTEP_CHECK(step && op != object->end() && op->is_string(), at,
                   "a line needs step (a whole number), op (a text) and outputs");
    LOCKSTEP_CHECK(*step >= before, at, "step ", *step, " comes after step ", before,
                   "; sort the log by step");
    if (*step != before) source.counted.clear();
    LOCKSTEP_CHECK(!object->contains("rank") || whole_number(*object, "rank"), at,
                   "the rank is no whole number");
    LOCKSTEP_CHECK(!object->contains("seq") || whole_number(*object, "seq"), at, "seq is no whole number");
    HashEntry entry{.step = *step, .rank = whole_number(*object, "rank").value_or(0)};
    entry.seq = whole_number(*object, "seq").value_or(source.counted[entry.rank]++);
    entry.op = names_.of(plain_text(*op));
    entry.phase = names_.of(text_at(*object, "phase"));
    if (object->contains("inputs")) entry.inputs = digests_in((*object)["inputs"], at);
    LOCKSTEP_CHECK(object->contains("outputs"), at,
                   "there are no outputs; a line needs step, op and outputs");
    entry.outputs = digests_in((*object)["outputs"], at);
    entry.file = source.number;
    entry.line = line.number;
    source.next = std::move(entry);
    return;
  }
}

std::optional<int64_t> HashLog::next_step() {
  std::optional<int64_t> step;
  for (const auto& source : sources_)
    if (source.next && (!step || source.next->step < *step)) step = source.next->step;
  return step;
}

std::vector<HashEntry> HashLog::take_step() {
  const auto step = *next_step();
  std::vector<HashEntry> entries;
  for (auto& source : sources_)
    while (source.next && source.next->step == step) {
      entries.push_back(std::move(*source.next));
      LOCKSTEP_CHECK(entries.size() <= kMostEntriesOfStep, "[curves] ", source.lines.path(), ": step ", step,
                     " has more than ", kMostEntriesOfStep,
                     " entries; log fewer ops, or number the steps finer");
      advance(source);
    }
  std::stable_sort(entries.begin(), entries.end(), [](const HashEntry& a, const HashEntry& b) {
    return std::tie(a.rank, a.seq) < std::tie(b.rank, b.seq);
  });
  for (size_t i = 1; i < entries.size(); ++i) {
    const auto &a = entries[i - 1], &b = entries[i];
    LOCKSTEP_CHECK(a.rank != b.rank || a.seq != b.seq, "[curves] ", sources_[b.file].lines.path(), " line ",
                   b.line, ": step ", step, ", rank ", b.rank, ", seq ", b.seq, " stood in line ", a.line,
                   " already; was the log appended to an older one?");
  }
  return entries;
}

}  // namespace lockstep::curves
