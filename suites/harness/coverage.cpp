// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/coverage.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "engine/values/error.h"
#include "engine/values/text.h"
#include "generators/cases/arguments.h"
#include "generators/cases/labels.h"
#include "oracle/program/schema.h"
#include "suites/core/facts.h"
#include "suites/core/refusal.h"

namespace lockstep::suites {
namespace {

constexpr std::string_view kHostRead =
    "it gives the host a number: lockstep::item and lockstep::equal stand for it in a Program";
constexpr std::string_view kOnGpu = "a kernel of GPUs: on a CPU libtorch composes it of other ops";
constexpr auto kUncalled = std::to_array<Uncalled>({
    {"aten::_fused_rms_norm", kOnGpu},
    {"aten::_fused_rms_norm_backward", kOnGpu},
    {"aten::is_nonzero", kHostRead},
});

constexpr std::string_view kNames = "of dimensions by name, which no DTensor has";
constexpr std::string_view kGenerator = "takes a generator: draws are those of the run's stream";
constexpr std::string_view kFunctional =
    "what functionalization makes of the op in place, and nobody calls: its results are copies of all "
    "operands";
constexpr std::string_view kWithoutResult =
    "libtorch makes it of the functional op; it has no result to be compared";
constexpr std::string_view kHostList = "a list of numbers that the host reads out of one tensor";
constexpr std::string_view kOtherDtype = "a kernel of GPUs: on a CPU libtorch has none into another dtype";
constexpr std::string_view kViewInPlace =
    "gives a tensor another shape in place, and so another Spec; of these aten::t_ stands for all";
constexpr std::string_view kOneOfOne =
    "makes an op of another overload that is called, with the same arguments";
constexpr auto kNotGenerated = std::to_array<Uncalled>({
    {"aten::_foreach_addcdiv.Tensor", kHostList},
    {"aten::_foreach_addcdiv_.Tensor", kHostList},
    {"aten::_foreach_addcmul.Tensor", kHostList},
    {"aten::_foreach_addcmul_.Tensor", kHostList},
    {"aten::_foreach_copy", kFunctional},
    {"aten::_foreach_zero", kFunctional},
    {"aten::_fused_adam", kFunctional},
    {"aten::_fused_adam.tensor_lr", kFunctional},
    {"aten::_fused_adamw", kFunctional},
    {"aten::_fused_adamw.tensor_lr", kFunctional},
    {"aten::_fused_sgd", kFunctional},
    {"aten::_fused_sgd.tensor_lr", kFunctional},
    {"aten::_fused_rms_norm_backward", kOnGpu},
    {"aten::_index_put_impl", kFunctional},
    {"aten::addmm.dtype", kOtherDtype},
    {"aten::as_strided_", kViewInPlace},
    {"aten::baddbmm.dtype", kOtherDtype},
    {"aten::bitwise_left_shift.Scalar_Tensor", kOneOfOne},
    {"aten::bitwise_right_shift.Scalar_Tensor", kOneOfOne},
    {"aten::bmm.dtype", kOtherDtype},
    {"aten::copy", kFunctional},
    {"aten::detach_", kViewInPlace},
    {"aten::is_nonzero", kHostRead},
    {"aten::mm.dtype", kOtherDtype},
    {"aten::norm.ScalarOpt_dim_dtype", kOneOfOne},
    {"aten::norm.ScalarOpt_dtype", kOneOfOne},
    {"aten::split.sizes", kOneOfOne},
    {"aten::squeeze_", kViewInPlace},
    {"aten::squeeze_.dim", kViewInPlace},
    {"aten::squeeze_.dims", kViewInPlace},
    {"aten::transpose_", kViewInPlace},
    {"aten::unsqueeze_", kViewInPlace},
    {"aten::zero", kFunctional},
});

// Names that stand for themselves.
std::vector<std::string> plain_labels() {
  auto labels = generators::all_labels();
  for (const auto& more : {generators::statement_labels(), refusal_labels()})
    labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

const char* kind_of(const std::string& name) {
  if (is_row(name)) return "rows";
  if (is_argument(name)) return "arguments";
  if (is_pair(name)) return "pairs";
  if (is_op(name)) return "ops";
  if (name.starts_with("statement ")) return "statements";
  if (name.starts_with("refused: ")) return "refusals";
  return "labels";
}

bool is_axis_value(const std::string& text) {
  static const std::set<std::string> known = {"R",       "S",       "I",       "G",    "P",      "mesh-1d",
                                              "mesh-2d", "mesh-3d", "mesh-4d", "even", "uneven", "empty"};
  if (!is_op(text)) return known.contains(text);
  if (!oracle::is_own(text)) oracle::find_operator(text);  // throws for one that does not exist
  return true;
}

void check_name(const std::string& name) {
  if (is_op(name) && is_axis_value(name)) return;
  if (is_pair(name)) {
    const auto sides = split(name, '/');
    const bool known =
        sides.size() == 2 && is_axis_value(std::string(sides[0])) && is_axis_value(std::string(sides[1]));
    LOCKSTEP_CHECK(known, "[run] --require-label ", name,
                   ": write a pair of an op, R S I G P, mesh-1d to mesh-4d, even uneven empty, for example "
                   "aten::mm/S");
    return;
  }
  if (is_row(name)) {
    oracle::find_operator(name.substr(0, name.find('[')));  // throws for one that does not exist
    return;
  }
  if (is_argument(name)) {
    const auto op = name.substr(0, name.find('('));
    const auto names = generators::arguments_of(op);
    LOCKSTEP_CHECK(std::find(names.begin(), names.end(), name) != names.end(), "[run] --require-label ", name,
                   ": ", op, " has no such argument that could stay at its default");
    return;
  }
  const auto labels = plain_labels();
  std::string names;
  for (const auto& label : labels) names += (names.empty() ? "" : ", ") + label;
  LOCKSTEP_CHECK(std::find(labels.begin(), labels.end(), name) != labels.end(),
                 "[run] --require-label: there is no label '", name, "'; there are: ", names,
                 ", ops such as aten::mm, and pairs such as aten::mm/S");
}

// Hits of each op and each pair that `leasts` names.
Leasts cells_met(SQLite::Database& db, const std::string& run, const Leasts& leasts) {
  SQLite::Statement row(db, "SELECT op, placement, mesh_rank, evenness, hits FROM v_coverage WHERE run = ?");
  row.bind(1, run);
  Leasts met;
  while (row.executeStep()) {
    const auto kinds = row.getColumn(1).getString();
    std::set<std::string> values = {row.getColumn(0).getString(),
                                    concat("mesh-", row.getColumn(2).getInt64(), "d"),
                                    row.getColumn(3).getString()};
    for (const auto kind : split(kinds, '+')) values.emplace(kind);
    const auto meet = [&](const std::string& name) {
      if (leasts.contains(name)) met[name] += row.getColumn(4).getInt64();
    };
    for (const auto& one : values) {
      if (is_op(one)) meet(one);
      for (const auto& other : values) meet(concat(one, "/", other));
    }
  }
  return met;
}

Leasts labels_met(SQLite::Database& db, const std::string& run) {
  SQLite::Statement row(db, "SELECT label, hits FROM v_labels WHERE run = ?");
  row.bind(1, run);
  Leasts met;
  while (row.executeStep()) met[row.getColumn(0).getString()] = row.getColumn(1).getInt64();
  return met;
}

}  // namespace

Leasts read_leasts(const std::string& file) {
  std::ifstream in(file);
  LOCKSTEP_CHECK(in, "[coverage] cannot read ", file, ", the list of what a run must cover");
  Leasts leasts;
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    try {
      const auto [name, least] = parse_least(line);
      LOCKSTEP_CHECK(least > 0 && leasts.emplace(name, least).second, name, " asks for nothing, or twice");
    } catch (const Error& e) {
      throw Error(concat("[coverage] ", file, ":", number, ": ", e.what()));
    }
  }
  return leasts;
}

const Leasts& default_leasts() {
  static const Leasts all = [] {
    if (const char* named = std::getenv("LOCKSTEP_COVERAGE"); named != nullptr && *named != '\0')
      return read_leasts(named);
    return read_leasts(std::filesystem::exists(LOCKSTEP_COVERAGE_LIST) ? LOCKSTEP_COVERAGE_LIST
                                                                       : LOCKSTEP_INSTALLED_COVERAGE_LIST);
  }();
  return all;
}

std::pair<std::string, int64_t> parse_least(const std::string& text) {
  const auto equals = text.rfind('=');
  const auto least = equals == std::string::npos ? std::nullopt : parse_integer(text.substr(equals + 1));
  LOCKSTEP_CHECK(least && *least >= 0, "[run] --require-label ", text,
                 ": write NAME=LEAST, for example uneven=100 or aten::mm/S=5");
  check_name(text.substr(0, equals));
  return {text.substr(0, equals), *least};
}

bool is_pair(const std::string& name) {
  return name.find('/') != std::string::npos;
}

bool is_argument(const std::string& name) {
  return name.ends_with(')');
}

bool is_row(const std::string& name) {
  return std::any_of(std::begin(kWays), std::end(kWays),
                     [&](const std::string way) { return name.ends_with("]" + way); });
}

bool is_op(const std::string& name) {
  return name.find("::") != std::string::npos && !is_pair(name) && !is_argument(name) && !is_row(name);
}

std::span<const Uncalled> uncalled() {
  return kUncalled;
}

std::string_view why_not_generated(const std::string& overload) {
  for (const auto& [op, reason] : kNotGenerated)
    if (op == overload) return reason;
  for (const char* by_name : {"Dimname", "dimname", "names"})
    if (overload.find(by_name) != overload.npos) return kNames;
  if (overload.ends_with("generator") || overload.ends_with("generator_dtype")) return kGenerator;
  return overload.starts_with("aten::_f") && overload.ends_with("out") ? kWithoutResult : std::string_view();
}

std::vector<Lacking> lacking(const dashboard::Store& store, const std::string& run, const Leasts& leasts) {
  auto met = labels_met(store.database(), run);
  met.merge(cells_met(store.database(), run, leasts));
  std::vector<Lacking> result;
  for (const auto& [name, least] : leasts)
    if (met[name] < least) result.push_back({name, least, met[name]});
  return result;
}

std::map<std::string, std::set<std::string>> taken_rows(const dashboard::Store& store) {
  SQLite::Statement row(store.database(), "SELECT DISTINCT label FROM v_labels");
  std::map<std::string, std::set<std::string>> taken;
  while (row.executeStep())
    if (const auto label = row.getColumn(0).getString(); is_row(label)) {
      const auto end = label.rfind(']') + 1;
      taken[label.substr(0, end)].insert(label.substr(end));
    }
  return taken;
}

std::vector<std::string> all_names() {
  auto names = plain_labels();
  const auto arguments = generators::all_arguments();
  names.insert(names.end(), arguments.begin(), arguments.end());
  return names;
}

std::string text_of(const Leasts& demanded, const std::vector<Lacking>& lacking) {
  std::map<std::string, std::pair<int64_t, int64_t>> kinds;  // met, demanded
  for (const auto& [name, least] : demanded) ++kinds[kind_of(name)].first, ++kinds[kind_of(name)].second;
  for (const auto& l : lacking) --kinds[kind_of(l.name)].first;
  std::string text = "coverage:";
  for (const auto& [kind, n] : kinds)
    text += concat(text.ends_with(':') ? " " : ", ", kind, " ", n.first, " of ", n.second);
  return text;
}

std::string text_of(const std::vector<Lacking>& lacking) {
  std::string text;
  for (const auto& l : lacking) text += concat(text.empty() ? "" : ", ", l.name, " ", l.got, " of ", l.least);
  return text.empty() ? "none" : text;
}

}  // namespace lockstep::suites
