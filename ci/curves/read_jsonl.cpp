// SPDX-License-Identifier: Apache-2.0
// JSON Lines: one object for each step.
#include "ci/curves/json_line.h"
#include "ci/curves/lines.h"
#include "ci/curves/read.h"
#include "engine/values/error.h"

namespace lockstep::curves {
namespace {

using Json = nlohmann::json;

struct Reading {
  const ReadOptions& options;
  Lines lines;
  Log log{};
  Collector collector{};
  std::string round_trip, dtype{};
  std::string step_key{}, keys[2]{};  // decided at the first line that has them
  int64_t without_step = 0, without_number = 0;
};

// The key that is used: the one asked for, else the first usual one that the object has (or has as bits).
std::string key_of(const Json& object, const std::string& asked, std::span<const char* const> usual) {
  if (!asked.empty()) return asked;
  for (const std::string key : usual)
    if (object.contains(key) || object.contains(key + "_bits")) return key;
  return "";
}

std::optional<Number> number_at(Reading& r, const Json& object, const std::string& key, const Line& line) {
  if (const auto bits = object.find(key + "_bits"); bits != object.end() && !bits->is_null()) {
    const auto dtype = object.contains("dtype") ? plain_text(object["dtype"]) : r.dtype;
    const auto n = parse_bits(plain_text(*bits), dtype);
    LOCKSTEP_CHECK(n && bits->is_string() && !number_text(*bits), place(r.lines.path(), line), ": ", key,
                   "_bits ", in_quotes(plain_text(*bits)), " are no bits of ",
                   dtype.empty() ? "f64 or f32" : dtype,
                   "; write 16 hex digits for f64, 8 for f32, or 4 and \"dtype\":\"bf16\", as a text");
    return n;
  }
  const auto value = object.find(key);
  if (value == object.end() || value->is_null()) return std::nullopt;
  const auto text = value->is_string() ? plain_text(*value) : "";
  const auto n = parse_decimal(text, r.round_trip);
  LOCKSTEP_CHECK(n, place(r.lines.path(), line), ": ", key, " is ", in_quotes(plain_text(*value)),
                 ", which is no number of ", r.round_trip.empty() ? "f64" : r.round_trip);
  return n;
}

void take_header(Reading& r, const Json& object, const Line& line) {
  if (const auto facts = object.find("environment"); facts != object.end()) {
    LOCKSTEP_CHECK(facts->is_object(), place(r.lines.path(), line),
                   ": environment must be an object of names and values");
    for (const auto& [name, value] : facts->items()) r.log.environment[name] = plain_text(value);
  }
  if (const auto promise = object.find("round_trip");
      promise != object.end() && r.options.round_trip.empty()) {
    r.round_trip = plain_text(*promise);
    LOCKSTEP_CHECK(r.round_trip == "f32" || r.round_trip == "f64", place(r.lines.path(), line),
                   ": round_trip is ", in_quotes(r.round_trip), "; write f32 or f64");
  }
}

void take(Reading& r, const Json& object, const Line& line) {
  take_header(r, object, line);
  if (r.step_key.empty()) r.step_key = key_of(object, r.options.step, usual_steps());
  const auto step = r.step_key.empty() ? object.end() : object.find(r.step_key);
  if (step == object.end()) {
    if (object.contains("dtype")) r.dtype = plain_text(object["dtype"]);
    if (!object.contains("environment") && !object.contains("round_trip") && !object.contains("dtype"))
      ++r.without_step;
    return;
  }
  const auto text = number_text(*step);
  const auto number = text ? parse_step(*text) : std::nullopt;
  LOCKSTEP_CHECK(number, place(r.lines.path(), line), ": ", r.step_key, " is ", in_quotes(plain_text(*step)),
                 "; a step is a whole number");
  bool any = false;
  for (const auto field : kFields) {
    auto& key = r.keys[field];
    if (key.empty()) key = key_of(object, asked(r.options, field), usual(field));
    if (key.empty()) continue;
    if (const auto n = number_at(r, object, key, line)) {
      r.collector.add(*number, field, *n);
      any = true;
    }
  }
  if (!any) ++r.without_number;
}

}  // namespace

Log read_jsonl(const std::string& path, const ReadOptions& options) {
  Reading r{.options = options, .lines = Lines(path), .round_trip = options.round_trip};
  for (Line line; r.lines.next(line);) {
    LOCKSTEP_CHECK(!line.too_long, place(path, line), " is longer than 16 MiB; JSONL has one step a line");
    if (line.text.find_first_not_of(" \t") == std::string::npos) continue;
    const auto object = parse_json_line(line.text);
    if (object) {
      take(r, *object, line);
      continue;
    }
    LOCKSTEP_CHECK(!line.whole && line.number > 1, place(path, line),
                   " is no JSON object: ", in_quotes(line.text),
                   "; write one object a line, or say --format");
    r.log.note("the file ends within line ", line.number, ": that line is left out");
  }
  r.log.note_if(r.without_step, " lines have no step: left out");
  r.log.note_if(r.without_number, " lines have neither loss nor gradient norm: left out");
  for (const auto field : kFields)
    if (!r.keys[field].empty()) r.log.note_other_name(field, "key", r.keys[field]);
  std::move(r.collector).finish(r.log);
  return std::move(r.log);
}

}  // namespace lockstep::curves
