// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/forms.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <stdexcept>

#include "engine/values/as_size.h"
#include "engine/values/refused.h"
#include "engine/world/bits.h"
#include "engine/world/comm.h"

namespace lockstep::suites {
namespace {

void expect_same(const at::Tensor& got, const at::Tensor& expected, const std::string& form) {
  if (spec(got) != spec(expected))
    throw std::logic_error(concat(form, " gives ", spec(got), ", and redistribute ", spec(expected)));
  const auto& ranks = device_mesh(got).comm->ranks;
  for (size_t i = 0; i < ranks.size(); ++i)
    if (!same_bits(local_tensors(got)[i], local_tensors(expected)[i]))
      throw std::logic_error(
          concat(form, " gives rank ", ranks[i], " other bits of ", spec(got), " than redistribute"));
}

// A collective, and what becomes of the placement along its mesh dimension.
struct Collective {
  const char* name;
  Placement after;
};

std::vector<Collective> collectives_on(const Spec& spec, int64_t mesh_dim) {
  const auto& now = spec.placements()[as_size(mesh_dim)];
  const Placement turned = InterleavedShard{0, spec.mesh().size(mesh_dim)};
  std::vector<Collective> found;
  if (now == Placement(Shard{0})) {
    found.push_back({"all_gather_into_tensor", Replicate{}});
    found.push_back({"all_to_all_single", turned});
  }
  if (now == turned) found.push_back({"all_to_all_single", Shard{0}});
  if (is_partial(now)) found.push_back({"all_reduce", Replicate{}});
  if (is_partial(now) && spec.ndim() > 0) found.push_back({"reduce_scatter_tensor", Shard{0}});
  return found;
}

// Undefined where the op, by its definition, refuses: ranks that hold other numbers of rows, or rows that
// another mesh dimension cuts as well.
at::Tensor called(const std::string& op, const at::Tensor& tensor, int64_t mesh_dim,
                  const std::string& group) {
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(("_c10d_functional::" + op).c_str(), "");
  torch::jit::Stack stack;
  for (const auto& arg : handle.schema().arguments()) {
    if (arg.name() == "input") stack.emplace_back(tensor);
    if (arg.name() == "reduce_op")
      stack.emplace_back(name(std::get<Partial>(placements(tensor)[as_size(mesh_dim)]).op));
    if (arg.name() == "group_size") stack.emplace_back(spec(tensor).mesh().size(mesh_dim));
    if (arg.name().ends_with("split_sizes")) stack.emplace_back(std::vector<int64_t>());
    if (arg.name() == "group_name") stack.emplace_back(group);
  }
  try {
    handle.callBoxed(stack);
  } catch (const Refused&) {
    return {};
  }
  return wait_tensor(stack.back().toTensor());
}

}  // namespace

void check_list(const at::Tensor& tensor, const oracle::Target& target) {
  const at::NoGradGuard no_grad;
  const auto& from = spec(tensor);
  const auto others = zeros(from.shape(), device_mesh(tensor), from.placements(), from.dtype());
  const auto moved =
      redistribute(std::vector<at::Tensor>{tensor, others}, {target.placements}, {target.order});
  expect_same(moved[0], redistribute(tensor, target.placements, target.order), "a list");
  expect_same(moved[1], redistribute(others, target.placements, target.order), "a list of two");
}

void check_collectives(const at::Tensor& tensor, const SpoilForms& spoil) {
  const at::NoGradGuard no_grad;
  const auto& from = spec(tensor);
  for (int64_t d = 0; d < from.mesh().ndim(); ++d)
    for (const auto& [op, after] : collectives_on(from, d)) {
      const auto group =
          spoil.group != nullptr ? spoil.group(from.mesh(), d) : from.mesh().names()[as_size(d)];
      const auto got = called(op, tensor, d, group);
      if (!got.defined()) continue;
      auto expected = from.placements();
      expected[as_size(d)] = after;
      expect_same(got, redistribute(tensor, expected, spec(got).order()), op);
    }
}

void check_padded(const at::Tensor& tensor, const SpoilForms& spoil) {
  const at::NoGradGuard no_grad;
  const auto& own = local_tensors(tensor);
  if (own.empty() || !tensor.is_non_overlapping_and_dense()) return;
  auto locals = to_local(tensor, {}, /*padded=*/true);
  if (spoil.padded != nullptr) spoil.padded(locals, own);
  const auto& from = spec(tensor);
  const auto back = from_local(locals, device_mesh(tensor), from.placements(), from.shape(), from.stride(),
                               /*run_check=*/false, from.order(), /*padded=*/true);
  expect_same(back, tensor, "padded and back");
}

}  // namespace lockstep::suites
