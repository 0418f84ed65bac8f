// SPDX-License-Identifier: Apache-2.0
// torch's functional collectives on DTensors. A group is a mesh dimension, by its name. Law: what the op's
// definition makes of the locals of a group are the locals of the same tensor, redistributed along that mesh
// dimension; where it makes anything else, the call is refused.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <array>

#include "engine/layout/route.h"
#include "engine/ops/rules/row.h"
#include "engine/tensor/dtensor_impl.h"
#include "engine/tensor/init.h"
#include "engine/values/as_size.h"
#include "engine/values/refused.h"

namespace lockstep {
namespace {

using torch::jit::Stack;

enum class Kind { kGather, kReduce, kScatter, kTurn, kOther };

struct Collective {
  const char* name;
  Kind kind;
};
constexpr auto kCollectives = std::to_array<Collective>({
    {"all_gather_into_tensor", Kind::kGather},
    {"all_gather_into_tensor_coalesced", Kind::kGather},
    {"all_reduce", Kind::kReduce},
    {"all_reduce_coalesced", Kind::kReduce},
    {"reduce_scatter_tensor", Kind::kScatter},
    {"reduce_scatter_tensor_coalesced", Kind::kScatter},
    {"all_to_all_single", Kind::kTurn},
    {"all_gather_into_tensor_out", Kind::kOther},
    {"all_reduce_", Kind::kOther},
    {"all_reduce_coalesced_", Kind::kOther},
    {"broadcast", Kind::kOther},
    {"broadcast_", Kind::kOther},
    {"reduce_scatter_tensor_out", Kind::kOther},
});

// What it takes along its mesh dimension, in the order of Kind.
constexpr const char* kTakes[] = {
    "takes Shard(0)",
    "takes a Partial of its reduction",
    "takes a Partial of its reduction, of at least one dimension",
    "takes Shard(0), or the InterleavedShard that it makes of that",
    "writes to what it is given, or makes one rank's part everybody's, which is another tensor",
};

// A call, of which one tensor is looked at.
struct Call {
  const c10::OperatorHandle& op;
  Arguments args;
  Kind kind;
  const Spec& spec;
  int64_t mesh_dim = -1;

  const Placement& now() const { return spec.placements()[as_size(mesh_dim)]; }
  int64_t ranks() const { return spec.mesh().size(mesh_dim); }
};

[[noreturn]] void refuse(const Call& call, const std::string& problem, std::string remedy) {
  throw Refused(Refusal::kNoRule, concat(call.op.operator_name()), to_string(call.spec),
                concat(problem, ", and was given ", call.spec, " on mesh ", call.spec.mesh(), "; "),
                std::move(remedy));
}

[[noreturn]] void refuse_placement(const Call& call, const std::string& problem) {
  const auto along = concat(", along ", call.spec.mesh().names()[as_size(call.mesh_dim)]);
  refuse(call, concat(problem, along), "use redistribute, or call the op on what to_local() gives");
}

int64_t dimension_of(const Call& call) {
  const auto& names = call.spec.mesh().names();
  const auto group = call.args["group_name"].toStringView();
  const auto found = std::find(names.begin(), names.end(), group);
  if (found != names.end()) return found - names.begin();
  std::string known;
  for (const auto& each : names) known += concat(known.empty() ? "" : ", ", each);
  refuse(call, concat("knows no group '", group, "'"),
         concat("a group is a mesh dimension, by its name: ", known));
}

// Along the mesh dimension, as far as the op's definition goes.
Placement goes_to(const Call& call) {
  const auto reduces = [&] {
    const auto* pending = std::get_if<Partial>(&call.now());
    return pending != nullptr && name(pending->op) == call.args["reduce_op"].toStringView();
  };
  const Placement turned = InterleavedShard{0, call.ranks()};
  if (call.kind == Kind::kGather && call.now() == Placement(Shard{0})) return Replicate{};
  if (call.kind == Kind::kReduce && reduces()) return Replicate{};
  if (call.kind == Kind::kScatter && reduces() && call.spec.ndim() > 0) return Shard{0};
  if (call.kind == Kind::kTurn && call.now() == Placement(Shard{0})) return turned;
  if (call.kind == Kind::kTurn && call.now() == turned) return Shard{0};
  refuse_placement(call, kTakes[static_cast<size_t>(call.kind)]);
}

// Ranks along the mesh dimension hold as much of dimension 0.
bool is_even(const Spec& spec, int64_t mesh_dim) {
  if (!distributes(spec.placements()[as_size(mesh_dim)])) return true;
  const auto& mesh = spec.mesh();
  for (int64_t p = 0; p < mesh.size(); ++p) {
    auto first = mesh.coordinate(p);
    first[as_size(mesh_dim)] = 0;
    if (local_shape(spec, p)[0] != local_shape(spec, mesh.position(first))[0]) return false;
  }
  return true;
}

// Who splits gives each of the group as much.
void check_splits(const Call& call, const Comm& comm) {
  if (call.kind != Kind::kTurn) return;
  for (const auto* arg : {"output_split_sizes", "input_split_sizes"}) {
    const auto sizes = call.args.integers(arg);
    for (const int64_t p : comm.positions) {
      const int64_t rows = local_shape(call.spec, p)[0] / call.ranks();
      if (sizes.empty() || sizes == std::vector<int64_t>(as_size(call.ranks()), rows)) continue;
      refuse_placement(call, concat("has ", arg, " ", at::IntArrayRef(sizes),
                                    ", and only equal ones leave a tensor that a placement names"));
    }
  }
}

// @post the placements and order there
Spec target_of(const Call& call, const Comm& comm) {
  if (const auto* size = call.args.find("group_size"); size != nullptr && size->toInt() != call.ranks())
    refuse_placement(call, concat("has group_size ", size->toInt(), ", not ", call.ranks()));
  if (call.kind != Kind::kReduce && is_flat(call.spec))
    refuse_placement(call, "needs rows, and flat locals have none");
  auto placements = call.spec.placements();
  placements[as_size(call.mesh_dim)] = goes_to(call);
  if (distributes(call.now()) && !is_innermost(call.spec, call.mesh_dim))
    refuse_placement(call, "needs whole locals, which no other mesh dimension cuts after it");
  constexpr const char* kUneven = "needs the same number of rows on each rank, before and after";
  if (!is_even(call.spec, call.mesh_dim)) refuse_placement(call, kUneven);
  auto target = call.spec.with_placements(std::move(placements), innermost(call.spec.order(), call.mesh_dim));
  if (!is_even(target, call.mesh_dim)) refuse_placement(call, kUneven);
  check_splits(call, comm);
  return target;
}

// As if no kernel were here: `keys` are those that this one was called for.
void pass_on(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  auto rest = keys & c10::after_autograd_keyset;
  if (keys.has_any(c10::autograd_dispatch_keyset))
    rest = rest.add(c10::DispatchKey::AutogradOther);
  else
    rest = rest.remove(c10::DispatchKey::Fake);
  op.redispatchBoxed(rest, stack);
}

Kind kind_of(const c10::OperatorHandle& op) {
  const std::string_view name = op.schema().name();
  const auto* found = std::find_if(kCollectives.begin(), kCollectives.end(), [&](const auto& each) {
    return name.substr(name.find("::") + 2) == each.name;
  });
  return found->kind;
}

// A list goes in one exchange; what is alone is begun, and whoever uses it first waits, as for wait_tensor.
void collective(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const size_t n = op.schema().arguments().size();
  const std::vector<c10::IValue> values(stack->end() - static_cast<ptrdiff_t>(n), stack->end());
  const bool is_list = values[0].isTensorList();
  const auto inputs = is_list ? values[0].toTensorVector() : std::vector<at::Tensor>{values[0].toTensor()};
  if (std::none_of(inputs.begin(), inputs.end(), is_dtensor)) return pass_on(op, keys, stack);
  std::vector<Placements> placements;
  std::vector<std::vector<int64_t>> orders;
  for (const auto& input : inputs) {
    const auto& impl = require_dtensor(input, op.schema().name().c_str());
    Call call{op, Arguments(op.schema(), values), kind_of(op), *impl.spec()};
    call.mesh_dim = dimension_of(call);
    const auto target = target_of(call, *impl.comm());
    placements.push_back(target.placements());
    orders.push_back(target.order());
  }
  torch::jit::drop(*stack, n);
  if (is_list)
    stack->emplace_back(redistribute(inputs, placements, orders));
  else
    stack->emplace_back(redistribute(inputs[0], placements[0], orders[0], /*async_op=*/true));
}

void wait(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (!is_dtensor(stack->back().toTensor())) return pass_on(op, keys, stack);
  wait_tensor(stack->back().toTensor());
}

}  // namespace

// Above autograd, where they have gradients, and below it, where in InferenceMode they arrive.
void register_collectives() {
  using c10::DispatchKey;
  static std::vector<torch::Library> libraries;
  const auto is_known = [](const char* space, const char* name) {
    return c10::Dispatcher::singleton().findSchema({concat(space, "::", name), ""}).has_value();
  };
  for (const auto* space : {"_c10d_functional", "_c10d_functional_autograd"})
    for (const auto key : {DispatchKey::AutogradCPU, DispatchKey::AutogradCUDA, DispatchKey::AutogradMeta,
                           DispatchKey::Fake}) {
      auto& library = libraries.emplace_back(torch::Library::IMPL, space, key, __FILE__, __LINE__);
      for (const auto& [name, kind] : kCollectives)
        if (is_known(space, name))
          library.impl(name, torch::CppFunction::makeFromBoxedFunction<&collective>());
      if (is_known(space, "wait_tensor"))
        library.impl("wait_tensor", torch::CppFunction::makeFromBoxedFunction<&wait>());
    }
}

}  // namespace lockstep
