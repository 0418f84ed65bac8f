// SPDX-License-Identifier: Apache-2.0
#include "oracle/plain/evaluate.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "engine/values/error.h"
#include "engine/values/refused.h"
#include "oracle/ownership/in_host.h"
#include "oracle/plain/crossings.h"
#include "oracle/plain/float64_call.h"
#include "oracle/plain/hosted_source.h"
#include "oracle/program/schema.h"
#include "oracle/program/statements.h"
#include "oracle/program/values.h"

namespace lockstep::oracle {
namespace {

using torch::jit::Stack;
using Tensors = std::vector<at::Tensor>;

at::Tensor value_of(const Tensors& values, const Ref& ref) {
  return ref.id < 0 ? at::Tensor() : values.at(static_cast<size_t>(ref.id));
}

Tensors values_of(const Tensors& values, const Arg& arg) {
  Tensors list;
  for (const Ref& ref : std::get<std::vector<Ref>>(arg)) list.push_back(value_of(values, ref));
  return list;
}

// The argument as the schema's type wants it: an integer where a float is declared becomes one.
struct ToIValue {
  const Tensors& values;
  const ArgInfo& info;
  c10::Device device;  // of the run, where a factory makes what it makes

  c10::IValue operator()(const None&) const { return {}; }
  c10::IValue operator()(const Ref& ref) const { return value_of(values, ref); }
  c10::IValue operator()(const std::vector<Ref>& refs) const {
    return tensor_list(values_of(values, refs), info);
  }
  c10::IValue operator()(int64_t value) const {
    return info.kind == ArgKind::kFloat ? c10::IValue(static_cast<double>(value)) : c10::IValue(value);
  }
  c10::IValue operator()(const std::vector<int64_t>& list) const {
    return info.kind == ArgKind::kScalarList ? scalars(list) : c10::IValue(list);
  }
  c10::IValue operator()(const std::vector<double>& list) const {
    return info.kind == ArgKind::kScalarList ? scalars(list) : c10::IValue(list);
  }
  c10::IValue operator()(const std::vector<bool>& list) const {
    c10::List<bool> bools;
    for (const bool b : list) bools.push_back(b);
    return bools;
  }
  c10::IValue operator()(const std::string& text) const { return text; }
  c10::IValue operator()(c10::ScalarType dtype) const { return dtype; }
  c10::IValue operator()(const Target&) const {
    LOCKSTEP_CHECK(info.name == "device", "[evaluate] placements stand in lockstep::redistribute and as the ",
                   "device of a factory, not as ", info.name);
    return device.is_cpu() ? c10::IValue() : c10::IValue(device);
  }
  template <class T>
  requires(std::is_same_v<T, double> || std::is_same_v<T, bool>) c10::IValue operator()(T value) const {
    return value;
  }

 private:
  template <class T>
  static c10::IValue scalars(const std::vector<T>& list) {
    c10::List<at::Scalar> result;
    for (const T v : list) result.push_back(v);
    return result;
  }
};

class Interpreter {
 public:
  // How calls to libtorch's ops run; the others are the Interpreter's own.
  using CallOp = std::function<Tensors(const Operator&, Stack&)>;

  Interpreter(const Program& program, Tensors inputs, const Placing& placing, c10::Device device)
      : program_(program), placing_(placing), device_(device), values_(std::move(inputs)) {
    LOCKSTEP_CHECK(values_.size() == program.inputs.size(), "[evaluate] the Program has ",
                   program.inputs.size(), " inputs, not ", values_.size());
    values_.reserve(static_cast<size_t>(program.value_count()));
    for (size_t i = 0; i < program.inputs.size(); ++i)
      if (program.inputs[i].requires_grad) values_[i].set_requires_grad(true);
    for (size_t k = 0; k < program.calls.size(); ++k)
      if (runs_backward(program.calls[k].op)) last_backward_ = k;
  }

  Tensors run(const CallOp& call_op) {
    for (size_t k = 0; k < program_.calls.size();) {
      if (program_.calls[k].op == kCheckpoint)
        k = checkpoint(k, call_op);
      else
        define(k++, call_op);
    }
    if (program_.refused) refuse(*program_.refused, call_op);
    return std::move(values_);
  }

  // The values that the arguments of the call in progress refer to, and that call.
  const Tensors& values() const { return values_; }
  const Call& call() const { return *call_; }

 private:
  void define(size_t k, const CallOp& call_op) {
    const Call& call = program_.calls[k];
    call_ = &call;
    Tensors results = yielded(call, k, call_op);
    LOCKSTEP_CHECK(std::ssize(results) == call.results, "[", call.op, "] call ", k, " yields ",
                   results.size(), " tensors, where the Program has ", call.results);
    for (at::Tensor& t : results) values_.push_back(std::move(t));
  }

  // Returns the number of the call behind the block.
  size_t checkpoint(size_t k, const CallOp& call_op) {
    const Block block = block_of(program_, k);
    const size_t first = values_.size();
    const std::vector<Ref> refs = outer_values(program_, block, static_cast<int64_t>(first));
    Tensors operands;
    for (const Ref& ref : refs) operands.push_back(value_of(values_, ref));
    // Whenever it runs, the values are those that there were before it, with these operands.
    const RunBlock run = [this, block, first, refs, &call_op](const Tensors& given) {
      Tensors before(values_.begin(), values_.begin() + static_cast<ptrdiff_t>(first));
      for (size_t i = 0; i < refs.size(); ++i) before[static_cast<size_t>(refs[i].id)] = given[i];
      before.swap(values_);
      for (size_t call = block.begin; call < block.end; ++call) define(call, call_op);
      values_.swap(before);
      return Tensors(before.begin() + static_cast<ptrdiff_t>(first), before.end());
    };
    for (at::Tensor& t : placing_.checkpoint(run, operands, block.preserves_rng_state))
      values_.push_back(std::move(t));
    return block.end;
  }

  Stack& stack_for(const Call& call) {
    const Operator& op = find_operator(call.op);
    LOCKSTEP_CHECK(call.args.size() == op.args.size(), "[", call.op, "] takes ", op.args.size(),
                   " arguments, not ", call.args.size());
    stack_.clear();
    for (size_t i = 0; i < call.args.size(); ++i)
      stack_.push_back(std::visit(ToIValue{values_, op.args[i], device_}, call.args[i]));
    return stack_;
  }

  Tensors yielded(const Call& call, size_t k, const CallOp& call_op) {
    if (is_own(call.op)) return own(call, k);
    const Target* placed = placing_.factory ? placed_by_factory(call) : nullptr;
    return placed != nullptr ? Tensors{placing_.factory(call, *placed)}
                             : call_op(find_operator(call.op), stack_for(call));
  }

  void refuse(const Call& call, const CallOp& call_op) {
    try {
      yielded(call, program_.calls.size(), call_op);
    } catch (const Refused&) {
      return;
    }
    throw Error("[" + call.op + "] it was refused, and runs when it is tried again");
  }

  Tensors own(const Call& call, size_t k) {
    const auto operand = [&] { return value_of(values_, std::get<Ref>(call.args.at(0))); };
    if (call.op == kRedistribute)
      return {placing_.redistribute(operand(), std::get<Target>(call.args.at(1)))};
    if (call.op == kDetach) return {operand().detach()};
    if (runs_backward(call.op)) return backward(call, k != last_backward_);
    if (call.op == kFullTensor) return {placing_.full_tensor(operand())};
    if (maps_locals(call.op)) return {local_map(call)};
    if (call.op == kSetGradEnabled)
      return at::GradMode::set_enabled(std::get<bool>(call.args.at(0))), Tensors();
    if (call.op == kSetExplicitRedistribution)
      return set_explicit(std::get<bool>(call.args.at(0))), Tensors();
    if (call.op == kScaleGradient)
      return scale_gradient(operand(), std::get<double>(call.args.at(1))), Tensors();
    if (call.op == kCheckpointEnd) return {};
    if (call.op == kItem || call.op == kEquality) return {placing_.read(call.op, operands_of(call))};
    throw Error("[" + call.op + "] there is no such operator");
  }

  Tensors operands_of(const Call& call) const {
    Tensors list;
    for (const Arg& arg : call.args) list.push_back(value_of(values_, std::get<Ref>(arg)));
    return list;
  }

  at::Tensor local_map(const Call& call) {
    const auto map = local_map_of(call);
    LOCKSTEP_CHECK(map, "[", call.op, "] its arguments have another form; validate() says which");
    Tensors operands;
    for (const Ref& ref : map->operands) operands.push_back(value_of(values_, ref));
    return placing_.local_map(*map, operands);
  }

  void set_explicit(bool flag) const {
    if (placing_.set_explicit) placing_.set_explicit(flag);
  }

  // Zeros that autograd has made of nothing stay: of no dimensions libtorch makes them double, which no hook
  // may.
  static void scale_gradient(const at::Tensor& value, double by) {
    LOCKSTEP_CHECK(value.requires_grad(), "[", kScaleGradient, "] the value has no history, so no gradient");
    value.register_hook([by](const at::Tensor& gradient) {
      if (!gradient.defined() || (gradient._is_zerotensor() && gradient.dim() == 0)) return gradient;
      return at::mul(gradient, by);
    });
  }

  Tensors backward(const Call& call, bool retain_graph) {
    Tensors leaves, gradients;
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      if (program_.inputs[i].requires_grad) leaves.push_back(values_[i]);
    const Tensors outputs = values_of(values_, call.args.at(0)), seeds = values_of(values_, call.args.at(1));
    if (call.op == kAccumulate) {
      // Gradients may be kept as parts of the seeds, and be written to by the next backward.
      Tensors own;
      for (const at::Tensor& seed : seeds) own.push_back(seed.clone());
      torch::autograd::backward(outputs, own, retain_graph, /*create_graph=*/false, leaves);
      for (const at::Tensor& leaf : leaves) gradients.push_back(leaf.grad());
    } else {
      gradients = torch::autograd::grad(outputs, leaves, seeds, retain_graph, creates_graph(call),
                                        /*allow_unused=*/true);
    }
    // Values of their own: some would be the very tensors that were handed in.
    for (at::Tensor& g : gradients)
      if (g.defined()) g = g.clone();
    return gradients;
  }

  const c10::AutoGradMode mode_{at::GradMode::is_enabled()};  // after the Program, as it was before
  const Program& program_;
  const Placing& placing_;
  const c10::Device device_;
  Tensors values_;
  const Call* call_ = nullptr;
  Stack stack_;
  size_t last_backward_ = 0;
};

// Attention by its definition on both sides: which fused kernel is stock depends on the size.
void pin_attention() {
  auto& context = at::globalContext();
  context.setSDPUseFlash(false);
  context.setSDPUseMemEfficient(false);
  context.setSDPUseCuDNN(false);
}

// Seed, offset and device of the thread's stream within a scope, as the Program begins.
class Stream {
 public:
  Stream(const Case& c, RandomSource& random) : before_(generator()), scope_(random) {
    generator() = {{c.program.seed, 0, c.words}, c.device};
  }
  ~Stream() { generator() = before_; }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

 private:
  Generator before_;
  RandomScope scope_;
};

Tensors global_inputs(const Case& c) {
  Tensors inputs;
  for (size_t i = 0; i < c.program.inputs.size(); ++i)
    inputs.push_back(make_global(c, static_cast<int64_t>(i)));
  return inputs;
}

// The single device is of the mesh's type.
Tensors inputs_on_device(const Case& c) {
  return on_mesh(c.mesh, global_inputs(c));
}

// ---- float64 ----

bool is_float(const at::Tensor& t) {
  return t.defined() && t.is_floating_point();
}
at::Tensor wide(const at::Tensor& t) {
  return is_float(t) ? t.to(at::kDouble) : t;
}

// A conversion: in double it may convert nothing and return its operand, but where the plain run made a new
// tensor the results are one too.
Tensors widened_call(const Operator& op, Stack& stack, const Tensors& values, const Tensors& plain) {
  const at::Tensor self = !stack.empty() && stack[0].isTensor() ? stack[0].toTensor() : at::Tensor();
  Tensors results = call_plain(op, stack);
  if (op.writes || results.size() != 1 || !self.defined() || !results[0].is_same(self)) return results;
  const auto operand =
      std::find_if(values.begin(), values.end(), [&](const at::Tensor& v) { return v.is_same(self); });
  const auto& was = plain.at(static_cast<size_t>(operand - values.begin()));
  if (!plain.at(values.size()).is_same(was)) results[0] = results[0].clone();
  return results;
}

// A random op in the plain run's dtype, so that it draws the same values; its results in double.
Tensors random_call(const Operator& op, Stack& stack, const Tensors& values, const Tensors& plain) {
  const at::Tensor self = stack.at(0).toTensor();
  auto dtype = self.scalar_type();
  for (size_t v = 0; v < values.size(); ++v)
    if (values[v].is_same(self)) dtype = plain[v].scalar_type();
  const bool drops = op.name == "aten::native_dropout" || op.name == "aten::dropout";
  if (drops) {
    // Which element takes which word depends on how the tensor lies.
    Stack ones = {at::empty_strided(self.sizes(), self.strides(), self.options().dtype(dtype)).fill_(1)};
    ones.insert(ones.end(), stack.begin() + 1, stack.end());
    Tensors kept = call_boxed(op, ones);
    kept[0] = self * kept[0];
    return kept;
  }
  stack[0] = self.detach().to(dtype, /*non_blocking=*/false, /*copy=*/true);
  Tensors results = call_boxed(op, stack);
  for (at::Tensor& r : results) r = op.writes ? self.copy_(wide(r)) : wide(r);
  return results;
}

}  // namespace

at::Tensor run_mapped(const LocalMap& map, const Tensors& locals) {
  const Operator& op = find_operator(map.op);
  Stack stack;
  int64_t next = 0;
  for (size_t i = 0; i < map.args.size(); ++i) {
    Arg arg = map.args[i];
    if (auto* ref = std::get_if<Ref>(&arg)) ref->id = next++;
    if (auto* list = std::get_if<std::vector<Ref>>(&arg))
      for (Ref& ref : *list) ref.id = next++;
    stack.push_back(std::visit(ToIValue{locals, op.args[i], at::kCPU}, arg));
  }
  return call_boxed(op, stack).at(0);
}

at::Tensor read_number(std::string_view op, const Tensors& of) {
  if (op == kItem) return at::native::wrapped_scalar_tensor(of.at(0).item());
  return at::native::wrapped_scalar_tensor(at::equal(of.at(0), of.at(1)));
}

Tensors run(const Program& program, Tensors inputs, const Placing& placing) {
  return Interpreter(program, std::move(inputs), placing, at::kCPU).run(call_boxed);
}

Tensors evaluate(const Case& c, RandomSource& random) {
  pin_attention();
  HostedSource hosted(random);
  const Stream stream(c, hosted);
  return Interpreter(c.program, inputs_on_device(c), on_one_device(c.mesh), c.mesh.device_type())
      .run(call_plain);
}

static PlainRun recorded(const Case& c, RandomSource& random) {
  pin_attention();
  HostedSource hosted(random);
  const Stream stream(c, hosted);
  PlainRun result;
  result.recording.device = c.mesh.device_type();
  const Tensors inputs = inputs_on_device(c);
  // Aliases, since a call may change the shape of the tensor that it is given.
  for (const at::Tensor& t : inputs) result.inputs.push_back(t.detach());
  const Placing placing = on_one_device(c.mesh, &result.recording);
  const RecordingScope recorder(result.recording);
  Interpreter interpreter(c.program, inputs, placing, result.recording.device);
  result.values = interpreter.run([&](const Operator& op, Stack& stack) {
    Tensors results = call_plain(op, stack);
    const Target* target = op.random ? nullptr : placed_by_factory(interpreter.call());
    if (target != nullptr && !result.recording.ops.empty())
      result.recording.ops.back().placed =
          std::make_shared<const Spec>(c.mesh, target->placements, results.at(0).sizes().vec(),
                                       results[0].strides().vec(), results[0].scalar_type(), target->order);
    return results;
  });
  recorder.check();
  result.random_after = generator().state;
  return result;
}

// A device's kernels take less than the CPU's: other dtypes, other numbers. What the CPU refuses, too, is no
// Program.
PlainRun evaluate_recorded(const Case& c, RandomSource& random) {
  if (c.mesh.device_type() == c10::kCPU) return recorded(c, random);
  const auto no_kernel = [&](const std::string& text) {
    Case on_cpu = c;
    on_cpu.mesh = c.mesh.on(c10::kCPU);
    evaluate(on_cpu, random);
    return NoKernel(concat("[evaluate] the single device refuses it: ", text));
  };
  try {
    return recorded(c, random);
  } catch (const c10::AcceleratorError&) {
    throw;  // nothing runs there any more
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& e) {
    throw no_kernel(e.what_without_backtrace());
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& e) {  // a number that a dtype does not hold
    throw no_kernel(e.what());
  }
}

Tensors evaluate_f64(const Case& c, RandomSource& random, const Tensors& plain, const Float64Run& how) {
  pin_attention();
  const Stream stream(c, random);
  Tensors inputs = global_inputs(c);
  for (at::Tensor& t : inputs) t = wide(t);
  if (how.change) how.change(inputs);
  std::optional<RecordingScope> recorder;
  if (how.recording != nullptr) recorder.emplace(*how.recording);
  const Placing placing = on_one_device(c.mesh);
  Interpreter interpreter(c.program, std::move(inputs), placing, at::kCPU);
  Tensors values = interpreter.run([&](const Operator& op, Stack& stack) {
    stack = in_float64(op, std::move(stack));
    return op.random ? random_call(op, stack, interpreter.values(), plain)
                     : widened_call(op, stack, interpreter.values(), plain);
  });
  if (recorder) recorder->check();
  return values;
}

}  // namespace lockstep::oracle
