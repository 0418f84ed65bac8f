// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/coverage.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <set>

#include "engine/values/error.h"
#include "engine/values/text.h"
#include "generators/cases/labels.h"
#include "oracle/program/schema.h"

namespace lockstep::suites {
namespace {

struct Least {
  const char* name;
  int64_t least;
};

// About half of what the default plan gives with any seed: a generator that loses a feature falls below,
// chance does not.
constexpr Least kDefaults[] = {
    {"backward", 2500},
    {"bf16", 1500},
    {"bool", 1000},
    {"empty-shard", 5000},
    {"f16", 1500},
    {"f32", 6500},
    {"f64", 2400},
    {"i16", 60},
    {"i32", 80},
    {"i64", 1600},
    {"i8", 60},
    {"in-place", 2600},
    {"integer-lane", 3000},
    {"interleaved", 1600},
    {"list", 1300},
    {"mesh-1d", 4700},
    {"mesh-2d", 6000},
    {"mesh-3d", 1200},
    {"mixed-dtypes", 2300},
    {"named-mesh", 2900},
    {"nested-shard", 2000},
    {"one-rank", 400},
    {"optimizer", 100},
    {"other-order", 1100},
    {"partial-avg", 1100},
    {"partial-max", 1300},
    {"partial-min", 1300},
    {"partial-product", 1300},
    {"partial-sum", 2200},
    {"ragged", 2100},
    {"random", 1700},
    {"redistribute", 3900},
    {"reuse", 4400},
    {"several-leaves", 750},
    {"size-0", 1000},
    {"size-1", 4400},
    {"special-values", 650},
    {"strided", 1300},
    {"u8", 70},
    {"unequal-mesh", 6000},
    {"uneven", 7000},
    {"view", 1300},
    {"R/mesh-1d", 6000},
    {"R/mesh-2d", 16000},
    {"R/mesh-3d", 4500},
    {"S/mesh-1d", 8000},
    {"S/mesh-2d", 18000},
    {"S/mesh-3d", 4500},
    {"I/mesh-1d", 500},
    {"I/mesh-2d", 1700},
    {"I/mesh-3d", 500},
    {"G/mesh-1d", 1000},
    {"G/mesh-2d", 1700},
    {"G/mesh-3d", 450},
    {"P/mesh-1d", 1900},
    {"P/mesh-2d", 5000},
    {"P/mesh-3d", 1600},
    {"S/even", 10000},
    {"S/uneven", 6500},
    {"S/empty", 14000},
    {"I/even", 600},
    {"I/uneven", 500},
    {"I/empty", 1800},
    {"G/even", 900},
    {"G/uneven", 650},
    {"G/empty", 1600},
    {"P/even", 6500},
    {"P/uneven", 1100},
    {"P/empty", 1200},
    {"mesh-1d/uneven", 1200},
    {"mesh-1d/empty", 4000},
    {"mesh-2d/uneven", 4500},
    {"mesh-2d/empty", 8500},
    {"mesh-3d/uneven", 1300},
    {"mesh-3d/empty", 2000},
};

// Ops of each family that must meet every value of the other axes.
constexpr const char* kOps[] = {"aten::add.Tensor",
                                "aten::mul.Tensor",
                                "aten::div.Tensor",
                                "aten::_to_copy",
                                "aten::clone",
                                "aten::where.self",
                                "aten::masked_fill.Scalar",
                                "aten::rsqrt",
                                "aten::mm",
                                "aten::bmm",
                                "aten::addmm",
                                "aten::sum.dim_IntList",
                                "aten::mean.dim",
                                "aten::_softmax",
                                "aten::_log_softmax",
                                "aten::view",
                                "aten::t",
                                "aten::transpose.int",
                                "aten::expand",
                                "aten::unsqueeze",
                                "aten::cat",
                                "aten::stack",
                                "aten::split.Tensor",
                                "aten::gather",
                                "aten::embedding",
                                "aten::normal_",
                                "aten::uniform_",
                                "aten::native_dropout",
                                "aten::add_.Scalar",
                                "aten::_fused_adamw_",
                                "aten::_foreach_add_.List",
                                "lockstep::redistribute"};
constexpr const char* kWith[] = {"R", "S", "mesh-1d", "mesh-2d", "mesh-3d", "even", "uneven", "empty"};
constexpr int64_t kLeastOfOp = 5;

bool is_axis_value(const std::string& text) {
  static const std::set<std::string> known = {"R",       "S",       "I",       "G",    "P",      "mesh-1d",
                                              "mesh-2d", "mesh-3d", "mesh-4d", "even", "uneven", "empty"};
  if (text.starts_with("aten::")) oracle::find_operator(text);  // throws for one that does not exist
  return text.starts_with("aten::") || oracle::is_own(text) || known.contains(text);
}

void check_name(const std::string& name) {
  if (is_pair(name)) {
    const auto sides = split(name, '/');
    const bool known =
        sides.size() == 2 && is_axis_value(std::string(sides[0])) && is_axis_value(std::string(sides[1]));
    LOCKSTEP_CHECK(known, "[run] --require-label ", name,
                   ": write a pair of an op, R S I G P, mesh-1d to mesh-4d, even uneven empty, for example "
                   "aten::mm/S");
    return;
  }
  const auto& labels = generators::all_labels();
  std::string names;
  for (const auto& label : labels) names += (names.empty() ? "" : " ") + label;
  LOCKSTEP_CHECK(std::find(labels.begin(), labels.end(), name) != labels.end(),
                 "[run] --require-label: there is no label '", name, "'; there are: ", names,
                 ", and pairs such as aten::mm/S");
}

// Hits of each pair that `leasts` names.
Leasts pairs_met(SQLite::Database& db, const std::string& run, const Leasts& leasts) {
  SQLite::Statement row(db, "SELECT op, placement, mesh_rank, evenness, hits FROM v_coverage WHERE run = ?");
  row.bind(1, run);
  Leasts met;
  while (row.executeStep()) {
    const auto kinds = row.getColumn(1).getString();
    std::set<std::string> values = {row.getColumn(0).getString(),
                                    concat("mesh-", row.getColumn(2).getInt64(), "d"),
                                    row.getColumn(3).getString()};
    for (const auto kind : split(kinds, '+')) values.emplace(kind);
    for (const auto& [name, least] : leasts) {
      if (!is_pair(name)) continue;
      const auto slash = name.find('/');
      if (values.contains(name.substr(0, slash)) && values.contains(name.substr(slash + 1)))
        met[name] += row.getColumn(4).getInt64();
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

const Leasts& default_leasts() {
  static const Leasts all = [] {
    Leasts leasts;
    for (const auto& [name, least] : kDefaults) leasts[name] = least;
    for (const std::string op : kOps)
      for (const auto* with : kWith) leasts[op + "/" + with] = kLeastOfOp;
    return leasts;
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

std::vector<Lacking> lacking(const dashboard::Store& store, const std::string& run, const Leasts& leasts) {
  auto met = labels_met(store.database(), run);
  met.merge(pairs_met(store.database(), run, leasts));
  std::vector<Lacking> result;
  for (const auto& [name, least] : leasts)
    if (met[name] < least) result.push_back({name, least, met[name]});
  return result;
}

std::string text_of(const std::vector<Lacking>& lacking) {
  std::string text;
  for (const auto& l : lacking) text += concat(text.empty() ? "" : ", ", l.name, " ", l.got, " of ", l.least);
  return text.empty() ? "none" : text;
}

}  // namespace lockstep::suites
