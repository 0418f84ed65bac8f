// SPDX-License-Identifier: Apache-2.0
// The rungs of veScale's Table 5, on one rank: what an op on a DTensor takes above the same op on a plain
// tensor, without what makes it fast, with one part of that at a time, and statically. Its C++ core has no
// switch here. Beside them a fallback that unwraps, runs and wraps, and looks at nothing.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <memory>

#include "engine/static_eager/static_eager.h"
#include "engine/tensor/dtensor_impl.h"
#include "engine/values/error.h"
#include "suites/bench/dispatch_ops.h"
#include "suites/bench/measure.h"
#include "suites/bench/switches.h"

namespace lockstep::suites {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr int64_t kSize = 16;

const Switches kSwitches[] = {kNeither, {"bypass alone", true, false}, {"cache alone", false, true}};

double microseconds_above(const Op& op, const Operands& on, double least) {
  return 1e6 * seconds_above([&] { op.run(on.distributed); }, [&] { run_plain(op, on); }, least);
}

Prepared switched(const Op& op, const Switches& switches) {
  auto on = std::make_shared<const Operands>(operands(op, 1, kSize));
  return {[&op, &switches, on] {
            const Only only(switches);
            check(op, *on);
          },
          [&op, &switches, on](double least) {
            const Only only(switches);
            return microseconds_above(op, *on, least);
          }};
}

// What the op that runs gives, of which a fallback would else have to find out the Specs.
const Tensors* known = nullptr;

at::Tensor unwrapped(const at::Tensor& tensor) {
  const auto* impl = dtensor_impl(tensor);
  return impl == nullptr ? tensor : impl->locals()[0];
}

at::IValue unwrapped(const at::IValue& value) {
  if (value.isTensor()) return unwrapped(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> locals;
  for (const at::Tensor& tensor : value.toTensorList()) locals.push_back(unwrapped(tensor));
  return locals;
}

void unwrap_run_wrap(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  for (size_t i = stack->size() - schema.arguments().size(); i < stack->size(); ++i)
    (*stack)[i] = unwrapped((*stack)[i]);
  op.callBoxed(stack);
  const size_t results = schema.returns().size();
  for (size_t i = 0; i < results; ++i) {
    auto& value = (*stack)[stack->size() - results + i];
    if (!value.isTensor()) continue;
    const auto& like = (*known)[i];
    const auto& impl = *dtensor_impl(like);
    value = schema.is_mutable() ? like : make_dtensor(impl.spec(), impl.comm(), {value.toTensor()});
  }
}

// While alive, the op on DTensors of one rank reaches no engine.
class BareFallback {
 public:
  BareFallback(const Op& op, const Tensors& results)
      : library_(torch::Library::IMPL, "aten", c10::DispatchKey::Fake, __FILE__, __LINE__) {
    known = &results;
    library_.impl(op.reached, torch::CppFunction::makeFromBoxedFunction<&unwrap_run_wrap>());
  }
  ~BareFallback() { known = nullptr; }
  BareFallback(const BareFallback&) = delete;
  BareFallback& operator=(const BareFallback&) = delete;

 private:
  torch::Library library_;
};

Prepared bare(const Op& op) {
  auto on = std::make_shared<const Operands>(operands(op, 1, kSize));
  auto results = std::make_shared<const Tensors>(op.run(on->distributed));
  run_plain(op, *on);  // what was written to the one is written to the other, too
  return {[&op, on, results] {
            const BareFallback fallback(op, *results);
            check(op, *on);
          },
          [&op, on, results](double least) {
            const BareFallback fallback(op, *results);
            return microseconds_above(op, *on, least);
          }};
}

// So many that what a static call costs once does not count.
constexpr int64_t kCalls = 100;

at::Tensor repeated(const Op& op, const Tensors& x) {
  at::Tensor result;
  for (int64_t i = 0; i < kCalls; ++i) result = op.run(x)[0];
  return result;
}

struct Repeated : nn::Module {
  explicit Repeated(const Op& of) : op(of) { add_parameter("unread", {1}, at::kFloat); }
  at::Tensor forward(const nn::Tensors& inputs) override { return repeated(op, inputs); }
  const Op& op;
};

// A module that does nothing but the op, seen once.
struct Static {
  explicit Static(const Op& op) : on(operands(op, 1, kSize)), module(op) {
    const at::NoGradGuard no_grad;
    const auto mesh = device_mesh(on.distributed[0]);
    module.set_parameter("unread", distribute_tensor(at::zeros({1}), mesh, parse_placements("[R]")));
    eager.emplace(
        module, [this] { module.call(on.distributed); }, StaticEagerOptions{.on_change = OnChange::kError});
  }
  void check(const Op& op) {
    const at::NoGradGuard no_grad;
    const auto who = concat("static dispatch of aten::", op.name);
    check_bits(who, {repeated(op, on.locals[0])}, {local_tensors(module.call(on.distributed))[0]});
    const auto part = eager->parts().front();
    if (!part.is_local) throw WrongBits(concat("[", who, "] is not static: ", part.why));
  }
  double sample(const Op& op, double least) {
    const at::NoGradGuard no_grad;
    return 1e6 / kCalls *
           seconds_above([&] { module.call(on.distributed); }, [&] { repeated(op, on.locals[0]); }, least);
  }

  Operands on;
  Repeated module;
  std::optional<StaticEager> eager;
};

Prepared statically(const Op& op) {
  auto s = std::make_shared<Static>(op);
  return {[&op, s] { s->check(op); }, [&op, s](double least) { return s->sample(op, least); },
          [s] {
            const at::NoGradGuard no_grad;
            s->module.call(s->on.distributed);
          }};
}

}  // namespace

void add_rungs(Bodies& bodies) {
  for (const auto& op : dispatch_ops()) {
    const auto add = [&](const std::string& rung, const std::function<Prepared()>& prepare) {
      bodies.push_back({dispatch_series(op, rung + ", 1 rank"), prepare});
    };
    for (const auto& switches : kSwitches)
      add(switches.name, [&op, &switches] { return switched(op, switches); });
    if (op.is_static) add("static", [&op] { return statically(op); });
    if (op.reached != nullptr) add("bare fallback", [&op] { return bare(op); });
  }
}

}  // namespace lockstep::suites
