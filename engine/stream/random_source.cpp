// SPDX-License-Identifier: Apache-2.0
// Kernels at a mode key above autograd, which is included only within a RandomScope: random operators on
// plain tensors draw from the scope's source; everything else falls through without a cost.
#include "engine/stream/random_source.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <mutex>

#include "engine/stream/random_mode.h"

namespace lockstep {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::OperatorHandle;
using torch::jit::Stack;

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
  if (random_mode::passes(keys) || draws_nothing(op, *stack))
    return op.redispatchBoxed(keys & random_mode::kBelow, stack);
  throw Error(concat("[", op.operator_name(),
                     "] draws random numbers, and Lockstep has no stream for it: a RandomScope "
                     "serves the in-place fills, bernoulli, normal, dropout, rrelu, multinomial, randperm "
                     "and what is built on "
                     "them; draw outside of the scope, or build it from these"));
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
    if (op->hasKernelForDispatchKey(random_mode::kKey)) continue;
    registrations.push_back(dispatcher.registerImpl(name, random_mode::kKey,
                                                    c10::KernelFunction::makeFromBoxedFunction<&refuse>(),
                                                    std::nullopt, nullptr, "lockstep RandomScope"));
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, TESTING_ONLY_GenericMode, library) {
  random_mode::serve_fills(library);
  random_mode::serve_dropouts(library);
  random_mode::serve_compounds(library);
}

Generator& generator() {
  return current_context()->generator;
}

void manual_seed(uint64_t seed) {
  generator().state = {seed, 0};
}

std::array<uint8_t, 16> get_rng_state() {
  const RandomState& state = generator().state;
  std::array<uint8_t, 16> bytes{};
  for (size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<uint8_t>(state.seed >> (8 * i));
    bytes[8 + i] = static_cast<uint8_t>(state.offset >> (8 * i));
  }
  return bytes;
}

void set_rng_state(std::span<const uint8_t> bytes) {
  LOCKSTEP_CHECK(bytes.size() == 16 || bytes.size() == 8, "[set_rng_state] got ", bytes.size(),
                 " bytes; pass the 16 of get_rng_state, or the 8 of a seed");
  RandomState state;
  for (size_t i = 0; i < 8; ++i) {
    state.seed |= uint64_t{bytes[i]} << (8 * i);
    if (bytes.size() == 16) state.offset |= uint64_t{bytes[8 + i]} << (8 * i);
  }
  LOCKSTEP_CHECK(state.offset % 4 == 0, "[set_rng_state] the offset must be a multiple of 4, but is ",
                 state.offset);
  generator().state = state;
}

RandomScope::RandomScope(RandomSource& source)
    : carried_(current_context()),
      source_(&Context::source, &source),
      was_included_(c10::impl::tls_is_dispatch_key_included(random_mode::kKey)) {
  static std::once_flag once;
  std::call_once(once, register_refusals);
  c10::impl::tls_set_dispatch_key_included(random_mode::kKey, true);
}

RandomScope::~RandomScope() {
  c10::impl::tls_set_dispatch_key_included(random_mode::kKey, was_included_);
}

}  // namespace lockstep
