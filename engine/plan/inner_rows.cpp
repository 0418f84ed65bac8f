// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/inner_rows.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "engine/tensor/factories.h"
#include "engine/tensor/op_inputs.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "engine/world/comm.h"

namespace lockstep {
namespace {

// Of the rows of a module that are of its factories, or of its ops.
template <class Is>
std::vector<const Located*> rows_of(const Target& target, const Is& is_it, std::string& what) {
  std::vector<const Located*> rows;
  for (const auto& located : target.rows) {
    if (!is_it(located.row)) continue;
    rows.push_back(&located);
    what += concat(what.empty() ? "" : ", ", located.row.op, located.row.op.empty() ? "" : ".",
                   action(located.row));
  }
  return rows;
}

}  // namespace

void place_factories(const Target& target, const MeshInWorld& mesh) {
  std::string what;
  const auto rows = rows_of(target, is_factory, what);
  if (rows.empty()) return;
  Placements to(as_size(mesh.mesh.ndim()), Replicate{});
  for (const auto* located : rows)
    for (size_t i = 0; i < located->dims.size(); ++i) to[located->dims[i]] = located->row.to[i];
  target.module->call_around(
      [comm = mesh.comm, to](nn::Tensors inputs, const nn::Module::Forward& forward) {
        const FactoryScope factories(comm, to);
        return forward(std::move(inputs));
      },
      what);
}

void check_ops(const Target& target) {
  for (const auto& [row, dims] : target.rows) {
    if (row.op.empty()) continue;
    std::vector<std::string> known;
    bool is_there = false, is_seen = false;
    for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
      if (name.name.starts_with("aten::")) known.push_back(name.name);
      if (name.name != base_op(row)) continue;
      is_there = true;
      const auto op = c10::Dispatcher::singleton().findOp(name);
      is_seen |= op && !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    }
    LOCKSTEP_CHECK(is_there, "[plan] ", row, ": there is no op ", base_op(row),
                   did_you_mean(base_op(row), known));
    LOCKSTEP_CHECK(is_seen, "[plan] ", row, ": ", base_op(row),
                   " is made of other ops before the engine sees it; name these");
  }
}

void move_op_inputs(const Target& target, const std::vector<Target>& targets, const MeshInWorld& mesh) {
  const auto is_of_op = [](const PlanRow& row) { return !row.op.empty(); };
  std::string what, others;
  std::vector<OpInput> inputs;
  for (const auto* located : rows_of(target, is_of_op, what)) {
    const auto& row = located->row;
    OpInput input{std::string(base_op(row)), -1, row.index, {}, concat(row, " of ", target.name())};
    if (const auto number = row.op.find('#'); number != std::string::npos)
      input.number = *parse_integer(std::string_view(row.op).substr(number + 1));
    for (size_t i = 0; i < located->dims.size(); ++i) input.along.emplace_back(located->dims[i], row.to[i]);
    inputs.push_back(std::move(input));
  }
  if (inputs.empty()) return;
  target.module->call_around(
      [inputs, context = mesh.comm->context](nn::Tensors of_module, const nn::Module::Forward& forward) {
        OpInputs moves(inputs);
        const Within rows(context, &Context::op_inputs, &moves);
        return forward(std::move(of_module));
      },
      what);
  for (const auto& inner : targets)
    if (!paths_within(target, inner.paths).empty() && rows_of(inner, is_of_op, others).empty())
      inner.module->call_around(
          [context = mesh.comm->context](nn::Tensors of_module, const nn::Module::Forward& forward) {
            const Within none(context, &Context::op_inputs, nullptr);
            return forward(std::move(of_module));
          },
          "without the rows of ops around it");
}

}  // namespace lockstep
