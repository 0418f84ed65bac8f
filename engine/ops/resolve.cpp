// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/resolve.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "engine/context/context.h"
#include "engine/ops/rules/table.h"

namespace lockstep {

struct Resolutions {
  std::unordered_map<const c10::FunctionSchema*, Resolved> map;
  uint64_t version = 0;  // of the users' rules
};

namespace {

constexpr std::string_view kForeach = "aten::_foreach_";

// Whatever the overload is called: max.dim_max and topk.values are out variants too.
bool is_out(const c10::FunctionSchema& schema) {
  return !schema.arguments().empty() && schema.arguments().back().is_out();
}

// The rule of the very op, or of this overload of it alone.
const OpEntry* own_entry(const c10::FunctionSchema& schema) {
  const auto* entry = find_op(schema.name() + "." + schema.overload_name());
  if (entry == nullptr) entry = find_op(schema.name());
  return entry != nullptr && entry->except == schema.overload_name() ? nullptr : entry;
}

// Else that of the functional op: without the "_" of in-place ops, without "_foreach_".
const OpEntry* entry_of(const c10::FunctionSchema& schema, Variant variant) {
  const auto* entry = own_entry(schema);
  auto name = schema.name();
  if (entry == nullptr && name.ends_with('_')) {
    name.pop_back();
    entry = find_op(name);
  }
  if (entry == nullptr && variant == Variant::kList && name.starts_with(kForeach))
    entry = find_op("aten::" + name.substr(kForeach.size()));
  return entry;
}

// The overload of the same op that takes the same arguments but for the outs. A look at every operator's
// name, some 0.5 ms.
std::optional<c10::OperatorHandle> functional_of(const c10::FunctionSchema& schema, size_t args) {
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name != schema.name()) continue;
    const auto candidate = c10::Dispatcher::singleton().findSchema(name);
    if (!candidate.has_value() || candidate->schema().arguments().size() != args) continue;
    bool same = !candidate->schema().is_mutable();
    for (size_t i = 0; same && i < args; ++i)
      same = *candidate->schema().arguments()[i].type() == *schema.arguments()[i].type();
    if (same) return candidate;
  }
  return std::nullopt;
}

ArgKind kind_of(const c10::Argument& arg) {
  const auto text = arg.type()->str();
  if (arg.name() == "scalars")
    return ArgKind::kConstant;  // of a foreach op: numbers, though a tensor holds them
  if (text == "Tensor" || text == "Tensor?") return ArgKind::kTensor;
  const bool list = text == "Tensor[]" || text == "Tensor?[]" || text == "Tensor[]?";
  return list ? ArgKind::kTensorList : ArgKind::kConstant;
}

// As libtorch's fallback for ZeroTensors, and what it lets through to their kernels. Views of them are such
// again, and what writes to them refuses.
Zeros zeros_in(const c10::FunctionSchema& schema, const std::vector<bool>& mutated) {
  static constexpr std::array kThrough = {"aten::clone",     "aten::zeros_like", "aten::empty_like",
                                          "aten::full_like", "aten::add.Scalar", "aten::dot",
                                          "aten::vdot"};
  const auto name = c10::toString(schema.operator_name());
  const auto& arguments = schema.arguments();
  if (std::ranges::find(kThrough, name) != kThrough.end() ||
      std::ranges::find(mutated, true) != mutated.end() ||
      std::ranges::any_of(arguments, [](const auto& a) { return a.alias_info() != nullptr; }))
    return Zeros::kAsTheyLie;
  if (name == "aten::mul.Tensor" || name == "aten::mul.Scalar") return Zeros::kTimes;
  if (name == "aten::div.Tensor") return Zeros::kDivides;
  return name == "aten::add.Tensor" ? Zeros::kAdds : Zeros::kOrdinary;
}

// @pre there is a rule
bool is_of(const Bypass::Ops& ops, const c10::OperatorHandle& op, const Resolved& resolved) {
  if (const auto* name = std::get_if<std::string>(&ops))
    return *name == resolved.entry->name || *name == op.schema().name() ||
           *name == c10::toString(op.operator_name());
  const auto tag = std::get<at::Tag>(ops);  // which generated out variants lack
  if (!runs_stock(*resolved.entry)) return false;
  return op.hasTag(tag) || (resolved.functional.has_value() && resolved.functional->hasTag(tag));
}

// Results that are several, or lists, no bypass tells of.
std::vector<Bypass> bypasses_of(const c10::OperatorHandle& op, const Resolved& resolved) {
  const auto& returns = op.schema().returns();
  if (resolved.entry == nullptr || returns.size() != 1 || op.hasTag(at::Tag::nondeterministic_seeded))
    return {};
  const bool value = kind_of(returns[0]) == ArgKind::kTensor;
  if (!value && (resolved.entry->kind != OpKind::kScalar || returns[0].type()->str() != "bool")) return {};
  auto all = bypasses_beside(*resolved.entry);
  std::erase_if(all,
                [&](const Bypass& b) { return b.kind != resolved.variant || !is_of(b.op, op, resolved); });
  return all;
}

Resolved compute(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  Resolved result;
  for (const auto& arg : schema.arguments()) result.kinds.push_back(kind_of(arg));
  // The running statistics of a batch norm are written, though its schema does not say so.
  for (const auto& arg : schema.arguments())
    result.mutated.push_back((arg.alias_info() != nullptr && arg.alias_info()->isWrite()) ||
                             (arg.name().starts_with("running_") && schema.name().ends_with("batch_norm")));
  const auto& name = schema.name();
  if (name.starts_with(kForeach) || name.starts_with("aten::_fused_"))
    result.variant = Variant::kList;
  else if (is_out(schema))
    result.variant = Variant::kOut;
  else if (name.ends_with('_') && !result.mutated.empty() && result.mutated[0])
    result.variant = Variant::kInPlace;
  result.entry = entry_of(schema, result.variant);
  result.zeros = zeros_in(schema, result.mutated);
  const bool implicit = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  // In InferenceMode a composite arrives whole: max.other, say, of which the rule of max says nothing.
  result.composite = implicit && (own_entry(schema) == nullptr || !schema.overload_name().empty());
  if (result.variant == Variant::kOut) {
    const auto outs = std::count(result.mutated.begin(), result.mutated.end(), true);
    result.functional = functional_of(schema, result.mutated.size() - static_cast<size_t>(outs));
  }
  result.bypasses = bypasses_of(op, result);
  return result;
}

auto& resolutions_of(Context& context) {
  if (context.resolutions == nullptr) context.resolutions = std::make_shared<Resolutions>();
  auto& [map, version] = *context.resolutions;
  if (rules_changed(version)) map.clear();
  return map;
}

}  // namespace

const Resolved& resolve(const c10::OperatorHandle& op) {
  auto& map = resolutions_of(*current_context());
  const auto* key = &op.schema();
  const auto it = map.find(key);
  return it != map.end() ? it->second : map.emplace(key, compute(op)).first->second;
}

}  // namespace lockstep
