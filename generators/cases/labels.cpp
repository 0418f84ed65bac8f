// SPDX-License-Identifier: Apache-2.0
#include "generators/cases/labels.h"

#include <algorithm>
#include <set>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "engine/values/text.h"
#include "generators/ops/ops.h"
#include "generators/program/trial.h"
#include "generators/random/random_ops.h"
#include "generators/random/random_space.h"
#include "generators/space/placements.h"
#include "oracle/program/options.h"
#include "oracle/program/statements.h"

namespace lockstep::generators {
namespace {

using oracle::Case;
using oracle::Target;

using Names = std::set<std::string>;

// How `parts` ranks share n elements as torch.chunk does.
std::string evenness_of(int64_t n, int64_t parts) {
  if (n % parts == 0 && n > 0) return "even";
  const auto piece = (n + parts - 1) / parts;
  return piece * (parts - 1) >= n ? "empty" : "uneven";
}

// @pre p distributes.
std::string evenness_of(const Placement& p, const std::vector<int64_t>& shape, int64_t ranks) {
  if (const auto* ragged = std::get_if<RaggedShard>(&p)) return evenness(*ragged, shape);
  const auto n = shape[static_cast<size_t>(shard_dim(p))];
  return evenness_of(n, ranks * parts(p));
}

void label_mesh(const DeviceMesh& mesh, Names& names) {
  names.insert("mesh-" + std::to_string(mesh.ndim()) + "d");
  if (mesh.size() == 1) names.insert("one-rank");
  if (mesh.has_names()) names.insert("named-mesh");
  if (std::set<int64_t>(mesh.shape().begin(), mesh.shape().end()).size() > 1) names.insert("unequal-mesh");
}

void label_target(const Target& target, const DeviceMesh& mesh, const std::vector<int64_t>* shape,
                  Names& names) {
  std::set<int64_t> cut;
  if (!target.order.empty()) names.insert("other-order");
  for (size_t d = 0; d < target.placements.size(); ++d) {
    const auto& p = target.placements[d];
    if (const auto* partial = std::get_if<Partial>(&p))
      names.insert(std::string("partial-") + name(partial->op));
    if (std::holds_alternative<InterleavedShard>(p)) names.insert("interleaved");
    if (is_ragged(p)) names.insert("ragged");
    if (is_ragged(p) && std::get<RaggedShard>(p).lists > 1) names.insert("ragged-lists");
    if (!distributes(p)) continue;
    if (is_shard(p) && !cut.insert(shard_dim(p)).second) names.insert("nested-shard");
    if (shape == nullptr) continue;
    const auto kind = evenness_of(p, *shape, mesh.shape()[d]);
    if (kind != "even") names.insert("uneven");
    if (kind == "empty") names.insert("empty-shard");
  }
}

void label_inputs(const Case& c, Names& names) {
  Names dtypes;
  int64_t leaves = 0;
  for (size_t i = 0; i < c.program.inputs.size(); ++i) {
    const auto& input = c.program.inputs[i];
    if (is_plain(c.placements[i])) names.insert("plain-input");
    dtypes.insert(dtype_name(input.dtype));
    leaves += input.requires_grad ? 1 : 0;
    if (!input.memory_order.empty()) names.insert("strided");
    if (c10::isReducedFloatingType(input.dtype) &&
        std::ranges::any_of(input.shape, [](int64_t n) { return n >= 1000; }))
      names.insert("many-terms");
    if (input.values.kind == oracle::ValueKind::kSpecial) names.insert("special-values");
    for (const auto n : input.shape)
      if (n < 2) names.insert(n == 0 ? "size-0" : "size-1");
    label_target(c.placements[i], c.mesh, &input.shape, names);
  }
  if (dtypes.size() > 1) names.insert("mixed-dtypes");
  names.insert(dtypes.begin(), dtypes.end());
  if (leaves > 1) names.insert("several-leaves");
}

void label_family(const std::string& op, Names& names) {
  if (const auto* random = find_random_op(op)) {
    names.insert("random");
    if (random->in_place()) names.insert("in-place");
  }
  for (const auto& entry : op_templates()) {
    if (op != entry.op) continue;
    if (entry.in_place()) names.insert("in-place");
    if (entry.family == kViews) names.insert("view");
    if (entry.family == kLists) names.insert("list");
    if (entry.family == kRandomOps) names.insert("random");
  }
}

bool convolves_halves(const Case& c, const oracle::Call& call) {
  if (!call.op.starts_with("aten::conv")) return false;
  const auto refs = references(call);
  return std::ranges::any_of(refs, [&](auto ref) {
    return ref.id >= 0 && ref.id < std::ssize(c.program.inputs) &&
           c10::isReducedFloatingType(c.program.inputs[static_cast<size_t>(ref.id)].dtype);
  });
}

bool steps_parameters(const std::string& op) {
  return op.starts_with("aten::_fused_adam") || op.starts_with("aten::_fused_sgd_");
}

void label_local_map(const oracle::LocalMap& map, Names& names) {
  names.insert("local-map");
  if (oracle::is_in_place(map.op)) names.insert("local-map-in-place");
  if (std::any_of(map.in.begin(), map.in.end(), oracle::has_partial)) names.insert("local-map-terms");
  for (const auto& arg : map.args)
    if (std::holds_alternative<std::vector<oracle::Ref>>(arg)) names.insert("local-map-list");
}

// Means where the Program forbids what it does not say to move.
void label_pending_means(const Case& c, Names& names) {
  bool forbids = false;
  for (const auto& call : c.program.calls) {
    if (call.op == oracle::kSetExplicitRedistribution) forbids = std::get<bool>(call.args.at(0));
    if (forbids && oracle::stem(call.op) == "aten::mean") names.insert("pending-mean");
  }
}

void label_calls(const Case& c, Names& names) {
  int64_t backwards = 0, stepped = 0;  // so far, and when an optimizer stepped last
  std::vector<int64_t> uses(static_cast<size_t>(c.program.value_count()), 0);
  for (const auto& call : c.program.calls) {
    if (call.op == oracle::kBackward) names.insert("backward");
    if (convolves_halves(c, call)) names.insert("half-convolution");
    if (call.op == oracle::kMeshMap)
      names.insert(oracle::local_map_of(call)->flat ? "mesh-flat" : "mesh-sub");
    else if (const auto map = oracle::local_map_of(call))
      label_local_map(*map, names);
    if (call.op == oracle::kAccumulate) names.insert("accumulate");
    if (oracle::creates_graph(call)) names.insert("double-backward");
    if (call.op == oracle::kSetGradEnabled) names.insert("no-grad");
    if (call.op == oracle::kScaleGradient) names.insert("hook");
    if (call.op == oracle::kFullTensor) names.insert("full-tensor");
    if (call.op == oracle::kItem || call.op == oracle::kEquality) names.insert("host-read");
    if (oracle::placed_by_factory(call) != nullptr) names.insert("placed-factory");
    if (oracle::runs_backward(call.op)) ++backwards;
    if (steps_parameters(call.op)) {
      names.insert("optimizer");
      if (stepped > 0 && backwards > stepped) names.insert("optimizer-steps");
      stepped = backwards;
    }
    if (call.op == oracle::kRedistribute) {
      names.insert("redistribute");
      label_target(std::get<Target>(call.args[1]), c.mesh, nullptr, names);
    }
    if (!oracle::is_in_place(call.op) && !written_by(call).empty()) names.insert("out");
    label_family(call.op, names);
    for (const auto ref : references(call))
      if (ref.id >= 0 && ++uses[static_cast<size_t>(ref.id)] == 2) names.insert("reuse");
  }
}

std::string statement_label(std::string_view op) {
  return concat("statement ", op.substr(op.find("::") + 2));
}

// Whether a backward after call number `k`, whose first result is value `first`, has a root that depends on a
// result of it; of a call without results, whether there is a backward after it.
bool has_backward_behind(const Case& c, size_t k, int64_t first) {
  const auto& calls = c.program.calls;
  std::vector<bool> depends(static_cast<size_t>(c.program.value_count()), false);
  const auto mark = [&](int64_t from, int64_t count) {
    for (int64_t i = from; i < from + count; ++i) depends[static_cast<size_t>(i)] = true;
  };
  const auto reads = [&](const std::vector<oracle::Ref>& refs) {
    return std::any_of(refs.begin(), refs.end(),
                       [&](auto ref) { return ref.id >= 0 && depends[static_cast<size_t>(ref.id)]; });
  };
  mark(first, calls[k].results);
  for (size_t j = k + 1, value = static_cast<size_t>(first + calls[k].results); j < calls.size(); ++j) {
    const auto& call = calls[j];
    if (oracle::runs_backward(call.op) && (calls[k].results == 0 || reads(oracle::refs_of(call.args.at(0)))))
      return true;
    if (reads(references(call))) mark(static_cast<int64_t>(value), call.results);
    value += static_cast<size_t>(call.results);
  }
  return false;
}

void label_statements(const Case& c, Names& names) {
  int64_t first = std::ssize(c.program.inputs);
  for (size_t k = 0; k < c.program.calls.size(); ++k) {
    const auto& call = c.program.calls[k];
    if (oracle::find_statement(call.op) != nullptr) {
      names.insert(statement_label(call.op));
      if (has_backward_behind(c, k, first)) names.insert(statement_label(call.op) + ", backward");
    }
    first += call.results;
  }
}

}  // namespace

std::vector<std::string> labels(const Case& c) {
  Names names;
  label_mesh(c.mesh, names);
  label_inputs(c, names);
  label_calls(c, names);
  label_statements(c, names);
  label_pending_means(c, names);
  if (oracle::allows_fallback(c)) names.insert("fallback");
  if (c.integer_lane) names.insert("integer-lane");
  if (c.words != RandomWords::kPhilox) names.insert(concat("words-", name(c.words)));
  return {names.begin(), names.end()};
}

std::vector<std::string> statement_labels() {
  std::vector<std::string> labels;
  for (const auto& row : oracle::statements())
    for (const auto* end : {"", ", backward"}) labels.push_back(statement_label(row.op) + end);
  return labels;
}

const std::vector<std::string>& all_labels() {
  static const auto parts = split(
      "accumulate backward bf16 bool double-backward empty-shard f16 f32 f64 fallback "
      "full-tensor half-convolution hook host-read i16 i32 i64 i8 in-place integer-lane interleaved list "
      "local-map local-map-in-place local-map-list local-map-terms many-terms mesh-1d mesh-2d mesh-3d "
      "mesh-flat mesh-sub mixed-dtypes named-mesh nested-shard no-grad one-rank optimizer "
      "optimizer-steps other-order out partial-avg partial-max partial-min partial-product "
      "partial-sum pending-mean placed-factory plain-input ragged ragged-lists random redistribute reuse "
      "several-leaves size-0 size-1 special-values strided u8 unequal-mesh uneven view "
      "words-edges words-equal words-ones words-zeros",
      ' ');
  static const std::vector<std::string> list(parts.begin(), parts.end());
  return list;
}

}  // namespace lockstep::generators
