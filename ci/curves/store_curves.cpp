// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/store_curves.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "dashboard/store/bits.h"
#include "dashboard/store/hash.h"
#include "engine/values/error.h"

namespace lockstep::curves {
namespace {

namespace fs = std::filesystem;

std::string base_name(const std::string& path) {
  const auto name = fs::path(path).filename().string();
  return name.empty() ? path : name;
}

// What stands for a number that a step does not have: the same on both sides, and a gap in a chart.
uint64_t absent(const std::string& dtype) {
  return dtype == "f64"    ? 0x7ff8000000000000
         : dtype == "f32"  ? 0x7fc00000
         : dtype == "bf16" ? 0x7fc0
                           : 0x7e00;
}

uint64_t bits_of(const Pair& pair, const Point& point, Field field) {
  if (!pair.has[field]) return 0;
  const auto& n = point.at(field);
  return n ? n->bits : absent(pair.dtype);
}

void record_side(const Pair& pair, bool reference, const std::string& run_id, dashboard::Recorder& recorder) {
  const auto& log = reference ? pair.reference : pair.candidate;
  const auto id = recorder.open_curve(
      {.name = concat(reference ? "reference " : "candidate ", base_name(log.path)),
       .model = concat("imported ", run_id),
       .variant = concat(base_name(pair.candidate.path), " against ", base_name(pair.reference.path)),
       .dtype = pair.dtype,
       .reference = reference,
       .digits = pair.digits,
       .fields = pair.fields()});
  dashboard::Hasher chain;
  for (const auto& point : log.points) {
    const auto loss = bits_of(pair, point, kLoss), norm = bits_of(pair, point, kGradNorm);
    chain.add(point.step).add(static_cast<int64_t>(loss)).add(static_cast<int64_t>(norm));
    recorder.record(id,
                    {.step = point.step, .loss_bits = loss, .grad_norm_bits = norm, .chain = chain.key()});
  }
  const std::string side = reference ? "reference" : "candidate";
  recorder.record_fact("source of " + side, concat(log.path, " (", log.format, ", ", log.points.size(),
                                                   " steps, digest ", file_digest(log.path), ")"));
  for (const auto& [name, value] : log.environment) recorder.record_fact(side + "." + name, value);
  for (const auto& note : log.notes) recorder.record_fact("note on " + side, note);
}

std::string alone(const Comparison& c) {
  std::string text;
  if (c.only_reference > 0)
    text += concat("; ", c.only_reference, " in the reference alone (", c.only_reference_steps, ")");
  if (c.only_candidate > 0)
    text += concat("; ", c.only_candidate, " in the candidate alone (", c.only_candidate_steps, ")");
  return text;
}

std::string outcome(const Comparison& c) {
  if (c.steps == 0) return "nothing was compared";
  if (!c.first_difference) return concat("equal at all ", c.steps, " steps");
  return concat("first differs at step ", *c.first_difference, ": ", c.first_field, " ", c.first_expected,
                " in the reference, ", c.first_got, " in the candidate");
}

std::string brief(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string distance_text(const Distance& d) {
  std::string text = concat("at most ", brief(d.max_abs), " apart");
  if (d.max_abs > 0) text += concat(" (step ", d.max_abs_step, ")");
  if (d.max_ulp) text += concat(", ", *d.max_ulp, " ulp");
  if (d.not_comparable > 0) text += concat("; at ", d.not_comparable, " steps one side is NaN");
  if (d.drift) text += concat("; drift ", brief(*d.drift), " a step");
  if (d.ulp_drift) text += concat(", ", brief(*d.ulp_drift), " ulp a step");
  return text;
}

template <class T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

nlohmann::json json_of(const Distance& d) {
  return {{"max_abs", std::isfinite(d.max_abs) ? nlohmann::json(d.max_abs) : nlohmann::json("inf")},
          {"max_abs_step", std::to_string(d.max_abs_step)},
          {"max_ulp", d.max_ulp ? nlohmann::json(std::to_string(*d.max_ulp)) : nlohmann::json()},
          {"not_comparable", d.not_comparable},
          {"drift", or_null(d.drift)},
          {"ulp_drift", or_null(d.ulp_drift)}};
}

nlohmann::json json_of(const Log& log) {
  return {{"path", log.path},
          {"format", log.format},
          {"steps", log.points.size()},
          {"digest", file_digest(log.path)},
          {"environment", log.environment},
          {"notes", log.notes}};
}

void add_file(dashboard::Hasher& hash, const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string chunk(1 << 20, '\0');
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0)
    hash.add(std::string_view(chunk.data(), static_cast<size_t>(in.gcount())));
}

}  // namespace

std::vector<Difference> environment_difference(const Pair& pair) {
  std::map<std::string, Difference> all;
  for (const auto& [name, value] : pair.reference.environment) all[name].reference = value;
  for (const auto& [name, value] : pair.candidate.environment) all[name].candidate = value;
  std::vector<Difference> found;
  for (auto& [name, d] : all) {
    d.name = name;
    if (d.reference != d.candidate) found.push_back(std::move(d));
  }
  return found;
}

bool equal(const Comparison& c) {
  return c.steps > 0 && c.different == 0;
}

void record(const Pair& pair, const Comparison& c, const std::string& run_id, dashboard::Recorder& recorder) {
  record_side(pair, true, run_id, recorder);
  record_side(pair, false, run_id, recorder);
  for (const auto& note : pair.notes) recorder.record_fact("note on the pair", note);
  const auto names = concat(base_name(pair.candidate.path), " against ", base_name(pair.reference.path));
  recorder.record(dashboard::Gate{.rule = concat("common steps of ", names),
                                  .required = "at least 1",
                                  .got = concat(c.steps, alone(c)),
                                  .passed = c.steps > 0});
  recorder.record(dashboard::Gate{.rule = concat("numbers of ", names),
                                  .required = pair.precision(),
                                  .got = outcome(c),
                                  .passed = equal(c)});
}

std::string text_of(const Pair& pair, const Comparison& c) {
  std::string text;
  const auto side = [&](const char* what, const Log& log) {
    text += concat(what, " ", log.path, " (", log.format, ", ", log.points.size(), " steps)\n");
    for (const auto& note : log.notes) text += concat("  note: ", note, "\n");
  };
  side("reference", pair.reference);
  side("candidate", pair.candidate);
  for (const auto& note : pair.notes) text += concat("note: ", note, "\n");
  text += concat("common steps: ", c.steps, alone(c), "\n");
  if (c.steps == 0) return text + "nothing measured: the two have no step in common\n";
  text += concat("compared: ", pair.fields(), ", by ", pair.precision(), "\n");
  if (c.first_difference) {
    text += concat("identical prefix: ", c.identical_prefix, " of ", c.steps, " steps; ", c.different,
                   " differ\n", outcome(c), "\n");
    for (const auto field : kFields)
      if (pair.has[field]) text += concat(kFieldNames[field], ": ", distance_text(c.distances[field]), "\n");
  } else if (pair.digits) {
    text += concat("equal to ", pair.precision(), ", at all ", c.steps, " steps: no proof of equal bits\n");
  } else {
    text += concat("equal: ", pair.precision(), " at all ", c.steps, " steps\n");
  }
  for (const auto& d : environment_difference(pair))
    text += concat("environment: ", d.name, ": ", d.reference.empty() ? "(not said)" : d.reference, " | ",
                   d.candidate.empty() ? "(not said)" : d.candidate, "\n");
  return text;
}

nlohmann::json json_of(const Pair& pair, const Comparison& c) {
  nlohmann::json environment = nlohmann::json::array();
  for (const auto& d : environment_difference(pair))
    environment.push_back({{"name", d.name}, {"reference", d.reference}, {"candidate", d.candidate}});
  nlohmann::json j = {{"reference", json_of(pair.reference)},
                      {"candidate", json_of(pair.candidate)},
                      {"notes", pair.notes},
                      {"dtype", pair.dtype},
                      {"digits", or_null(pair.digits)},
                      {"bits", !pair.digits},
                      {"fields", pair.fields()},
                      {"precision", pair.precision()},
                      {"steps", c.steps},
                      {"only_reference", c.only_reference},
                      {"only_candidate", c.only_candidate},
                      {"identical_prefix", c.identical_prefix},
                      {"different", c.different},
                      {"first_difference", nullptr},
                      {"equal", equal(c)},
                      {"loss", nullptr},
                      {"grad_norm", nullptr},
                      {"environment_difference", environment}};
  if (c.first_difference)
    j["first_difference"] = {{"step", std::to_string(*c.first_difference)},
                             {"field", c.first_field},
                             {"reference", c.first_expected},
                             {"candidate", c.first_got}};
  for (const auto field : kFields)
    if (pair.has[field]) j[kFieldNames[field]] = json_of(c.distances[field]);
  return j;
}

std::string file_digest(const std::string& path) {
  dashboard::Hasher hash;
  if (fs::is_directory(path)) {
    std::set<fs::path> files;
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.is_regular_file()) files.insert(entry.path());
    for (const auto& file : files) add_file(hash.add(file.filename().string()), file);
  } else {
    add_file(hash, path);
  }
  return dashboard::hex(hash.key());
}

}  // namespace lockstep::curves
