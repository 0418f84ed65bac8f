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

void label_calls(const Case& c, Names& names) {
  std::vector<int64_t> uses(static_cast<size_t>(c.program.value_count()), 0);
  for (const auto& call : c.program.calls) {
    if (call.op == oracle::kBackward) names.insert("backward");
    if (call.op == oracle::kLocalMap) names.insert("local-map");
    if (call.op == oracle::kAccumulate) names.insert("accumulate");
    if (oracle::creates_graph(call)) names.insert("double-backward");
    if (call.op == oracle::kSetGradEnabled) names.insert("no-grad");
    if (call.op == oracle::kScaleGradient) names.insert("hook");
    if (call.op == oracle::kFullTensor) names.insert("full-tensor");
    if (call.op == oracle::kItem || call.op == oracle::kEquality) names.insert("host-read");
    if (call.op.starts_with("aten::_fused_adam") || call.op == "aten::_fused_sgd_") names.insert("optimizer");
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

}  // namespace

std::vector<std::string> labels(const Case& c) {
  Names names;
  label_mesh(c.mesh, names);
  label_inputs(c, names);
  label_calls(c, names);
  if (c.integer_lane) names.insert("integer-lane");
  if (c.words != RandomWords::kPhilox) names.insert(concat("words-", name(c.words)));
  return {names.begin(), names.end()};
}

const std::vector<std::string>& all_labels() {
  static const auto parts = split(
      "accumulate backward bf16 bool double-backward empty-shard f16 f32 f64 full-tensor hook "
      "host-read i16 i32 i64 i8 in-place integer-lane interleaved list local-map mesh-1d mesh-2d mesh-3d "
      "mixed-dtypes named-mesh nested-shard no-grad one-rank optimizer other-order out partial-avg "
      "partial-max partial-min partial-product partial-sum plain-input ragged random redistribute "
      "reuse several-leaves size-0 size-1 special-values strided u8 unequal-mesh uneven view "
      "words-edges words-equal words-ones words-zeros",
      ' ');
  static const std::vector<std::string> list(parts.begin(), parts.end());
  return list;
}

}  // namespace lockstep::generators
