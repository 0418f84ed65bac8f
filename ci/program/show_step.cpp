// SPDX-License-Identifier: Apache-2.0
// lockstep show buffer --step: what one training step under fully_shard moves and holds, how long it takes,
// and how both grow with the ranks. Nothing of that is run but what --calibrate measures.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

#include "ci/program/show.h"
#include "engine/fsdp/step_plan.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "suites/bench/step_time.h"
#include "suites/fsdp/step_groups.h"

namespace lockstep::program {
namespace {

using Json = nlohmann::json;
using fsdp::Moved;
using suites::Calibration;

struct Collective {
  const char *name, *key;
  Moved fsdp::Moves::*moved;
};
constexpr Collective kCollectives[] = {
    {"all-gather, forward", "all_gather_forward", &fsdp::Moves::gather_forward},
    {"all-gather, backward", "all_gather_backward", &fsdp::Moves::gather_backward},
    {"reduce-scatter", "reduce_scatter", &fsdp::Moves::reduce_scatter},
    {"all-reduce of replicas", "all_reduce", &fsdp::Moves::all_reduce}};

template <class... Args>
std::string format(const char* pattern, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

c10::ScalarType dtype_of(const char* option, const std::string& text) {
  constexpr std::string_view kFloating[] = {"f64", "f32", "bf16", "f16"};
  LOCKSTEP_CHECK(std::find(std::begin(kFloating), std::end(kFloating), text) != std::end(kFloating),
                 "[show buffer] ", option, " ", text, ": write f64, f32, bf16 or f16");
  return parse_dtype(text);
}

std::optional<c10::ScalarType> dtype_if(const char* option, const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(dtype_of(option, text));
}

// --ranks are all of them.
int64_t shards_of(int64_t ranks, int64_t replicas) {
  LOCKSTEP_CHECK(replicas >= 1 && ranks % replicas == 0, "[show buffer] --replicas ", replicas,
                 " does not divide ", ranks, " ranks; give a divisor of them");
  return ranks / replicas;
}

ReshardAfterForward reshard_of(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (text == "none") return std::nullopt;
  int among = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), among);
  LOCKSTEP_CHECK(error == std::errc() && end == text.data() + text.size(),
                 "[show buffer] --reshard-after-forward ", text,
                 ": write true, false, none or among how many ranks");
  return among;
}

Json json_of(const ReshardAfterForward& reshard) {
  if (reshard.among) return *reshard.among;
  return reshard.reshards ? Json(*reshard.reshards) : Json();
}

std::string words(const ReshardAfterForward& reshard) {
  if (reshard.among) return concat("cut among ", *reshard.among, " ranks after forward");
  if (!reshard.reshards) return "cut again after forward, but for the outermost";
  return *reshard.reshards ? "cut again after forward" : "gathered once";
}

fsdp::StepOptions options_of(const ShowRequest& request, int64_t ranks) {
  const auto& step = request.step;
  fsdp::StepOptions o;
  o.shards = shards_of(ranks, step.replicas);
  o.replicas = step.replicas;
  o.order = request.buffer.order;
  o.dtype = dtype_of("--dtype", request.dtype.empty() ? "f32" : request.dtype);
  o.policy = {.param_dtype = dtype_if("--param-dtype", step.param_dtype),
              .reduce_dtype = dtype_if("--reduce-dtype", step.reduce_dtype)};
  o.reshard_after_forward = reshard_of(step.reshard_after_forward);
  if (o.reshard_after_forward.fits(o.shards)) o.reshard_after_forward = o.reshard_after_forward.on(o.shards);
  o.prefetch = step.prefetch;
  return o;
}

std::vector<fsdp::StepGroup> groups_of(const ShowRequest& request) {
  if (request.model.empty()) return {{parse_tensors(request.tensors)}};
  return step_groups(suites::find_model(request.model), coarse_of(request));
}

int64_t most(const Moved& moved) {
  return moved.sent.empty() ? 0 : *std::max_element(moved.sent.begin(), moved.sent.end());
}

Json json_of(const Moved& moved) {
  return {{"calls", moved.calls}, {"bytes", moved.bytes}, {"rank_bytes", most(moved)}};
}

// ---- the step ----

void show_moves(Shown& shown, const fsdp::StepPlan& plan) {
  shown.text += format("\n%-24s %7s %20s %22s", "", "calls", "bytes of a rank", "bytes of all");
  for (const auto& [name, key, which] : kCollectives) {
    const auto& moved = plan.moves.*which;
    shown.text += format("\n%-24s %7ld %20ld %22ld", name, moved.calls, most(moved), moved.bytes);
    shown.json["collectives"][key] = json_of(moved);
  }
}

void show_groups(Shown& shown, const fsdp::StepPlan& plan, const std::vector<fsdp::StepGroup>& groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    Json collectives;
    for (const auto& [name, key, which] : kCollectives)
      collectives[key] = json_of(plan.groups[i].moves.*which);
    shown.json["groups"].push_back({{"count", groups[i].count},
                                    {"tensors", groups[i].tensors.size()},
                                    {"shard_size", plan.groups[i].plan.shard_size},
                                    {"collectives", collectives}});
  }
}

void show_peak(Shown& shown, const fsdp::Held& peak) {
  shown.text += concat("\na rank holds at most ", peak.total(), " bytes of parameters and gradients: shards ",
                       peak.shards, ", gathered ", peak.gathered, ", whole gradients ", peak.gradients,
                       ", reduced ", peak.reduced);
  shown.json["peak"] = {{"bytes", peak.total()},
                        {"shards", peak.shards},
                        {"gathered", peak.gathered},
                        {"gradients", peak.gradients},
                        {"reduced", peak.reduced}};
}

// ---- its time ----

void show_calibration(Shown& shown, const Calibration& c) {
  const bool met = std::abs(c.error()) <= suites::kMostError;
  shown.text += format(
      "\ncalibrated by steps of a small LLaMA on 4 and 8 ranks in one thread: %.3g ms, %.3g ns a byte, %.3g "
      "ns "
      "an element\n",
      1e3 * c.time.fixed, 1e9 * c.time.per_byte, 1e9 * c.time.per_element);
  shown.text +=
      format("of it on %ld ranks in one thread: predicted %.0f ms, measured %.0f ms, off by %.1f%%; ",
             c.beyond.ranks, 1e3 * c.predicted, 1e3 * c.beyond.seconds, 100 * c.error());
  shown.text += format("goal: at most %.0f%%, %s", 100 * suites::kMostError, met ? "met" : "not met");
  Json samples = Json::array();
  for (const auto& s : c.samples)
    samples.push_back({{"ranks", s.ranks},
                       {"tokens", s.tokens},
                       {"seconds", s.seconds},
                       {"predicted_seconds", c.time.seconds(s.work)}});
  shown.json["calibration"] = {{"fixed_seconds", c.time.fixed},
                               {"seconds_per_byte", c.time.per_byte},
                               {"seconds_per_element", c.time.per_element},
                               {"samples", samples},
                               {"ranks", c.beyond.ranks},
                               {"predicted_seconds", c.predicted},
                               {"measured_seconds", c.beyond.seconds},
                               {"error", c.error()},
                               {"goal", suites::kMostError},
                               {"met", met}};
}

// ---- how it grows ----

constexpr int64_t kLeastRanks = 8, kMostRanks = 1024;

// One row: so many ranks, each with so many tokens.
struct Row {
  int64_t ranks;
  double tokens;
  suites::StepWork work;
  int64_t peak;
};

Row row_of(const ShowRequest& request, const std::vector<fsdp::StepGroup>& groups, int64_t ranks) {
  const auto plan = plan_step(groups, options_of(request, ranks));
  const double share =
      request.step.scaling == "weak" ? 1 : static_cast<double>(kLeastRanks) / static_cast<double>(ranks);
  const double tokens = share * static_cast<double>(request.step.tokens);
  return {ranks, tokens, suites::work_of_rank(plan, suites::elements_of(groups, tokens)), plan.peak.total()};
}

void show_scaling(Shown& shown, const ShowRequest& request, const std::vector<fsdp::StepGroup>& groups,
                  const std::optional<Calibration>& calibration) {
  const auto& step = request.step;
  shown.text +=
      concat("\n", step.scaling, " scaling, a prediction of which nothing was run: ", step.tokens,
             step.scaling == "weak" ? " tokens a rank" : " tokens a rank on 8, as many in all on more");
  shown.text += format("\n%6s %12s %20s %20s", "ranks", "tokens each", "bytes of a rank", "most held");
  if (calibration) shown.text += format(" %14s %14s %11s", "seconds", "tokens/s", "efficiency");
  Json rows = Json::array();
  double first = 0;
  for (int64_t ranks = kLeastRanks; ranks <= kMostRanks; ranks *= 2) {
    if (ranks % step.replicas != 0) continue;
    const auto row = row_of(request, groups, ranks);
    shown.text += format("\n%6ld %12g %20.0f %20ld", ranks, row.tokens, row.work.bytes, row.peak);
    rows.push_back(
        {{"ranks", ranks}, {"tokens", row.tokens}, {"rank_bytes", row.work.bytes}, {"peak_bytes", row.peak}});
    if (!calibration) continue;
    const double seconds = calibration->time.seconds(row.work), each = row.tokens / seconds;
    if (first == 0) first = each;
    shown.text +=
        format(" %14.4g %14.4g %10.1f%%", seconds, each * static_cast<double>(ranks), 100 * each / first);
    rows.back().update({{"seconds", seconds},
                        {"tokens_per_second", each * static_cast<double>(ranks)},
                        {"efficiency", each / first}});
  }
  LOCKSTEP_CHECK(!rows.empty(), "[show buffer] --replicas ", step.replicas, " divides none of the ",
                 kLeastRanks, " to ", kMostRanks,
                 " ranks, in powers of two, of --scaling; give a power of two");
  if (calibration)
    shown.text += "\nseconds of ranks that each have a core like this one, and wait for nothing but bytes";
  shown.json["scaling"] = {{"kind", step.scaling}, {"is_prediction", true}, {"rows", rows}};
}

}  // namespace

Shown show_step(const ShowRequest& request) {
  const auto& step = request.step;
  LOCKSTEP_CHECK(step.scaling.empty() || step.scaling == "weak" || step.scaling == "strong",
                 "[show buffer] --scaling ", step.scaling, ": write weak or strong");
  LOCKSTEP_CHECK(step.tokens >= 1, "[show buffer] --tokens ", step.tokens, ": give at least 1");
  const auto groups = groups_of(request);
  const auto options = options_of(request, request.buffer.shards);
  const auto plan = plan_step(groups, options);
  const auto gathered = options.policy.param_dtype.value_or(options.dtype);
  const auto reduced = options.policy.reduce_dtype.value_or(gathered);
  const auto name = request.model.empty() ? std::string("one module") : request.model;
  Shown shown{concat("a step under fully_shard, predicted: ", name, " on ", request.buffer.shards, " ranks, ",
                     step.replicas == 1 ? "" : concat(step.replicas, " replicas, "), "shards in ",
                     dtype_name(options.dtype), ", gathered in ", dtype_name(gathered),
                     ", gradients reduced in ", dtype_name(reduced), ", ",
                     words(options.reshard_after_forward), ", ", step.prefetch, " prefetched"),
              {{"model", request.model.empty() ? Json() : Json(request.model)},
               {"ranks", request.buffer.shards},
               {"replicas", step.replicas},
               {"dtype", dtype_name(options.dtype)},
               {"param_dtype", dtype_name(gathered)},
               {"reduce_dtype", dtype_name(reduced)},
               {"reshard_after_forward", json_of(options.reshard_after_forward)},
               {"prefetch", step.prefetch}}};
  show_moves(shown, plan);
  show_groups(shown, plan, groups);
  show_peak(shown, plan.peak);
  std::optional<Calibration> calibration;
  if (step.calibrate) show_calibration(shown, calibration.emplace(suites::calibrate()));
  if (!step.scaling.empty()) show_scaling(shown, request, groups, calibration);
  return shown;
}

}  // namespace lockstep::program
