// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/plan.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <regex>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "engine/values/text.h"

namespace lockstep {
namespace {

using enum PlanPhase;

struct PhaseName {
  PlanPhase phase;
  const char* name;
  const char* tensor;  // of which it is the phase; null: a parameter or buffer
};
constexpr std::array<PhaseName, 6> kPhases = {{{kInit, "init", nullptr},
                                               {kRun, "run", nullptr},
                                               {kForwardPre, "forward_pre", "<in>"},
                                               {kForwardPost, "forward_post", "<out>"},
                                               {kBackwardPre, "backward_pre", "<out>"},
                                               {kBackwardPost, "backward_post", "<in>"}}};

const PhaseName& entry(PlanPhase phase) {
  return kPhases[static_cast<size_t>(phase)];
}

constexpr const char* kFactory = "<factory>";
constexpr std::string_view kGrad = ".grad";
constexpr std::array<const char*, 3> kAnnotations = {"annot", "annot_tree", "annot_exact"};  // by SumOrder
constexpr const char* kShard = "shard";
constexpr const char* kRedist = "redist";
constexpr const char* kRedistEarly = "redist_early";

constexpr std::array<const char*, 2> kHops = {"passes", "ranks"};  // by SumHop::Over

const char* verb(const PlanRow& row) {
  if (is_annotation(row)) return kAnnotations[static_cast<size_t>(row.sums)];
  if (is_of_parameters(row.phase)) return kShard;
  return row.starts_early ? kRedistEarly : kRedist;
}

// "G" is RaggedShard{}, which has no units.
constexpr const char* kPlanned = "G";

std::string text_of(const Placement& placement) {
  return placement == Placement(RaggedShard{}) ? kPlanned : to_string(placement);
}

// One placement for one mesh dimension, else a list in brackets.
std::string text_of(const Placements& placements) {
  if (placements.size() == 1) return text_of(placements[0]);
  std::string text;
  for (const auto& placement : placements) text += (text.empty() ? "" : ",") + text_of(placement);
  return "[" + text + "]";
}

Placements placements_in(std::string_view text) {
  const bool is_list = text.size() > 1 && text.front() == '[' && text.back() == ']';
  Placements placements;
  for (const auto part : split(is_list ? text.substr(1, text.size() - 2) : text, ','))
    placements.push_back(part == kPlanned ? RaggedShard{} : parse_placement(part));
  return placements;
}

std::string text_of(const std::vector<SumHop>& hops) {
  std::string text;
  for (const auto& hop : hops)
    text += concat(text.empty() ? ";" : ",", kHops[static_cast<size_t>(hop.over)], hop.dtype ? ":" : "",
                   hop.dtype ? dtype_name(*hop.dtype) : "");
  return text;
}

std::vector<SumHop> hops_in(std::string_view text) {
  std::vector<SumHop> hops;
  for (const auto word : split(text, ',')) {
    const auto colon = word.find(':');
    const auto over = std::find(kHops.begin(), kHops.end(), word.substr(0, colon));
    LOCKSTEP_CHECK(over != kHops.end(), "'", word,
                   "' is no sum; write passes or ranks, and a dtype if it is ",
                   "another than the gradient's: passes:f32");
    auto& hop = hops.emplace_back();
    hop.over = static_cast<SumHop::Over>(over - kHops.begin());
    if (colon != std::string_view::npos) hop.dtype = parse_dtype(word.substr(colon + 1));
  }
  return hops;
}

// What stands before the last `separator`, and behind it. Without one all stands behind.
std::pair<std::string_view, std::string_view> cut_last(std::string_view text, char separator) {
  const auto at = text.rfind(separator);
  if (at == std::string_view::npos) return {"", text};
  return {text.substr(0, at), text.substr(at + 1)};
}

// "layers\.0\.core\.aten::mm#1": the module, and the op.
std::pair<std::string_view, std::string_view> cut_op(std::string_view path) {
  const auto at = path.rfind("::");
  if (at == std::string_view::npos) return {path, ""};
  const auto dot = path.rfind("\\.", at);
  if (dot == std::string_view::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 2)};
}

void check_op(const PlanRow& row, std::string_view text) {
  if (row.op.empty()) return;
  LOCKSTEP_CHECK(std::regex_match(row.op, std::regex("\\w+::\\w+(#\\d{1,9})?")), "[plan] '", text, "': '",
                 row.op, "' is no op; write aten::mm for each call of it, or aten::mm#1 for the second");
  LOCKSTEP_CHECK(row.phase == kForwardPre && !row.from, "[plan] '", text,
                 "': of an op it is said where an input goes, in the phase forward_pre, from anywhere");
}

void check_annotation(const PlanRow& row, std::string_view text) {
  LOCKSTEP_CHECK(is_annotation(row) || (row.sums == SumOrder::kFold && row.hops.empty()), "[plan] '", text,
                 "': an order of sums is of gradients of parameters");
  if (!is_annotation(row)) return;
  LOCKSTEP_CHECK(row.hops.empty() || (row.hops.size() == 2 && row.hops[0].over != row.hops[1].over),
                 "[plan] '", text,
                 "': terms are added up over passes once, and over ranks once; write passes,ranks or ",
                 "ranks,passes behind the ;");
  for (const auto& hop : row.hops)
    LOCKSTEP_CHECK(!hop.dtype || c10::isFloatingType(*hop.dtype), "[plan] '", text,
                   "': gradients are not added up in ", dtype_name(*hop.dtype), "; name a floating dtype");
  for (const auto& to : row.to)
    LOCKSTEP_CHECK(is_partial(to, ReduceOp::kSum), "[plan] '", text,
                   "': a gradient of a parameter pends as P, not as ", to);
  LOCKSTEP_CHECK(!row.from, "[plan] '", text,
                 "': of a parameter's gradient it is said where it pends: annot(P,dp)");
}

// What holds for every row, however it was made. @param text of it, or of the path that it came from
void check_row(const PlanRow& row, std::string_view text) {
  const auto* tensor = entry(row.phase).tensor;
  const bool is_other =
      (is_factory(row) && row.phase == kRun) || (is_annotation(row) && row.phase == kBackwardPost);
  check_op(row, text);
  check_annotation(row, text);
  LOCKSTEP_CHECK(is_other || (tensor == nullptr ? !row.tensor.starts_with('<') : row.tensor == tensor),
                 "[plan] '", text, "': in the phase ", name(row.phase), " the tensor is ",
                 tensor == nullptr ? "a parameter or buffer, by its name" : tensor, ", not ", row.tensor);
  LOCKSTEP_CHECK(row.index >= 0 && (row.index == 0 || row.tensor == "<in>"), "[plan] '", text, "': number ",
                 row.index, " of ", row.tensor, "; a module has inputs 0, 1, … and one output");
  LOCKSTEP_CHECK(tensor != nullptr || !row.from, "[plan] '", text, "': from where is said of what is ",
                 "redistributed, not of what is sharded");
  LOCKSTEP_CHECK(!parse_integer(row.tensor), "[plan] '", text, "': ", row.tensor, " names no tensor");
  const bool may_be_planned = row.phase == kInit && row.tensor == "*";
  for (const auto& to : row.to)
    LOCKSTEP_CHECK(may_be_planned || to != Placement(RaggedShard{}), "[plan] '", text,
                   "': G without units is of init:*:shard(G,…); name another placement");
  const auto dims = row.mesh_dims.size();
  LOCKSTEP_CHECK(dims > 0 && row.to.size() == dims && (!row.from || row.from->size() == dims), "[plan] '",
                 text, "' has ", dims, " mesh dimensions and ", row.to.size(),
                 " placements; write one for each: redist([P,S1]->[R,R],dp,tp)");
  for (size_t i = 0; i < dims; ++i)
    LOCKSTEP_CHECK(!row.mesh_dims[i].empty() &&
                       std::count(row.mesh_dims.begin(), row.mesh_dims.end(), row.mesh_dims[i]) == 1,
                   "[plan] '", text, "' names the mesh dimension '", row.mesh_dims[i],
                   "' more than once, or not at all");
  LOCKSTEP_CHECK(!row.starts_early || row.phase == kForwardPost, "[plan] '", text,
                 "': what is begun early is the output, in the phase forward_post");
  try {
    const std::regex pattern(row.module);
  } catch (const std::regex_error& e) {
    throw Error(
        concat("[plan] '", text, "': the path '", row.module, "' is no regular expression: ", e.what()));
  }
}

// A row that is being read: what is wrong is said with all of it.
class RowReader {
 public:
  explicit RowReader(std::string_view text) : text_(text) {}

  PlanRow read() try {
    const auto open = text_.rfind('(');
    check(open != std::string_view::npos && text_.ends_with(')'), "no action in parentheses");
    const auto [head, action] = cut_last(text_.substr(0, open), ':');
    read_head(head);
    read_action(action, text_.substr(open + 1, text_.size() - open - 2));
    check_row(row_, text_);
    return row_;
  } catch (const Error& e) {
    const std::string_view said = e.what();
    if (said.starts_with("[plan]")) throw;
    throw Error(concat("[plan] '", text_, "': ", said));
  }

 private:
  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    LOCKSTEP_CHECK(condition, "[plan] '", text_, "' has ", parts...,
                   "; a row is PATH.PHASE:TENSOR:ACTION, as in fc1.init:weight:shard(S0,tp), "
                   "fc1.forward_pre:<in>:0:redist(->R,tp)");
  }

  // PATH.PHASE:TENSOR, and of inputs :INDEX.
  void read_head(std::string_view head) {
    auto [place, tensor] = cut_last(head, ':');
    if (const auto index = parse_integer(tensor)) {
      row_.index = *index;
      std::tie(place, tensor) = cut_last(place, ':');
      check(tensor == "<in>", "a number behind ", tensor, ", of which there is one");
    }
    check(!place.empty() && !tensor.empty(), "no phase and tensor, which colons part");
    row_.tensor = tensor;
    const auto [module, phase] = cut_last(place, '.');
    std::tie(row_.module, row_.op) = cut_op(module);
    row_.phase = phase_named(phase);
  }

  PlanPhase phase_named(std::string_view word) const {
    std::vector<std::string> names;
    for (const auto& each : kPhases) {
      if (word == each.name) return each.phase;
      names.emplace_back(each.name);
    }
    throw Error(concat("[plan] '", text_, "' has no phase '", word, "'", did_you_mean(word, names)));
  }

  void read_action(std::string_view word, std::string_view arguments) {
    const auto annotation = std::find(kAnnotations.begin(), kAnnotations.end(), word);
    const bool is_annotated = annotation != kAnnotations.end(), is_shard = word == kShard || is_annotated;
    if (!is_shard && word != kRedist && word != kRedistEarly)
      throw Error(
          concat("[plan] '", text_, "' has no action '", word, "'",
                 did_you_mean(word, {kShard, kRedist, kRedistEarly, "annot", "annot_tree", "annot_exact"})));
    check(is_annotated == is_annotation(row_) &&
              is_shard == (is_of_parameters(row_.phase) || is_annotation(row_)),
          "the action ", word, " of ", row_.tensor, " in the phase ", name(row_.phase),
          ", where parameters are sharded, their gradients annotated, and other tensors redistributed");
    if (is_annotated) row_.sums = static_cast<SumOrder>(annotation - kAnnotations.begin());
    row_.starts_early = word == kRedistEarly;
    const auto hops = arguments.find(';');
    check(is_annotated || hops == std::string_view::npos, "a ;, behind which gradients' sums stand");
    if (hops != std::string_view::npos) row_.hops = hops_in(arguments.substr(hops + 1));
    arguments = arguments.substr(0, hops);
    // Placements hold commas in brackets alone.
    const auto end =
        arguments.find(',', arguments.rfind(']') == std::string_view::npos ? 0 : arguments.rfind(']'));
    check(end != std::string_view::npos, "no mesh dimension behind the placements");
    for (const auto dim : split(arguments.substr(end + 1), ',')) row_.mesh_dims.emplace_back(dim);
    const auto moves = arguments.substr(0, end);
    const auto arrow = moves.find("->");
    check(is_shard == (arrow == std::string_view::npos), is_shard ? "an arrow" : "no arrow", " in '", moves,
          "'");
    row_.to = placements_in(is_shard ? moves : moves.substr(arrow + 2));
    if (!is_shard && arrow > 0) row_.from = placements_in(moves.substr(0, arrow));
  }

  std::string_view text_;
  PlanRow row_;
};

// The module's path, and the tensor.
PlanRow row_at(std::string_view path, PlanPhase phase, Placements to, std::vector<std::string> mesh_dims) {
  PlanRow row;
  row.phase = phase;
  row.to = std::move(to);
  row.mesh_dims = std::move(mesh_dims);
  auto [module, tensor] = cut_last(path, '.');
  if (const auto colon = tensor.rfind(':'); colon != std::string_view::npos) {
    const auto index = parse_integer(tensor.substr(colon + 1));
    LOCKSTEP_CHECK(index, "[plan] '", path, "': which of the inputs is a number, as in <in>:1");
    row.index = *index;
    tensor = tensor.substr(0, colon);
  }
  std::tie(row.module, row.op) = cut_op(module);
  row.tensor = tensor;
  return row;
}

}  // namespace

ParallelPlan::ParallelPlan(std::vector<PlanRow> rows) : rows_(std::move(rows)) {
  for (const auto& row : rows_) check_row(row, to_string(row));
}

ParallelPlan& ParallelPlan::shard(std::string_view path, Placements to, std::vector<std::string> mesh_dims,
                                  PlanPhase phase) {
  LOCKSTEP_CHECK(is_of_parameters(phase), "[plan] '", path, "' is sharded in the phase ", name(phase),
                 "; say init or run");
  auto row = row_at(path, phase, std::move(to), std::move(mesh_dims));
  check_row(row, path);
  rows_.push_back(std::move(row));
  return *this;
}

ParallelPlan& ParallelPlan::factory(std::string_view path, Placements to,
                                    std::vector<std::string> mesh_dims) {
  return shard(concat(path, ".", kFactory), std::move(to), std::move(mesh_dims), kRun);
}

ParallelPlan& ParallelPlan::annotate(std::string_view path, Placements pending,
                                     std::vector<std::string> mesh_dims, SumOrder sums,
                                     std::vector<SumHop> hops) {
  LOCKSTEP_CHECK(path.ends_with(kGrad), "[plan] '", path,
                 "' is no gradient; write fc1.weight.grad, or *.grad");
  auto row = row_at(path.substr(0, path.size() - kGrad.size()), kBackwardPost, std::move(pending),
                    std::move(mesh_dims));
  row.tensor += kGrad;
  row.sums = sums;
  row.hops = std::move(hops);
  check_row(row, path);
  rows_.push_back(std::move(row));
  return *this;
}

ParallelPlan& ParallelPlan::redistribute(std::string_view path, std::optional<Placements> from, Placements to,
                                         std::vector<std::string> mesh_dims,
                                         const std::optional<Gradient>& gradient) {
  const bool is_output = path.ends_with("<out>");
  auto row = row_at(path, is_output ? kForwardPost : kForwardPre, std::move(to), std::move(mesh_dims));
  row.from = std::move(from);
  check_row(row, path);
  auto back = row;
  if (gradient) {
    back.phase = is_output ? kBackwardPre : kBackwardPost;
    back.from = gradient->from;
    back.to = gradient->to;
    check_row(back, path);
  }
  rows_.push_back(std::move(row));
  if (gradient) rows_.push_back(std::move(back));
  return *this;
}

ParallelPlan& ParallelPlan::operator+=(const ParallelPlan& other) {
  const auto rows = other.rows_;  // which may be its own
  rows_.insert(rows_.end(), rows.begin(), rows.end());
  return *this;
}

bool is_factory(const PlanRow& row) {
  return row.tensor == kFactory;
}

bool is_annotation(const PlanRow& row) {
  return row.tensor.ends_with(kGrad) && !is_of_parameters(row.phase);
}

bool tells_passes(SumOrder sums, const std::vector<SumHop>& hops) {
  return sums == SumOrder::kExact || !hops.empty();
}

std::string_view base_op(const PlanRow& row) {
  return std::string_view(row.op).substr(0, row.op.find('#'));
}

bool is_of_parameters(PlanPhase phase) {
  return entry(phase).tensor == nullptr;
}

const char* name(PlanPhase phase) {
  return entry(phase).name;
}

std::string action(const PlanRow& row) {
  const auto index = row.tensor == "<in>" ? concat(":", row.index) : "";
  auto text = concat(name(row.phase), ":", row.tensor, index, ":", verb(row), "(");
  if (!is_of_parameters(row.phase) && !is_annotation(row))
    text += (row.from ? text_of(*row.from) : "") + "->";
  text += text_of(row.to);
  for (const auto& dim : row.mesh_dims) text += "," + dim;
  return text + text_of(row.hops) + ")";
}

std::string to_string(const PlanRow& row) {
  const auto path = concat(row.module, row.module.empty() || row.op.empty() ? "" : "\\.", row.op);
  return path.empty() ? action(row) : concat(path, ".", action(row));
}

std::ostream& operator<<(std::ostream& out, const PlanRow& row) {
  return out << to_string(row);
}

std::string to_string(const ParallelPlan& plan) {
  std::string text;
  for (const auto& row : plan.rows()) text += to_string(row) + "\n";
  return text;
}

PlanRow parse_plan_row(std::string_view text) {
  return RowReader(text).read();
}

ParallelPlan parse_plan(std::string_view text) {
  std::vector<PlanRow> rows;
  int64_t number = 0;
  for (auto line : split(text, '\n')) {
    ++number;
    const auto first = line.find_first_not_of(" \t");
    const auto last = line.find_last_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    try {
      rows.push_back(parse_plan_row(line.substr(first, last - first + 1)));
    } catch (const Error& e) {
      throw Error(concat(e.what(), " (line ", number, ")"));
    }
  }
  return ParallelPlan(std::move(rows));
}

ParallelPlan load_plan(const std::string& file) {
  std::ifstream in(file);
  LOCKSTEP_CHECK(in && !std::filesystem::is_directory(file), "[plan] cannot read '", file,
                 "'; name a file with a row a line");
  return parse_plan(std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()});
}

void save_plan(const std::string& file, const ParallelPlan& plan) {
  std::ofstream out(file);
  out << to_string(plan) << std::flush;
  LOCKSTEP_CHECK(out, "[plan] cannot write '", file, "'");
}

}  // namespace lockstep
