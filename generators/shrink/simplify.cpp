// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <numeric>
#include <set>

#include "engine/values/ragged.h"
#include "engine/values/text.h"
#include "generators/shrink/edit.h"
#include "generators/shrink/shrink.h"
#include "generators/space/placements.h"
#include "generators/space/shapes.h"
#include "oracle/program/statements.h"

namespace lockstep::generators {
namespace {

using oracle::Case;
using oracle::Target;
using oracle::ValueKind;

template <class AnyCase>
auto targets_of(AnyCase& c) {
  std::vector<decltype(c.placements.data())> list;
  oracle::each_target(c, [&](auto& target) { list.push_back(&target); });
  return list;
}

int64_t placement_cost(const Placement& p) {
  if (is_replicate(p)) return 0;
  if (std::holds_alternative<Shard>(p)) return 1;
  if (is_partial(p, ReduceOp::kSum)) return 2;
  if (const auto* ragged = std::get_if<RaggedShard>(&p))
    return 4 + std::ssize(ragged->dims) + ragged->lists +
           std::accumulate(ragged->units.begin(), ragged->units.end(), int64_t{0});
  return is_partial(p) ? 3 : 4;
}

// The first list of units for all.
void unite_lists(RaggedShard& ragged) {
  ragged.units.resize(ragged.units.size() / static_cast<size_t>(ragged.lists));
  ragged.lists = 1;
}
void unite_lists(Target& target) {
  for (auto& p : target.placements)
    if (auto* ragged = std::get_if<RaggedShard>(&p)) unite_lists(*ragged);
}

// A mesh dimension of n ranks where there were more: the last one takes the units of those that go.
void shorten_units(Target& target, size_t dim, int64_t n) {
  unite_lists(target);
  auto* ragged = std::get_if<RaggedShard>(&target.placements[dim]);
  if (ragged == nullptr) return;
  for (; std::ssize(ragged->units) > n; ragged->units.pop_back())
    ragged->units.rbegin()[1] += ragged->units.back();
}

// A Shard; all units one rank's, or alike; fewer dimensions.
std::vector<Placement> simpler_ragged(const Placement& p) {
  const auto* ragged = std::get_if<RaggedShard>(&p);
  if (ragged == nullptr) return {};
  std::vector<Placement> list{Shard{0}};
  if (ragged->lists > 1) unite_lists(std::get<RaggedShard>(list.emplace_back(*ragged)));
  for (size_t r = 0; r < ragged->units.size() && ragged->lists == 1; ++r) {
    auto& one = std::get<RaggedShard>(list.emplace_back(*ragged));
    std::fill(one.units.begin(), one.units.end(), 0);
    one.units[r] = 1;
  }
  list.emplace_back(RaggedShard{ragged->dims, std::vector<int64_t>(ragged->units.size(), 1), ragged->lists});
  list.emplace_back(RaggedShard{{0}, ragged->units, ragged->lists});
  return list;
}

int64_t value_cost(ValueKind kind) {
  switch (kind) {
    case ValueKind::kIntegers:
      return 1;
    case ValueKind::kUniform:
      return 2;
    case ValueKind::kNormal:
      return 3;
    default:
      return kind == ValueKind::kSpecial || kind == ValueKind::kBits ? 4 : 0;
  }
}

void drop_dim(Target& target, size_t dim) {
  unite_lists(target);
  target.placements.erase(target.placements.begin() + static_cast<ptrdiff_t>(dim));
  const auto gone = static_cast<int64_t>(dim);
  std::erase(target.order, gone);
  for (auto& d : target.order)
    if (d > gone) --d;
}

// A mesh_map whose meshes kept the dimension; one that keeps no other is not well formed any more.
void drop_kept(oracle::Call& call, size_t dim) {
  const auto map = oracle::local_map_of(call);
  if (!map || map->kept.empty()) return;
  std::vector<int64_t> kept;
  for (const auto d : map->kept)
    if (d != static_cast<int64_t>(dim)) kept.push_back(d > static_cast<int64_t>(dim) ? d - 1 : d);
  call.args[0] = join(kept, '.');
}

// A copy, changed; the caller's list takes it.
template <class Change>
void add_changed(const Case& c, std::vector<Case>& list, Change change) {
  Case made = c;
  change(made);
  list.push_back(std::move(made));
}

// Sizes worth trying in place of n, smallest first.
std::vector<int64_t> smaller(int64_t n) {
  std::set<int64_t> sizes;
  for (const auto size : {int64_t{1}, int64_t{2}, n / 2, n - 1})
    if (size >= 1 && size < n) sizes.insert(size);
  return {sizes.begin(), sizes.end()};
}

// Every size, index bound and size argument equal to `from`.
void resize_everywhere(Case& c, int64_t from, int64_t to) {
  for (auto& input : c.program.inputs) {
    std::replace(input.shape.begin(), input.shape.end(), from, to);
    if (input.values.kind == ValueKind::kIndex && input.values.high == from - 1) input.values.high = to - 1;
  }
  for (auto& call : c.program.calls)
    for (auto& arg : call.args)
      if (auto* list = std::get_if<std::vector<int64_t>>(&arg))
        std::replace(list->begin(), list->end(), from, to);
}

void simplify_dtypes(const Case& c, std::vector<Case>& list) {
  const auto simplified = [&](c10::ScalarType dtype) {
    const bool narrow = dtype == c10::ScalarType::BFloat16 || dtype == c10::ScalarType::Half;
    // In the integer lane only a wider dtype surely holds the same numbers.
    return narrow || (dtype == c10::ScalarType::Double && !c.integer_lane) ? c10::ScalarType::Float : dtype;
  };
  add_changed(c, list, [&](Case& made) {
    for (auto& input : made.program.inputs) input.dtype = simplified(input.dtype);
    for (auto& call : made.program.calls)
      for (auto& arg : call.args)
        if (auto* dtype = std::get_if<c10::ScalarType>(&arg)) *dtype = simplified(*dtype);
  });
  for (size_t i = 0; i < c.program.inputs.size(); ++i)
    add_changed(c, list,
                [&](Case& made) { made.program.inputs[i].dtype = simplified(made.program.inputs[i].dtype); });
}

void simplify_input(const Case& c, size_t i, std::vector<Case>& list) {
  const auto& input = c.program.inputs[i];
  const auto change = [&](auto with) {
    add_changed(c, list, [&](Case& made) { with(made.program.inputs[i]); });
  };
  if (!input.memory_order.empty()) change([](auto& made) { made.memory_order.clear(); });
  if (value_cost(input.values.kind) > 0) {
    change([](auto& made) { made.values = {.kind = ValueKind::kOnes, .low = 0, .high = 0}; });
    // Within the range it had: the integer lane's bound rests on it.
    const bool integers = input.values.kind == ValueKind::kIntegers;
    const auto low = integers ? std::max<int64_t>(input.values.low, -2) : -2;
    const auto high = integers ? std::min<int64_t>(input.values.high, 2) : 2;
    if (low <= high)
      change([&](auto& made) { made.values = {.kind = ValueKind::kIntegers, .low = low, .high = high}; });
    if (!c.integer_lane)
      change([](auto& made) { made.values = {.kind = ValueKind::kNormal, .low = 0, .high = 0}; });
  }
  if (input.values.seed != 0) change([](auto& made) { made.values.seed = 0; });
}

// Operands, gradients and result of one call fit each other: they change together.
void whole_along(const Case& c, size_t k, std::vector<Case>& list) {
  if (!oracle::maps_locals(c.program.calls[k].op)) return;
  const auto change = [&](auto with) {
    add_changed(c, list, [&](Case& made) {
      for (auto& arg : made.program.calls[k].args)
        if (auto* target = std::get_if<Target>(&arg)) with(*target);
    });
  };
  change([&](Target& target) { target = replicated(c.mesh); });
  for (size_t d = 0; d < c.mesh.shape().size(); ++d)
    change([d](Target& target) { target.placements[d] = Replicate{}; });
}

// A sum of the costs, numbers or flags, of all items.
template <class Items, class Cost>
int64_t total(const Items& items, const Cost& cost) {
  int64_t sum = 0;
  for (const auto& item : items) sum += cost(item);
  return sum;
}

}  // namespace

std::vector<int64_t> complexity(const Case& c) {
  using oracle::Call, oracle::Input;
  const auto& p = c.program;
  const auto of_inputs = [&](const auto& cost) { return total(p.inputs, cost); };
  const auto of_args = [&](const auto& cost) {
    return total(p.calls, [&](const Call& call) { return total(call.args, cost); });
  };
  const auto targets = targets_of(c);
  return {std::ssize(p.calls),
          total(p.calls, [](const Call& call) { return oracle::runs_backward(call.op); }),
          c.mesh.size(),
          c.mesh.ndim(),
          of_args([](const oracle::Arg& arg) {
            const auto* list = std::get_if<std::vector<oracle::Ref>>(&arg);
            return list ? std::ssize(*list) : 0;
          }),
          of_inputs([](const Input& input) { return input.requires_grad; }),
          std::ssize(p.inputs),
          total(targets, [](const Target* target) { return total(target->placements, placement_cost); }),
          total(targets, [](const Target* target) { return !target->order.empty(); }),
          of_inputs([](const Input& input) { return numel(input.shape); }),
          of_inputs([](const Input& input) { return total(input.shape, [](int64_t n) { return n + 1; }); }),
          of_inputs([](const Input& input) {
            return input.dtype != c10::ScalarType::Float && c10::isFloatingType(input.dtype);
          }) + of_args([](const oracle::Arg& arg) {
            const auto* dtype = std::get_if<c10::ScalarType>(&arg);
            return dtype && *dtype != c10::ScalarType::Float;
          }),
          of_inputs([](const Input& input) { return !input.memory_order.empty(); }),
          of_inputs([](const Input& input) { return value_cost(input.values.kind); }),
          of_inputs([](const Input& input) { return input.values.seed != 0; }),
          p.seed != 0,
          static_cast<int64_t>(c.words),
          c.mesh.has_names(),
          c.device != DeviceModel{1, 256}};
}

std::vector<Case> simpler_meshes(const Case& c) {
  std::vector<Case> list;
  const auto& shape = c.mesh.shape();
  for (size_t d = 0; d < shape.size() && shape.size() > 1; ++d)
    add_changed(c, list, [&](Case& made) {
      auto rest = shape;
      rest.erase(rest.begin() + static_cast<ptrdiff_t>(d));
      made.mesh = DeviceMesh(rest).on(c.mesh.device_type());
      for (auto* target : targets_of(made)) drop_dim(*target, d);
      for (auto& call : made.program.calls) drop_kept(call, d);
    });
  for (size_t d = 0; d < shape.size(); ++d)
    for (const auto n : smaller(shape[d]))
      add_changed(c, list, [&](Case& made) {
        auto resized = shape;
        resized[d] = n;
        made.mesh = DeviceMesh(resized).on(c.mesh.device_type());
        for (auto* target : targets_of(made)) shorten_units(*target, d, n);
      });
  if (c.mesh.has_names())
    add_changed(c, list, [&](Case& made) { made.mesh = DeviceMesh(shape).on(c.mesh.device_type()); });
  return list;
}

std::vector<Case> simpler_placements(const Case& c) {
  std::vector<Case> list;
  for (size_t k = 0; k < c.program.calls.size(); ++k) whole_along(c, k, list);
  const auto targets = targets_of(c);
  for (size_t t = 0; t < targets.size(); ++t) {
    add_changed(c, list, [&](Case& made) { *targets_of(made)[t] = replicated(c.mesh); });
    for (size_t d = 0; d < c.mesh.shape().size(); ++d) {
      const auto change = [&](auto with) {
        add_changed(c, list, [&](Case& made) {
          auto& target = *targets_of(made)[t];
          target.order.clear();
          with(target.placements[d]);
        });
      };
      change([](Placement& p) { p = Replicate{}; });
      change([](Placement& p) { p = shard_dim(p) >= 0 ? Placement(Shard{shard_dim(p)}) : p; });
      change([](Placement& p) { p = is_partial(p) ? Placement(Partial{}) : p; });
      for (const auto& simpler : simpler_ragged(targets[t]->placements[d]))
        change([&](Placement& p) { p = simpler; });
    }
  }
  return list;
}

std::vector<Case> smaller_shapes(const Case& c) {
  std::vector<Case> list;
  std::set<int64_t, std::greater<>> sizes;
  for (const auto& input : c.program.inputs) sizes.insert(input.shape.begin(), input.shape.end());
  for (const auto& call : c.program.calls) {
    const auto placed = [](const oracle::Arg& arg) { return std::holds_alternative<Target>(arg); };
    if (std::none_of(call.args.begin(), call.args.end(), placed)) continue;
    for (const auto& arg : call.args)  // a factory's shape
      if (const auto* shape = std::get_if<std::vector<int64_t>>(&arg))
        sizes.insert(shape->begin(), shape->end());
  }
  for (const auto size : sizes)
    for (const auto to : smaller(size))
      add_changed(c, list, [&](Case& made) { resize_everywhere(made, size, to); });
  for (size_t i = 0; i < c.program.inputs.size(); ++i)
    for (size_t d = 0; d < c.program.inputs[i].shape.size(); ++d)
      for (const auto to : smaller(c.program.inputs[i].shape[d]))
        add_changed(c, list, [&](Case& made) { made.program.inputs[i].shape[d] = to; });
  return list;
}

std::vector<Case> simpler_values(const Case& c) {
  std::vector<Case> list;
  simplify_dtypes(c, list);
  for (size_t i = 0; i < c.program.inputs.size(); ++i) simplify_input(c, i, list);
  if (c.program.seed != 0) add_changed(c, list, [](Case& made) { made.program.seed = 0; });
  for (int words = 0; words < static_cast<int>(c.words); ++words)
    add_changed(c, list, [&](Case& made) { made.words = static_cast<RandomWords>(words); });
  add_changed(c, list, [](Case& made) { made.device = {1, 256}; });
  return list;
}

}  // namespace lockstep::generators
