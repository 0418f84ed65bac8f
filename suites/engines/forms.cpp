// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/forms.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "engine/layout/layout.h"
#include "engine/layout/route.h"
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

// Undefined where the op refuses.
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

// What the op makes of the parts of a group, on the rank at this place, by its definition; undefined: it has
// none for such parts. What pends is taken for what it is the sum of.
at::Tensor by_definition(std::string_view op, const std::vector<at::Tensor>& parts, int64_t place) {
  const int64_t rows = parts[0].size(0), ranks = std::ssize(parts);
  for (const auto& part : parts)
    if (part.sizes() != parts[0].sizes()) return {};
  const auto piece = [&](const at::Tensor& part) {
    return part.narrow(0, place * (rows / ranks), rows / ranks);
  };
  if (op == "all_gather_into_tensor") return at::cat(parts);
  if (rows % ranks != 0) return {};
  if (op == "reduce_scatter_tensor") return piece(parts[as_size(place)]);
  std::vector<at::Tensor> pieces;
  for (const auto& part : parts) pieces.push_back(piece(part));
  return at::cat(pieces);
}

// Whether the op's definition makes of a tensor of numbers that are all different, which lies so, what
// redistribute makes of it.
bool is_as_defined(std::string_view op, const at::Tensor& numbers, int64_t mesh_dim, const Placement& after) {
  const auto& from = spec(numbers);
  auto target = from.placements();
  target[as_size(mesh_dim)] = after;
  const auto expected = redistribute(numbers, target, innermost(from.order(), mesh_dim));
  for (int64_t p = 0; p < from.mesh().size(); ++p) {
    std::vector<at::Tensor> parts;
    const auto line = from.mesh().line(p, mesh_dim);
    for (const int64_t other : line) parts.push_back(local_tensors(numbers)[as_size(other)]);
    const auto place = std::find(line.begin(), line.end(), p) - line.begin();
    const auto made = by_definition(op, parts, place);
    if (!made.defined() || !made.equal(local_tensors(expected)[as_size(p)])) return false;
  }
  return true;
}

// Whether it does so of a tensor as this one: not for lack of rows alone, but of one with rows for all, too.
// Asked in a world of its own, whose bytes are nobody's, and of which every process hosts all ranks.
bool is_legal(std::string_view op, const Spec& from, int64_t mesh_dim, const Placement& after) {
  if (op == "all_reduce") return true;
  if (is_flat(from) || from.mesh().size(mesh_dim) == 1 || from.numel() == 0) return false;
  auto lies = from.placements();
  for (auto& each : lies)
    if (is_partial(each)) each = Replicate{};
  const auto& like = from.mesh();
  const auto mesh = init_device_mesh(like.device_type(), like.shape(), like.names());
  const auto rows_for_all = 12 * from.mesh().size();
  for (const int64_t times : {int64_t{1}, rows_for_all}) {
    auto shape = from.shape();
    shape[0] *= times;
    const auto numbers = at::arange(c10::multiply_integers(shape)).view(shape);
    if (!is_as_defined(op, distribute_tensor(numbers, mesh, lies, from.order()), mesh_dim, after))
      return false;
  }
  return true;
}

}  // namespace

void check_list(const at::Tensor& tensor, const oracle::Target& target) {
  const at::NoGradGuard no_grad;
  const auto& from = spec(tensor);
  PerRank<at::Tensor> locals;
  for (const auto& local : local_tensors(tensor)) locals.push_back(at::zeros_like(local));
  const auto others = from_local(locals, device_mesh(tensor), from.placements(), from.shape(), from.stride(),
                                 /*run_check=*/false, from.order());
  const Placements whole(from.placements().size(), Replicate{});
  const auto moved =
      redistribute(std::vector<at::Tensor>{tensor, others, others},
                   {target.placements, target.placements, whole}, {target.order, target.order, {}});
  expect_same(moved[0], redistribute(tensor, target.placements, target.order), "a list");
  expect_same(moved[1], redistribute(others, target.placements, target.order), "a list of several");
  expect_same(moved[2], redistribute(others, whole), "a list of two routes");
}

void check_collectives(const at::Tensor& tensor, const SpoilForms& spoil) {
  const at::NoGradGuard no_grad;
  const auto& from = spec(tensor);
  for (int64_t d = 0; d < from.mesh().ndim(); ++d)
    for (const auto& [op, after] : collectives_on(from, d)) {
      const auto group =
          spoil.group != nullptr ? spoil.group(from.mesh(), d) : from.mesh().names()[as_size(d)];
      const auto got = called(op, tensor, d, group);
      if (!got.defined() && is_legal(op, from, d, after))
        throw std::logic_error(concat(op, " along mesh dimension ", d, " refuses ", from,
                                      ", of which it makes ", after, " by its definition"));
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
