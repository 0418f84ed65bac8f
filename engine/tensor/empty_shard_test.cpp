// SPDX-License-Identifier: Apache-2.0
// Ops on a mesh larger than the dimensions that it cuts: some ranks hold nothing. Every op that has a rule is
// called, by its schema or as a line of a table.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/ops/resolve.h"
#include "engine/ops/rules/table.h"
#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/error.h"
#include "engine/values/refused.h"

namespace lockstep {
namespace {

using Tensors = std::vector<at::Tensor>;
using torch::jit::Stack;

// What an error says before its backtrace; a view that would have to move says nothing.
template <class F>
std::string failure_of(F&& f) {
  try {
    f();
  } catch (const Refused& r) {
    return by_placements(r.why) ? "" : r.what();
  } catch (const std::exception& e) {
    const std::string text = e.what();
    return text.substr(0, text.find('\n'));
  }
  return "";
}

// Whole, or cut along a dimension.
Placements cuts(int64_t ndim) {
  Placements result{Replicate{}};
  for (int64_t d = 0; d < ndim; ++d) result.emplace_back(Shard{d});
  return result;
}

// More ranks than a dimension has indices.
void each_cut(const Tensors& all, const std::function<void(const Tensors&, const std::string&)>& visit) {
  each_placing(5, cuts, all, visit);
}

// The suites compare bits; here a rank's term may be lost or doubled, or a shape be wrong.
bool alike(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  const auto whole = full_tensor(a);
  return whole.sizes() == b.sizes() && whole.scalar_type() == b.scalar_type() &&
         at::allclose(whole.to(at::kDouble), b.to(at::kDouble), 1e-5, 1e-6, true);
}

// ---- by schema: what arguments may be, for tensors of [2, 3] ----

std::optional<c10::IValue> argument(const c10::Argument& a, int64_t dim) {
  static const std::map<std::string, c10::IValue> named = {
      {"size", std::vector<int64_t>{2, 3}},
      {"stride", std::vector<int64_t>{3, 1}},
      {"normalized_shape", std::vector<int64_t>{3}},
      {"pad", std::vector<int64_t>{1, 2}},
      {"k", 1},
  };
  using Kind = c10::TypeKind;
  const auto type = a.type()->str();
  if (a.name() == "dim" && (type == "int" || type == "int?")) return dim;
  if (a.name() == "dim" && type.starts_with("int[]")) return std::vector<int64_t>{dim};
  if (a.default_value()) return *a.default_value();
  if (const auto found = named.find(a.name()); found != named.end()) return found->second;
  const auto kind = a.type()->kind();
  if (kind == Kind::OptionalType) return c10::IValue();
  if (kind == Kind::NumberType) return at::Scalar(2);
  if (kind == Kind::FloatType) return 0.5;
  if (kind == Kind::IntType) return 1;
  if (kind == Kind::BoolType) return false;
  return std::nullopt;
}

size_t tensors_of(const c10::Argument& a) {
  const auto type = a.type()->str();
  return type == "Tensor" ? 1 : type == "Tensor[]" ? 2 : 0;
}

// The arguments of a call whose tensors are `given`, in turn; nullopt: it takes what is not made here.
std::optional<Stack> stack_of(const c10::FunctionSchema& schema, const Tensors& given, int64_t dim) {
  Stack stack;
  auto next = given.begin();
  for (const auto& a : schema.arguments()) {
    const auto n = static_cast<std::ptrdiff_t>(tensors_of(a));
    auto value = n > 0 ? std::nullopt : argument(a, dim);
    if (n == 0 && !value) return std::nullopt;
    if (n == 0) stack.push_back(std::move(*value));
    if (n == 1) stack.emplace_back(*next);
    if (n > 1) stack.emplace_back(Tensors(next, next + n));
    next += n;
  }
  return stack;
}

Tensors tensors_in(const Stack& stack) {
  Tensors result;
  for (const auto& value : stack) {
    if (value.isTensor()) result.push_back(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& t : value.toTensorList()) result.push_back(t);
  }
  return result;
}

// If one device takes the call, every placement must give what it gives.
void call(const c10::OperatorHandle& op, at::ScalarType dtype, int64_t dim) {
  Tensors given;
  for (const auto& a : op.schema().arguments())
    for (size_t i = tensors_of(a); i > 0; --i)
      given.push_back(ramp({2, 3}).add(9 + static_cast<double>(given.size())).to(dtype));
  auto plain = stack_of(op.schema(), given, dim);
  if (!plain || !failure_of([&] { op.callBoxed(*plain); }).empty()) return;
  const auto expected = tensors_in(*plain);
  const bool unset = op.schema().name().find("empty") != std::string::npos;
  each_cut(given, [&](const Tensors& placed, const std::string& text) {
    auto ours = *stack_of(op.schema(), placed, dim);
    const auto failure = failure_of([&] { op.callBoxed(ours); });
    EXPECT_EQ(failure, "") << op.operator_name() << ' ' << text << " dim " << dim;
    const auto got = tensors_in(ours);
    for (size_t i = 0; failure.empty() && !unset && i < expected.size(); ++i)
      EXPECT_TRUE(i < got.size() && alike(got[i], expected[i]))
          << op.operator_name() << ' ' << text << " dim " << dim;
  });
}

// ---- with arguments of their own, and their gradients ----

struct Sample {
  const char* name;
  Tensors values;
  std::function<at::Tensor(const Tensors&)> call;
};

at::Tensor numbers(std::vector<int64_t> shape) {
  return ramp(std::move(shape)).sin().mul(2);
}
const at::Tensor kIndex = at::tensor({1, 0, 1}, at::kLong), kOther = at::tensor({2, 0, 1}, at::kLong),
                 kGrid = at::tensor({1, 0, 1, 0, 1, 0}, at::kLong).reshape({2, 3});

// The parameter after a step of an optimizer that writes nothing: two lists of one.
template <class Op>
at::Tensor fused(const Tensors& t) {
  const auto list = [&](size_t i) { return Tensors{t[i].detach(), t[i].detach()}; };
  const Tensors steps{at::ones({}), at::ones({})};
  return std::get<0>(Op::call(list(0), list(1), list(2), list(3), {}, steps, 0.1, 0.9, 0.99, 0, 1e-8, false,
                              false, {}, {}))[1];
}

// The tensors that an op of the dispatcher gives.
Stack results_of(const char* op, Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(op, "").callBoxed(stack);
  return stack;
}
at::Tensor through_tiles(const at::Tensor& t) {
  const auto tiles = results_of("optim::quantize_tiles", {t, true, 1, 2});
  return results_of("optim::dequantize_tiles", {tiles[0], tiles[1], true, 1, 2})[0].toTensor();
}
at::Tensor through_int8(const at::Tensor& t) {
  const auto tiles = results_of("optim::quantize_int8", {t, 1, 2});
  return results_of("optim::dequantize_int8", {tiles[0], tiles[1], 1, 2})[0].toTensor();
}
at::Tensor orthogonal(const at::Tensor& t) {
  const std::vector<double> coefficients{3.4445, -4.775, 2.0315};
  return results_of("optim::newton_schulz", {t, coefficients, 5, 1e-7, true})[0].toTensor();
}

at::Tensor by_experts(const at::Tensor& rows, const at::Tensor& weight) {
  return results_of("experts::grouped_linear",
                    {rows, weight, std::vector<int64_t>{0, 1, 1, 0}, int64_t{2}})[0]
      .toTensor();
}
at::Tensor turned(const at::Tensor& rows, const at::Tensor& order) {
  return results_of("experts::permute_rows", {rows, order, order, std::vector<int64_t>{rows.size(0)}})[0]
      .toTensor();
}

const at::Tensor kMatrix = numbers({2, 3}), kTurned = at::tensor({1, 0}, at::kLong),
                 kSquare = numbers({3, 3}), kVector = numbers({3}), kImage = numbers({4, 2, 6, 6}),
                 kOne = numbers({3, 6, 6}), kBatch = numbers({2, 3, 4});

using Samples = std::vector<Sample>;
// clang-format off
Samples kernels() {
  return {
      {"max_pool2d", {kImage}, [](auto& t) { return at::max_pool2d(t[0], {2, 2}); }},
      {"max_pool2d of one", {kOne}, [](auto& t) { return at::max_pool2d(t[0], {2, 2}); }},
      {"avg_pool2d", {kImage}, [](auto& t) { return at::avg_pool2d(t[0], {2, 2}); }},
      {"avg_pool2d of one", {kOne}, [](auto& t) { return at::avg_pool2d(t[0], {2, 2}); }},
      {"adaptive_avg_pool2d", {kImage}, [](auto& t) { return at::adaptive_avg_pool2d(t[0], {2, 3}); }},
      {"adaptive_avg_pool2d to one", {kImage}, [](auto& t) { return at::adaptive_avg_pool2d(t[0], {1, 1}); }},
      {"adaptive_avg_pool2d of one", {kOne}, [](auto& t) { return at::adaptive_avg_pool2d(t[0], {2, 3}); }},
      {"conv2d", {numbers({2, 3, 4, 4}), numbers({2, 3, 3, 3}), numbers({2})},
       [](auto& t) { return at::conv2d(t[0], t[1], t[2]); }},
      {"conv1d", {kBatch, numbers({2, 3, 3}), numbers({2})},
       [](auto& t) { return at::conv1d(t[0], t[1], t[2]); }},
      {"layer_norm", {kMatrix, kVector, kVector},
       [](auto& t) { return at::layer_norm(t[0], {3}, t[1], t[2]); }},
      {"rms_norm", {kMatrix, kVector}, [](auto& t) { return at::rms_norm(t[0], {3}, t[1]); }},
      {"_fused_rms_norm", {kMatrix, kVector},
       [](auto& t) { return std::get<0>(at::_fused_rms_norm(t[0], {3}, t[1], 1e-5)); }},
      {"softmax", {kMatrix}, [](auto& t) { return at::softmax(t[0], 1); }},
      {"log_softmax", {kMatrix}, [](auto& t) { return at::log_softmax(t[0], 0); }},
      {"mse_loss", {kMatrix, kMatrix}, [](auto& t) { return at::mse_loss(t[0], t[1] * 2); }},
      {"nll_loss", {kSquare, kOther}, [](auto& t) { return at::nll_loss(t[0], t[1]); }},
      {"nll_loss of each", {kSquare, kOther}, [](auto& t) { return at::nll_loss(t[0], t[1], {}, 0); }},
      {"cross_entropy_loss", {kSquare, kOther}, [](auto& t) { return at::cross_entropy_loss(t[0], t[1]); }},
      {"linear", {kMatrix, numbers({4, 3}), numbers({4})},
       [](auto& t) { return at::linear(t[0], t[1], t[2]); }},
      {"mm", {kMatrix, kSquare}, [](auto& t) { return at::mm(t[0], t[1]); }},
      {"bmm", {kBatch, numbers({2, 4, 3})}, [](auto& t) { return at::bmm(t[0], t[1]); }},
      {"baddbmm", {kVector, kBatch, numbers({2, 4, 3})},
       [](auto& t) { return at::baddbmm(t[0], t[1], t[2]); }},
      {"mv", {kMatrix, kVector}, [](auto& t) { return at::mv(t[0], t[1]); }},
      {"dot", {kVector, kVector}, [](auto& t) { return at::dot(t[0], t[1] + 1); }},
      {"embedding", {kMatrix, kIndex}, [](auto& t) { return at::embedding(t[0], t[1]); }},
      {"index_select", {kMatrix, kIndex}, [](auto& t) { return at::index_select(t[0], 0, t[1]); }},
      {"gather", {kMatrix, kGrid}, [](auto& t) { return at::gather(t[0], 0, t[1]); }},
      {"scatter", {kMatrix, numbers({2, 1}), kGrid.slice(1, 0, 1)},
       [](auto& t) { return at::scatter(t[0], 1, t[2], t[1]); }},
      {"scatter_add", {kMatrix, kMatrix, kGrid},
       [](auto& t) { return at::scatter_add(t[0], 1, t[2], t[1]); }},
      {"index", {kMatrix, kIndex}, [](auto& t) { return t[0].index({t[1]}); }},
      {"index_put", {kMatrix, kVector, kIndex},
       [](auto& t) { return t[0].index_put({t[2]}, t[1].detach(), true); }},
      {"index_fill", {kMatrix, kIndex}, [](auto& t) { return at::index_fill(t[0], 0, t[1], 3); }},
      {"index_add", {kMatrix, kSquare, kIndex}, [](auto& t) { return at::index_add(t[0], 0, t[2], t[1]); }},
      {"masked_fill", {kMatrix, kGrid}, [](auto& t) { return at::masked_fill(t[0], t[1].gt(0), 3); }},
      {"clamp", {kMatrix}, [](auto& t) { return at::clamp(t[0], -1, 1); }},
      {"constant_pad_nd", {kMatrix}, [](auto& t) { return at::constant_pad_nd(t[0], {1, 2}, 3); }},
      {"cat", {kMatrix, numbers({1, 3})}, [](auto& t) { return at::cat({t[0], t[1]}); }},
      {"stack", {kMatrix, kMatrix}, [](auto& t) { return at::stack({t[0], t[1]}); }},
      {"roll", {kMatrix}, [](auto& t) { return at::roll(t[0], {1}, {0}); }},
      {"flip", {kMatrix}, [](auto& t) { return at::flip(t[0], {0}); }},
      {"cumsum", {kMatrix}, [](auto& t) { return at::cumsum(t[0], 0); }},
      {"cumprod", {kMatrix}, [](auto& t) { return at::cumprod(t[0], 0); }},
      {"sort", {kMatrix}, [](auto& t) { return std::get<0>(at::sort(t[0], 1)); }},
      {"topk", {kMatrix}, [](auto& t) { return std::get<0>(at::topk(t[0], 2, 1)); }},
      {"var", {kMatrix}, [](auto& t) { return at::var(t[0], 0); }},
      {"norm", {kMatrix}, [](auto& t) { return at::norm(t[0], 2, 0); }},
      {"linalg_vector_norm", {kMatrix}, [](auto& t) { return at::linalg_vector_norm(t[0], 2, 1); }},
      {"linalg_qr", {kSquare}, [](auto& t) { return std::get<1>(at::linalg_qr(t[0].detach())); }},
      {"logsumexp", {kMatrix}, [](auto& t) { return at::logsumexp(t[0], 0); }},
      {"sum", {kMatrix}, [](auto& t) { return at::sum(t[0]); }},
      {"mean", {kMatrix}, [](auto& t) { return at::mean(t[0], 0); }},
      {"prod", {kMatrix}, [](auto& t) { return at::prod(t[0], 0); }},
      {"amax", {kMatrix}, [](auto& t) { return at::amax(t[0], 0); }},
      {"max", {kMatrix}, [](auto& t) { return at::max(t[0]); }},
      {"max.dim", {kMatrix}, [](auto& t) { return std::get<0>(at::max(t[0], 0)); }},
  };
}
// Views, and what ranks read whole or write.
Samples views() {
  return {
      {"view", {kBatch}, [](auto& t) { return t[0].view({6, 4}); }},
      {"reshape", {kBatch}, [](auto& t) { return t[0].reshape({2, 12}); }},
      {"_reshape_alias", {kMatrix}, [](auto& t) { return at::_reshape_alias(t[0], {6}, {1}); }},
      {"as_strided", {kMatrix}, [](auto& t) { return t[0].as_strided({2, 3}, {3, 1}); }},
      {"transpose", {kBatch}, [](auto& t) { return t[0].transpose(0, 2); }},
      {"t", {kMatrix}, [](auto& t) { return t[0].t(); }},
      {"permute", {kBatch}, [](auto& t) { return t[0].permute({2, 0, 1}); }},
      {"expand", {kVector}, [](auto& t) { return t[0].expand({2, 3}); }},
      {"squeeze", {numbers({2, 1, 3})}, [](auto& t) { return t[0].squeeze(); }},
      {"unsqueeze", {kMatrix}, [](auto& t) { return t[0].unsqueeze(1); }},
      {"select", {kBatch}, [](auto& t) { return t[0].select(1, 2); }},
      {"slice", {kBatch}, [](auto& t) { return t[0].slice(1, 1, 3); }},
      {"split", {kBatch}, [](auto& t) { return t[0].split(2, 2)[1]; }},
      {"split_with_sizes", {kBatch}, [](auto& t) { return t[0].split_with_sizes({1, 3}, 2)[1]; }},
      {"unbind", {kBatch}, [](auto& t) { return t[0].unbind(2)[1]; }},
      {"diagonal", {kBatch}, [](auto& t) { return t[0].diagonal(0, 1, 2); }},
      {"alias", {kMatrix}, [](auto& t) { return at::alias(t[0]); }},
      {"lift_fresh", {kMatrix}, [](auto& t) { return at::lift_fresh(t[0].detach()) * t[0]; }},
      {"where", {kMatrix, kMatrix, kGrid}, [](auto& t) { return at::where(t[2].gt(0), t[0], t[1] * 2); }},
      {"nonzero", {kMatrix}, [](auto& t) { return at::nonzero(t[0].gt(0)) * t[0].sum(); }},
      {"masked_select", {kMatrix},
       [](auto& t) { return at::masked_select(t[0].detach(), t[0].gt(0)) * t[0].sum(); }},
      {"_fused_adam", {kMatrix, kMatrix, kMatrix, kMatrix * kMatrix},
       [](auto& t) { return fused<at::_ops::_fused_adam>(t) * t[0]; }},
      {"_fused_adamw", {kMatrix, kMatrix, kMatrix, kMatrix * kMatrix},
       [](auto& t) { return fused<at::_ops::_fused_adamw>(t) * t[0]; }},
      {"detach", {kMatrix}, [](auto& t) { return t[0].detach() * t[0]; }},
      {"optim::dequantize_int8", {kMatrix}, [](auto& t) { return through_int8(t[0].detach()) * t[0]; }},
      {"optim::dequantize_tiles", {kMatrix}, [](auto& t) { return through_tiles(t[0].detach()) * t[0]; }},
      {"experts::grouped_linear", {kMatrix, numbers({2, 4, 3})},
       [](auto& t) { return by_experts(t[0], t[1]); }},
      {"experts::permute_rows", {kMatrix, kTurned}, [](auto& t) { return turned(t[0], t[1]); }},
      {"optim::newton_schulz", {kMatrix}, [](auto& t) { return orthogonal(t[0].detach()) * t[0]; }},
  };
}
// clang-format on

const Samples& samples() {
  static const auto all = [] {
    auto list = kernels();
    for (auto& view : views()) list.push_back(view);
    return list;
  }();
  return all;
}

// Values and gradients on every placement. Where an op is written in place of others, those are called.
void call(const Sample& s) {
  const auto leaves = [](const Tensors& values, bool distributed) {
    Tensors result;
    for (const auto& t : values)
      result.push_back(!t.is_floating_point() ? t : distributed ? parameter(t) : t.clone().requires_grad_());
    return result;
  };
  const auto plain = leaves(s.values, false);
  const auto expected = s.call(plain);
  if (expected.requires_grad()) (expected * expected).sum().backward();
  each_cut(s.values, [&](const Tensors& placed, const std::string& text) {
    const auto ours = leaves(placed, true);
    const auto failure = failure_of([&] {
      const auto got = s.call(ours);
      EXPECT_TRUE(alike(got.detach(), expected.detach())) << s.name << ' ' << text;
      if (expected.requires_grad()) (got * got).sum().backward();
      for (size_t i = 0; i < ours.size(); ++i)
        EXPECT_TRUE(alike(ours[i].grad(), plain[i].grad())) << s.name << ' ' << text << " gradient " << i;
    });
    EXPECT_EQ(failure, "") << s.name << ' ' << text;
  });
}

// @returns those that others are called in place of.
std::set<std::string> call_by_schema() {
  std::set<std::string> composed;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (!op || !op->hasSchema() || op->schema().is_mutable()) continue;
    const auto& resolved = resolve(*op);
    if (op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) composed.insert(name.name);
    if (resolved.entry == nullptr || resolved.composite || resolved.entry->kind != OpKind::kValue) continue;
    for (const auto dtype : {at::kFloat, at::kLong})
      for (const int64_t dim : {int64_t{0}, int64_t{1}}) call(*op, dtype, dim);
  }
  return composed;
}

// Without "_", overload and "_foreach_", as rules are named.
std::string ruled(const std::string& op) {
  auto name = op.substr(0, op.find('.', 6));
  if (find_op(name) == nullptr && name.ends_with('_')) name.pop_back();
  return name;
}

// A user's rule that lets both results of max over what is cut pend. Catches: a rank without elements whose
// second result is missing, with which the process ended; one that is no identity of the greatest.
TEST(EmptyShard, EachResultOfAReductionThatPendsHasAnIdentity) {
  const RuleScope rule("aten::max", [](const OpCall& call) {
    Row row;
    row.inputs = {Shard{0}};
    row.outputs.assign(call.outputs.size(), Partial{ReduceOp::kMax});
    return Rows{row};
  });
  const auto mesh = init_device_mesh({3});
  const auto x = at::tensor({3.0F, 7.0F}).view({2, 1});
  const auto [values, places] = at::max(distribute_tensor(x, mesh, {Shard{0}}), 0, false);
  for (const auto& result : {values, places}) {
    ASSERT_EQ(placements(result), Placements{Partial{ReduceOp::kMax}});
    ASSERT_EQ(local_tensors(result).size(), 3u);
  }
  EXPECT_EQ(local_tensors(values)[2].item<float>(), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(local_tensors(places)[2].item<int64_t>(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(full_tensor(values).item<float>(), 7);
}

// Catches: a kernel that refuses a slice without elements, a reduction of nothing that is no identity, in a
// forward or a backward pass; an op that neither of the lists has.
TEST(EmptyShard, EveryOpIsThatOfOneDevice) {
  Timeline timeline;
  std::set<std::string> called;
  {
    const TimelineScope scope(timeline);
    for (const auto& s : samples()) call(s);
    called = call_by_schema();
  }
  called.insert("aten::_fused_rms_norm_backward");  // of _fused_rms_norm, which the CPU composes of others
  for (const auto& entry : timeline) called.insert(ruled(entry.op));
  std::string missing;
  for (const auto& entry : op_table())
    if (!called.contains(entry.name) && entry.kind != OpKind::kScalar && entry.kind != OpKind::kRandom)
      missing += " " + entry.name;
  EXPECT_EQ(missing, "");
}

}  // namespace
}  // namespace lockstep
