// SPDX-License-Identifier: Apache-2.0
#include "generators/program/trial.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <deque>
#include <unordered_map>

#include "engine/stream/random_source.h"
#include "engine/values/error.h"
#include "oracle/program/schema.h"
#include "oracle/program/statements.h"
#include "oracle/random/literal_source.h"

namespace lockstep::generators {
namespace {

using oracle::Arg;
using oracle::ArgKind;
using oracle::Call;
using oracle::None;
using oracle::Ref;

const c10::OperatorHandle& handle(const std::string& op) {
  thread_local std::unordered_map<std::string, c10::OperatorHandle> known;
  if (const auto found = known.find(op); found != known.end()) return found->second;
  const auto dot = op.find('.');
  const auto schema = c10::Dispatcher::singleton().findSchema(
      {op.substr(0, dot), dot == std::string::npos ? "" : op.substr(dot + 1)});
  LOCKSTEP_CHECK(schema, "[generate] ", op, " is not an operator of this libtorch");
  return known.emplace(op, *schema).first->second;
}

bool wants_double(const c10::Type& type) {
  if (const auto* optional = type.castRaw<c10::OptionalType>())
    return wants_double(*optional->getElementType());
  return type.kind() == c10::TypeKind::FloatType;
}

struct ToIValue {
  const Lookup& lookup;
  const c10::Argument& schema;
  const oracle::ArgInfo& info;

  c10::IValue operator()(const None&) const { return {}; }
  c10::IValue operator()(const Ref& ref) const { return lookup(ref); }
  c10::IValue operator()(const std::vector<Ref>& refs) const {
    std::vector<at::Tensor> tensors;
    tensors.reserve(refs.size());
    for (const auto ref : refs) tensors.push_back(ref.id < 0 ? at::Tensor() : lookup(ref));
    return oracle::tensor_list(tensors, info);
  }
  c10::IValue operator()(int64_t value) const {
    return wants_double(*schema.type()) ? c10::IValue(static_cast<double>(value)) : c10::IValue(value);
  }
  c10::IValue operator()(const std::vector<double>& list) const {
    const auto* type = schema.type()->castRaw<c10::ListType>();
    if (type == nullptr || type->getElementType()->kind() != c10::TypeKind::NumberType) return list;
    c10::impl::GenericList scalars(c10::NumberType::get());
    for (const double value : list) scalars.push_back(value);
    return scalars;
  }
  c10::IValue operator()(const std::vector<bool>& list) const {
    c10::List<bool> bits;
    for (const bool bit : list) bits.push_back(bit);
    return bits;
  }
  // How a factory places its result does not change it.
  c10::IValue operator()(const oracle::Target&) const { return {}; }
  c10::IValue operator()(c10::ScalarType dtype) const { return static_cast<int64_t>(dtype); }
  template <class T>
  c10::IValue operator()(const T& value) const {
    return c10::IValue(value);
  }
};

Arg to_arg(const c10::IValue& value, const c10::Argument& schema, const std::string& op) {
  if (value.isNone()) return None{};
  if (value.isBool()) return value.toBool();
  if (value.isDouble()) return value.toDouble();
  if (value.isInt()) return value.toInt();
  if (value.isString()) return std::string(value.toStringRef());
  if (value.isIntList()) return value.toIntVector();
  if (value.isDoubleList()) return value.toDoubleVector();
  throw Error(
      concat("[generate] ", op, ": argument ", schema.name(), " has a default of a kind not written out"));
}

std::vector<at::Tensor> backward(const Call& call, const Lookup& lookup,
                                 const std::vector<at::Tensor>& leaves) {
  const auto tensors = [&](const Arg& arg) {
    std::vector<at::Tensor> list;
    for (const auto ref : std::get<std::vector<Ref>>(arg)) list.push_back(lookup(ref));
    return list;
  };
  const auto outputs = tensors(call.args.at(0)), seeds = tensors(call.args.at(1));
  // Graphs stay: another backward may walk them.
  if (call.op == oracle::kBackward)
    return torch::autograd::grad(outputs, leaves, seeds, true, oracle::creates_graph(call), true);
  torch::autograd::backward(outputs, seeds, true, false, leaves);
  std::vector<at::Tensor> gradients;
  for (const auto& leaf : leaves)
    gradients.push_back(leaf.grad().defined() ? leaf.grad().clone() : at::Tensor());
  return gradients;
}

// What is drawn to run on ranks is there what it is on the whole.
at::Tensor on_the_whole(const Call& call, const Lookup& lookup) {
  const auto map = oracle::local_map_of(call);
  LOCKSTEP_CHECK(map, "[generate] the arguments of a local_map");
  const bool writes = oracle::is_in_place(map->op);
  const c10::AutoGradMode mode(at::GradMode::is_enabled() && !writes);
  std::deque<at::Tensor> copies;
  const Lookup copied = [&](Ref ref) -> const at::Tensor& {
    return copies.emplace_back(lookup(ref).clone());
  };
  const auto results = trial_call({map->op, map->args, 1}, writes ? copied : lookup, {});
  LOCKSTEP_CHECK(results.size() == 1 && results[0].sizes() == at::IntArrayRef(map->shape),
                 "[generate] a local_map of another shape");
  return results[0];
}

// Fused optimizers walk the memory of their lists without looking at shapes or strides: a mismatch would be a
// wild write, not an error.
void check_fused(const Call& call, const Lookup& lookup, const std::vector<oracle::ArgInfo>& known) {
  const auto& parameters = std::get<std::vector<Ref>>(call.args.at(0));
  const auto is_list = [&](size_t a) { return a < known.size() && known[a].kind == ArgKind::kTensorList; };
  const auto is_steps = [&](size_t a) { return known[a].name == "state_steps"; };
  for (size_t a = 1; a < known.size(); ++a) {
    if (!is_list(a)) continue;
    const auto& list = std::get<std::vector<Ref>>(call.args.at(a));
    // The last list of an optimizer's state is left out where it keeps none.
    const bool may_lack = !is_steps(a) && (!is_list(a + 1) || is_steps(a + 1));
    LOCKSTEP_CHECK(list.size() == parameters.size() || (may_lack && list.empty()), "[generate] ", call.op,
                   ": lists of different lengths");
    for (size_t i = 0; i < list.size() && !is_steps(a); ++i) {
      const auto &parameter = lookup(parameters[i]), &other = lookup(list[i]);
      LOCKSTEP_CHECK(parameter.defined() && other.defined() && parameter.sizes() == other.sizes() &&
                         parameter.strides() == other.strides() &&
                         parameter.scalar_type() == other.scalar_type(),
                     "[generate] ", call.op, ": tensors of different shapes, strides or dtypes");
    }
  }
  // Steps, scale and flag are read as one number in float32.
  const auto check_number = [&](const Ref& ref) {
    LOCKSTEP_CHECK(lookup(ref).numel() == 1 && lookup(ref).scalar_type() == c10::ScalarType::Float,
                   "[generate] ", call.op, ": steps, scale and flag are f32 of one element");
  };
  for (size_t a = 0; a < known.size(); ++a) {
    if (const auto* ref = std::get_if<Ref>(&call.args[a])) check_number(*ref);
    if (is_list(a) && is_steps(a))
      for (const auto& step : std::get<std::vector<Ref>>(call.args[a])) check_number(step);
  }
}

// Draws nothing: random ops take what stock CUDA takes, and write zeros.
class ZeroSource : public oracle::LiteralSource {
 public:
  void fill(const RandomCall&, const at::Tensor& out, const DeviceModel&, RandomState&) override {
    out.zero_();
  }
};

class NoSource : public oracle::LiteralSource {
 public:
  void fill(const RandomCall&, const at::Tensor&, const DeviceModel&, RandomState&) override {
    throw Error("[generate] a plain call draws");
  }
};

// Zeros; ones, or the least value of integers that are all above: weights must not sum to 0.
at::Tensor filled(const std::vector<int64_t>& shape, const oracle::Input& input) {
  const auto& [kind, seed, low, high, bits] = input.values;
  const bool above = kind == oracle::ValueKind::kIntegers && low > 0;
  const int64_t value = above ? low : kind == oracle::ValueKind::kOnes ? 1 : 0;
  return at::full(shape, value, at::TensorOptions().dtype(input.dtype));
}

}  // namespace

at::Tensor trial_input(const oracle::Input& input) {
  at::Tensor tensor;
  if (input.memory_order.empty()) {
    tensor = filled(input.shape, input);
  } else {
    std::vector<int64_t> stored, inverse(input.shape.size());
    for (size_t i = 0; i < input.memory_order.size(); ++i) {
      stored.push_back(input.shape[static_cast<size_t>(input.memory_order[i])]);
      inverse[static_cast<size_t>(input.memory_order[i])] = static_cast<int64_t>(i);
    }
    tensor = filled(stored, input).permute(inverse);
  }
  return input.requires_grad ? tensor.detach().requires_grad_(true) : tensor.detach();
}

std::vector<at::Tensor> trial_call(const Call& call, const Lookup& lookup,
                                   const std::vector<at::Tensor>& leaves) {
  if (call.op == oracle::kRedistribute) return {lookup(std::get<Ref>(call.args.at(0))).clone()};
  if (call.op == oracle::kDetach) return {lookup(std::get<Ref>(call.args.at(0))).detach()};
  if (call.op == oracle::kFullTensor) return {lookup(std::get<Ref>(call.args.at(0))).clone()};
  if (oracle::maps_locals(call.op)) return {on_the_whole(call, lookup)};
  if (call.op == oracle::kItem)
    return {at::native::wrapped_scalar_tensor(lookup(std::get<Ref>(call.args.at(0))).item())};
  if (call.op == oracle::kEquality)
    return {at::native::wrapped_scalar_tensor(
        at::equal(lookup(std::get<Ref>(call.args.at(0))), lookup(std::get<Ref>(call.args.at(1)))))};
  if (oracle::runs_backward(call.op)) return backward(call, lookup, leaves);
  if (call.op == oracle::kSetGradEnabled)
    return at::GradMode::set_enabled(std::get<bool>(call.args.at(0))), std::vector<at::Tensor>();
  if (call.op == oracle::kCheckpoint || call.op == oracle::kCheckpointEnd ||
      call.op == oracle::kSetExplicitRedistribution)
    return {};  // the same values
  if (call.op == oracle::kScaleGradient) {
    LOCKSTEP_CHECK(lookup(std::get<Ref>(call.args.at(0))).requires_grad(),
                   "[generate] a hook on what has no history");
    return {};
  }
  const auto& op = handle(call.op);
  const auto& arguments = op.schema().arguments();
  LOCKSTEP_CHECK(arguments.size() == call.args.size(), "[generate] ", call.op, " takes ", arguments.size(),
                 " arguments, got ", call.args.size());
  const auto& described = oracle::find_operator(op);
  const auto& known = described.args;
  if (call.op.starts_with("aten::_fused_") && known[0].kind == ArgKind::kTensorList)
    check_fused(call, lookup, known);
  torch::jit::Stack stack;
  stack.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i)
    stack.push_back(std::visit(ToIValue{lookup, arguments[i], known[i]}, call.args[i]));
  LOCKSTEP_CHECK(described.returns == 0 || described.returns_tensors, "[generate] ", call.op,
                 " gives no tensors");
  return oracle::call_plain(described, stack);
}

std::vector<at::Tensor> plain_trial_call(const Call& call, const Lookup& lookup,
                                         const std::vector<at::Tensor>& leaves) {
  NoSource source;
  const RandomScope scope(source);
  return trial_call(call, lookup, leaves);
}

std::vector<Arg> with_defaults(const std::string& op, std::vector<Arg> args) {
  const auto& arguments = handle(op).schema().arguments();
  for (size_t i = args.size(); i < arguments.size() && !arguments[i].is_out(); ++i) {
    LOCKSTEP_CHECK(arguments[i].default_value(), "[generate] ", op, ": argument ", arguments[i].name(),
                   " is missing");
    args.push_back(to_arg(*arguments[i].default_value(), arguments[i], op));
  }
  return args;
}

std::optional<std::vector<at::Tensor>> trial(const oracle::Program& program) {
  ZeroSource source;
  const RandomScope scope(source);
  const c10::AutoGradMode mode(at::GradMode::is_enabled());  // of the Program's end no more
  std::vector<at::Tensor> values, leaves;
  for (const auto& input : program.inputs) {
    values.push_back(trial_input(input));
    if (input.requires_grad) leaves.push_back(values.back());
  }
  const Lookup lookup = [&](Ref ref) -> const at::Tensor& { return values.at(static_cast<size_t>(ref.id)); };
  try {
    for (const auto& call : program.calls) {
      const auto results = trial_call(call, lookup, leaves);
      if (std::ssize(results) != call.results) return std::nullopt;
      values.insert(values.end(), results.begin(), results.end());
    }
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return values;
}

std::vector<int64_t> first_results(const oracle::Program& program) {
  std::vector<int64_t> first;
  auto next = std::ssize(program.inputs);
  for (const auto& call : program.calls) {
    first.push_back(next);
    next += call.results;
  }
  return first;
}

std::vector<Ref> references(const Call& call) {
  std::vector<Ref> refs;
  oracle::each_ref(call, [&](const Ref& ref) {
    if (ref.id >= 0) refs.push_back(ref);
  });
  return refs;
}

std::vector<Ref> written_by(const Call& call) {
  std::vector<Ref> refs;
  if (oracle::is_own(call.op)) return refs;
  const auto& known = oracle::find_operator(call.op).args;
  for (size_t i = 0; i < call.args.size(); ++i)
    if (known.at(i).written)
      for (const auto ref : oracle::refs_of(call.args[i])) refs.push_back(ref);
  return refs;
}

}  // namespace lockstep::generators
