// SPDX-License-Identifier: Apache-2.0
// Kernels at a mode key above autograd, which is included only within a RandomScope: random operators on
// plain tensors draw from the scope's source; everything else falls through without a cost.
#include "engine/values/random_source.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <limits>
#include <mutex>

#include "engine/values/error.h"
#include "engine/values/spec.h"

namespace lockstep {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::OperatorHandle;
using torch::jit::Stack;

constexpr auto kMode = DispatchKey::TESTING_ONLY_GenericMode;
constexpr DispatchKeySet kBelow(DispatchKeySet::FULL_AFTER, kMode);

thread_local Generator tls_generator;
thread_local RandomSource* tls_source = nullptr;

// DTensors draw in the engine, and a tensor without values has none to draw.
bool passes(DispatchKeySet keys) {
  return keys.has(DispatchKey::Fake) || keys.has_backend(c10::BackendComponent::MetaBit);
}

void check_generator(const char* op, const std::optional<at::Generator>& given) {
  LOCKSTEP_CHECK(!given.has_value(), "[", op,
                 "] got a torch::Generator inside a RandomScope, whose stream is "
                 "lockstep::generator(); leave the argument out, or draw outside of the scope");
}

RandomCall call_on(RandomKind kind, const at::Tensor& x) {
  RandomCall call;
  call.kind = kind;
  call.dtype = x.scalar_type();
  call.shape = x.sizes().vec();
  call.stride = x.strides().vec();
  return call;
}

void draw(const RandomCall& call, const at::Tensor& out) {
  if (tls_source == nullptr) throw Broken("[random] the random mode is on in a thread without a RandomScope");
  if (out.numel() > 0) tls_source->fill(call, out, tls_generator.device, tls_generator.state);
}

// Fills `self` in place. copy_ is the operator whose autograd is that of a random fill: no gradient flows to
// what was there before, versions advance, a leaf that requires a gradient is refused.
at::Tensor& fill(at::Tensor& self, const RandomCall& call) {
  at::assert_no_internal_overlap(self);
  const auto values = at::empty_strided(self.sizes(), self.strides(), self.options());
  draw(call, values);
  return self.copy_(values);
}

at::Tensor& uniform_(DispatchKeySet keys, at::Tensor& self, double from, double to,
                     std::optional<at::Generator> given) {
  if (passes(keys)) return at::_ops::uniform_::redispatch(keys & kBelow, self, from, to, std::move(given));
  check_generator("aten::uniform_", given);
  LOCKSTEP_CHECK(self.is_floating_point() && from <= to, "[aten::uniform_] from ", from, " to ", to, " into ",
                 dtype_name(self.scalar_type()), "; a floating dtype and from <= to are needed");
  auto call = call_on(RandomKind::kUniform, self);
  call.a = from;
  call.b = to;
  return fill(self, call);
}

at::Tensor& normal_(DispatchKeySet keys, at::Tensor& self, double mean, double std,
                    std::optional<at::Generator> given) {
  if (passes(keys)) return at::_ops::normal_::redispatch(keys & kBelow, self, mean, std, std::move(given));
  check_generator("aten::normal_", given);
  LOCKSTEP_CHECK(self.is_floating_point() && std >= 0, "[aten::normal_] standard deviation ", std, " into ",
                 dtype_name(self.scalar_type()), "; a floating dtype and std >= 0 are needed");
  auto call = call_on(RandomKind::kNormal, self);
  call.a = mean;
  call.b = std;
  return fill(self, call);
}

at::Tensor& bernoulli_(DispatchKeySet keys, at::Tensor& self, double p, std::optional<at::Generator> given) {
  if (passes(keys)) return at::_ops::bernoulli__float::redispatch(keys & kBelow, self, p, std::move(given));
  check_generator("aten::bernoulli_", given);
  LOCKSTEP_CHECK(p >= 0 && p <= 1, "[aten::bernoulli_] probability ", p, " is not in [0, 1]");
  auto call = call_on(RandomKind::kBernoulli, self);
  call.a = p;
  return fill(self, call);
}

at::Tensor& fill_integers(at::Tensor& self, int64_t low, int64_t high) {
  LOCKSTEP_CHECK(low < high, "[aten::random_] the range [", low, ", ", high, ") is empty; give from < to");
  auto call = call_on(RandomKind::kRandint, self);
  call.low = low;
  call.high = high;
  return fill(self, call);
}

// Integers from 0 that a dtype holds exactly: of random_() without arguments. 0: the range has its own stream
// in stock CUDA (two words, or a mask), which a RandomCall cannot name.
int64_t exact_range(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Double:
      return (int64_t{1} << 53) + 1;
    case c10::ScalarType::Float:
      return (int64_t{1} << 24) + 1;
    case c10::ScalarType::Half:
      return (int64_t{1} << 11) + 1;
    case c10::ScalarType::BFloat16:
      return (int64_t{1} << 8) + 1;
    case c10::ScalarType::Short:
      return int64_t{1} << 15;
    case c10::ScalarType::Char:
      return int64_t{1} << 7;
    case c10::ScalarType::Byte:
      return int64_t{1} << 8;
    case c10::ScalarType::Bool:
      return 2;
    default:
      return 0;
  }
}

at::Tensor& random_from(DispatchKeySet keys, at::Tensor& self, int64_t from, std::optional<int64_t> to,
                        std::optional<at::Generator> given) {
  if (passes(keys))
    return at::_ops::random__from::redispatch(keys & kBelow, self, from, to, std::move(given));
  check_generator("aten::random_", given);
  const auto open_end = to ? *to : exact_range(self.scalar_type());
  if (open_end == 0 && !to)
    throw NotBuilt(concat("[aten::random_] from ", from, " without an end into ",
                          dtype_name(self.scalar_type()), " is not built; give the end"));
  return fill_integers(self, from, open_end);
}

at::Tensor& random_to(DispatchKeySet keys, at::Tensor& self, int64_t to, std::optional<at::Generator> given) {
  if (passes(keys)) return at::_ops::random__to::redispatch(keys & kBelow, self, to, std::move(given));
  check_generator("aten::random_", given);
  return fill_integers(self, 0, to);
}

at::Tensor& random_(DispatchKeySet keys, at::Tensor& self, std::optional<at::Generator> given) {
  if (passes(keys)) return at::_ops::random_::redispatch(keys & kBelow, self, std::move(given));
  check_generator("aten::random_", given);
  const auto range = exact_range(self.scalar_type());
  if (range == 0)
    throw NotBuilt(concat("[aten::random_] without a range into ", dtype_name(self.scalar_type()),
                          " is not built; give one: random_(from, to)"));
  return fill_integers(self, 0, range);
}

// The mask of stock CUDA's native_dropout: true where the element is kept.
at::Tensor keep_mask(const at::Tensor& input, double p) {
  auto call = call_on(RandomKind::kDropoutMask, input);
  call.a = p;
  auto mask = at::empty_like(input, input.options().dtype(at::kBool));
  draw(call, mask);
  return mask;
}

// y = T((x * m) * (1 / P)) in the accumulation type of stock CUDA: double for double, float for the others.
at::Tensor drop(const at::Tensor& input, const at::Tensor& mask, double p) {
  const bool is_double = input.scalar_type() == at::kDouble;
  const double inverse = is_double ? 1.0 / (1.0 - p) : 1.0F / static_cast<float>(1.0 - p);
  const auto wide = is_double ? at::kDouble : at::kFloat;
  return at::empty_like(input).copy_(input.to(wide).mul(mask.to(wide)).mul_(inverse));  // strides as stock's
}

// native_dropout with the derivative that libtorch gives it.
struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  using Context = torch::autograd::AutogradContext;
  using Variables = torch::autograd::variable_list;

  static Variables forward(Context* ctx, const at::Tensor& input, double p, bool known_training) {
    const bool all_dropped = p == 1, all_kept = p == 0;
    const auto bools = input.options().dtype(at::kBool);
    auto mask = all_dropped || all_kept ? at::full_like(input, all_kept, bools) : keep_mask(input, p);
    auto output = all_dropped ? at::zeros_like(input) : all_kept ? input.clone() : drop(input, mask, p);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({mask});
    ctx->mark_non_differentiable({mask});
    ctx->saved_data["scale"] = !known_training ? 1.0 : all_dropped ? 0.0 : 1.0 / (1.0 - p);
    return {output, mask};
  }

  static Variables backward(Context* ctx, const Variables& grads) {
    const auto mask = ctx->get_saved_variables()[0];
    const double scale = ctx->saved_data["scale"].toDouble();
    const auto& grad = grads[0];
    if (!grad.defined()) return {at::Tensor(), at::Tensor(), at::Tensor()};
    // libtorch: native_dropout_backward, or its infinitely differentiable form under create_graph.
    auto result = at::GradMode::is_enabled() ? grad * (mask.type_as(grad) * scale)
                                             : at::native_dropout_backward(grad, mask, scale);
    return {result, at::Tensor(), at::Tensor()};
  }
};

std::tuple<at::Tensor, at::Tensor> native_dropout(DispatchKeySet keys, const at::Tensor& input, double p,
                                                  std::optional<bool> train) {
  const bool evaluates = train && !*train;
  if (passes(keys) || evaluates) return at::_ops::native_dropout::redispatch(keys & kBelow, input, p, train);
  LOCKSTEP_CHECK(p >= 0 && p <= 1, "[aten::native_dropout] probability ", p, " is not in [0, 1]");
  auto outputs = DropoutFunction::apply(input, p, train.has_value());
  return {outputs[0], outputs[1]};
}

// Stock CUDA takes the fused kernel for 0 < p < 1 in training; otherwise the composite, which draws nothing.
at::Tensor dropout(DispatchKeySet keys, const at::Tensor& input, double p, bool train) {
  const bool fused = train && p > 0 && p < 1 && input.numel() > 0;
  if (passes(keys) || !fused) return at::_ops::dropout::redispatch(keys & kBelow, input, p, train);
  return std::get<0>(at::native_dropout(input, p, true));  // by its name, so that a recording sees it
}

// An operator that carries the tag but draws nothing with these arguments.
bool draws_nothing(const OperatorHandle& op, const Stack& stack) {
  const auto& arguments = op.schema().arguments();
  if (op.schema().name() == "aten::_fused_sdp_choice") return true;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& value = stack[stack.size() - arguments.size() + i];
    if (arguments[i].name() == "dropout_p" && value.isDouble() && value.toDouble() == 0) return true;
    if (arguments[i].name() == "training" && value.isBool() && !value.toBool()) return true;
  }
  return false;
}

void refuse(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  if (passes(keys) || draws_nothing(op, *stack)) return op.redispatchBoxed(keys & kBelow, stack);
  throw Error(concat(
      "[", op.operator_name(),
      "] draws random numbers, and Lockstep has no stream for it: a RandomScope "
      "serves uniform_, normal_, random_, bernoulli_(p), dropout and what is built on them; draw outside of "
      "the scope, or build it from these"));
}

bool is_composite(const OperatorHandle& op) {
  return op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

// Refusals for every operator that draws by itself (composites reach one that does, or one of ours).
// Operators are looked up when the first scope opens, so that those of libraries loaded before are among
// them.
void register_refusals() {
  static std::vector<c10::RegistrationHandleRAII> registrations;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !op->hasTag(at::Tag::nondeterministic_seeded) || is_composite(*op)) continue;
    if (op->hasKernelForDispatchKey(kMode)) continue;
    registrations.push_back(dispatcher.registerImpl(name, kMode,
                                                    c10::KernelFunction::makeFromBoxedFunction<&refuse>(),
                                                    std::nullopt, nullptr, "lockstep RandomScope"));
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, TESTING_ONLY_GenericMode, library) {
  library.impl("uniform_", TORCH_FN(uniform_));
  library.impl("normal_", TORCH_FN(normal_));
  library.impl("random_", TORCH_FN(random_));
  library.impl("random_.from", TORCH_FN(random_from));
  library.impl("random_.to", TORCH_FN(random_to));
  library.impl("bernoulli_.float", TORCH_FN(bernoulli_));
  library.impl("dropout", TORCH_FN(dropout));
  library.impl("native_dropout", TORCH_FN(native_dropout));
}

Generator& generator() {
  return tls_generator;
}

void manual_seed(uint64_t seed) {
  tls_generator.state = {seed, 0};
}

RandomScope::RandomScope(RandomSource& source)
    : previous_(tls_source), was_included_(c10::impl::tls_is_dispatch_key_included(kMode)) {
  static std::once_flag once;
  std::call_once(once, register_refusals);
  tls_source = &source;
  c10::impl::tls_set_dispatch_key_included(kMode, true);
}

RandomScope::~RandomScope() {
  c10::impl::tls_set_dispatch_key_included(kMode, was_included_);
  tls_source = previous_;
}

}  // namespace lockstep
