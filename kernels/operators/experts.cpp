// SPDX-License-Identifier: Apache-2.0
#include "kernels/operators/experts.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

namespace lockstep {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Counts = at::IntArrayRef;

void check_counts(const char* op, Counts counts, int64_t blocks, int64_t rows) {
  TORCH_CHECK(blocks > 0 && static_cast<int64_t>(counts.size()) % blocks == 0, "[experts::", op, "] ", blocks,
              " blocks do not divide ", counts.size(), " counts: there is one for each expert of each block");
  TORCH_CHECK(std::all_of(counts.begin(), counts.end(), [](int64_t n) { return n >= 0; }), "[experts::", op,
              "] a count is of rows, which are not below zero: ", counts);
  const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  TORCH_CHECK(sum == rows, "[experts::", op, "] the counts ", counts, " are of ", sum, " rows, not of ",
              rows);
}

// A matrix of rows, and what meets it.
void check_operands(const char* op, const at::Tensor& rows, const at::Tensor& other, int64_t other_dims) {
  TORCH_CHECK(rows.dim() == 2 && other.dim() == other_dims && rows.scalar_type() == other.scalar_type() &&
                  at::isFloatingType(rows.scalar_type()),
              "[experts::", op, "] of ", rows.scalar_type(), rows.sizes(), " and ", other.scalar_type(),
              other.sizes(), "; it takes rows, and ", other_dims == 3 ? "a matrix for each expert" : "rows",
              ", of one floating dtype");
}

// `meets`: which dimension of the weight the rows' features are; the other is the result's.
at::Tensor rows_like(const char* op, const at::Tensor& rows, const at::Tensor& weight, Counts counts,
                     int64_t blocks, int64_t meets) {
  check_operands(op, rows, weight, 3);
  TORCH_CHECK(rows.size(1) == weight.size(meets), "[experts::", op, "] rows of ", rows.size(1),
              " features do not meet weights ", weight.sizes());
  check_counts(op, counts, blocks, rows.size(0));
  TORCH_CHECK(static_cast<int64_t>(counts.size()) == blocks * weight.size(0), "[experts::", op, "] ",
              counts.size(), " counts in ", blocks, " blocks are not one for each of ", weight.size(0),
              " experts");
  return at::empty({rows.size(0), weight.size(3 - meets)}, rows.options());
}

at::Tensor weight_like(const at::Tensor& grad, const at::Tensor& rows, Counts counts, int64_t blocks) {
  check_operands("grouped_linear_weight", grad, rows, 2);
  TORCH_CHECK(grad.size(0) == rows.size(0), "[experts::grouped_linear_weight] gradients of ", grad.size(0),
              " rows are not those of ", rows.size(0));
  check_counts("grouped_linear_weight", counts, blocks, rows.size(0));
  return at::empty({static_cast<int64_t>(counts.size()) / blocks, grad.size(1), rows.size(1)},
                   rows.options());
}

struct Run {
  int64_t block, expert, start, length;
};
template <class F>
void for_runs(Counts counts, int64_t blocks, const F& of) {
  const int64_t experts = static_cast<int64_t>(counts.size()) / blocks;
  int64_t start = 0;
  for (int64_t i = 0; i < blocks * experts; ++i) {
    const int64_t length = counts[static_cast<size_t>(i)];
    of(Run{i / experts, i % experts, start, length});
    start += length;
  }
}

// The products of a kernel are its own: of no autograd, and rounded by no autocast.
struct Within {
  at::AutoDispatchBelowADInplaceOrView below;
  c10::impl::ExcludeDispatchKeyGuard exclude{c10::autocast_dispatch_keyset};
};

// Each expert's rows times its matrix, as that is or transposed. Kernels round by strides: all are dense.
at::Tensor product(at::Tensor result, const at::Tensor& rows, const at::Tensor& weight, Counts counts,
                   int64_t blocks, bool transposed) {
  const Within within;
  const auto dense = rows.contiguous(), matrices = weight.contiguous();
  for_runs(counts, blocks, [&](const Run& run) {
    if (run.length == 0) return;
    const auto matrix = matrices.select(0, run.expert);
    auto out = result.narrow(0, run.start, run.length);
    at::mm_out(out, dense.narrow(0, run.start, run.length), transposed ? matrix.t() : matrix);
  });
  return result;
}

at::Tensor linear_meta(const at::Tensor& rows, const at::Tensor& weight, Counts counts, int64_t blocks) {
  return rows_like("grouped_linear", rows, weight, counts, blocks, 2);
}
at::Tensor linear(const at::Tensor& rows, const at::Tensor& weight, Counts counts, int64_t blocks) {
  return product(linear_meta(rows, weight, counts, blocks), rows, weight, counts, blocks, true);
}

at::Tensor input_meta(const at::Tensor& grad, const at::Tensor& weight, Counts counts, int64_t blocks) {
  return rows_like("grouped_linear_input", grad, weight, counts, blocks, 1);
}
at::Tensor input(const at::Tensor& grad, const at::Tensor& weight, Counts counts, int64_t blocks) {
  return product(input_meta(grad, weight, counts, blocks), grad, weight, counts, blocks, false);
}

at::Tensor weight(const at::Tensor& grad, const at::Tensor& rows, Counts counts, int64_t blocks) {
  auto result = weight_like(grad, rows, counts, blocks);
  const Within within;
  const auto dense_grad = grad.contiguous(), dense_rows = rows.contiguous();
  for_runs(counts, blocks, [&](const Run& run) {
    const auto left = dense_grad.narrow(0, run.start, run.length).t();
    const auto right = dense_rows.narrow(0, run.start, run.length);
    auto out = result.select(0, run.expert);
    run.block == 0 ? at::mm_out(out, left, right) : out.add_(left.mm(right));
  });
  return result;
}

// All dimensions but the last, and how many rows that is.
std::vector<int64_t> leading_of(const at::Tensor& self) {
  return self.sizes().slice(0, static_cast<size_t>(self.dim() - 1)).vec();
}

at::Tensor permuted_meta(const at::Tensor& self, const at::Tensor& order, const at::Tensor& inverse,
                         at::IntArrayRef leading) {
  TORCH_CHECK(self.dim() > 1 && !leading.empty(), "[experts::permute_rows] of ", self.sizes(), " to ",
              leading, "; rows are all dimensions but the last");
  const int64_t rows = c10::multiply_integers(leading_of(self));
  TORCH_CHECK(order.dim() == 1 && order.sizes() == inverse.sizes() && order.size(0) == rows &&
                  order.scalar_type() == at::kLong && inverse.scalar_type() == at::kLong,
              "[experts::permute_rows] of ", rows, " rows by ", order.scalar_type(), order.sizes(), " and ",
              inverse.scalar_type(), inverse.sizes(), "; both have a place of int64 for each row");
  TORCH_CHECK(c10::multiply_integers(leading) == rows, "[experts::permute_rows] ", rows, " rows are not ",
              leading);
  auto shape = leading.vec();
  shape.push_back(self.size(-1));
  return at::empty(shape, self.options());
}
at::Tensor permuted(const at::Tensor& self, const at::Tensor& order, const at::Tensor& inverse,
                    at::IntArrayRef leading) {
  auto result = permuted_meta(self, order, inverse, leading);
  auto rows = result.view({order.size(0), self.size(-1)});
  at::index_select_out(rows, self.reshape(rows.sizes()), 0, order);
  return result;
}

template <class Signature>
auto typed(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}
using Grouped = at::Tensor(const at::Tensor&, const at::Tensor&, Counts, int64_t);
using Permuted = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, at::IntArrayRef);

struct GroupedLinear : torch::autograd::Function<GroupedLinear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& rows, const at::Tensor& weight,
                            std::vector<int64_t> counts, int64_t blocks) {
    static const auto op = typed<Grouped>("experts::grouped_linear");
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({rows, weight});
    ctx->saved_data["counts"] = counts;
    ctx->saved_data["blocks"] = blocks;
    const at::AutoDispatchBelowADInplaceOrView below;
    return op.call(rows, weight, counts, blocks);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    static const auto of_input = typed<Grouped>("experts::grouped_linear_input");
    static const auto of_weight = typed<Grouped>("experts::grouped_linear_weight");
    if (!grads[0].defined()) return variable_list(4);
    const auto saved = ctx->get_saved_variables();
    const auto counts = ctx->saved_data["counts"].toIntVector();
    const int64_t blocks = ctx->saved_data["blocks"].toInt();
    TORCH_CHECK(
        !at::GradMode::is_enabled(),
        "[experts::grouped_linear] is differentiable once: its gradients have no history, and a pass with "
        "create_graph would leave out what they depend on; take that gradient without create_graph");
    at::Tensor rows, weight;
    if (ctx->needs_input_grad(0)) rows = of_input.call(grads[0], saved[1], counts, blocks);
    if (ctx->needs_input_grad(1)) weight = of_weight.call(grads[0], saved[0], counts, blocks);
    return {rows, weight, at::Tensor(), at::Tensor()};
  }
};

struct PermuteRows : torch::autograd::Function<PermuteRows> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& self, const at::Tensor& order,
                            const at::Tensor& inverse, std::vector<int64_t> leading) {
    static const auto op = typed<Permuted>("experts::permute_rows");
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({order, inverse});
    ctx->saved_data["leading"] = leading_of(self);
    const at::AutoDispatchBelowADInplaceOrView below;
    return op.call(self, order, inverse, leading);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    static const auto op = typed<Permuted>("experts::permute_rows");
    if (!grads[0].defined()) return variable_list(4);
    const auto saved = ctx->get_saved_variables();
    const auto leading = ctx->saved_data["leading"].toIntVector();
    return {op.call(grads[0], saved[1], saved[0], leading), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor linear_autograd(const at::Tensor& rows, const at::Tensor& weight, Counts counts, int64_t blocks) {
  return GroupedLinear::apply(rows, weight, counts.vec(), blocks);
}
at::Tensor permuted_autograd(const at::Tensor& self, const at::Tensor& order, const at::Tensor& inverse,
                             at::IntArrayRef leading) {
  return PermuteRows::apply(self, order, inverse, leading.vec());
}

}  // namespace

void define_expert_operators() {
  static const auto library = [] {
    torch::Library experts(torch::Library::FRAGMENT, "experts", std::nullopt, __FILE__, __LINE__);
    const auto define = [&](const std::string& name, const char* operands, auto* on_cpu, auto* on_meta) {
      experts.def((name + operands).c_str());
      experts.impl(name.c_str(), c10::DispatchKey::CPU, on_cpu);
      experts.impl(name.c_str(), c10::DispatchKey::Meta, on_meta);
    };
    define("grouped_linear", "(Tensor rows, Tensor weight, int[] counts, int blocks) -> Tensor", linear,
           linear_meta);
    define("grouped_linear_input", "(Tensor grad, Tensor weight, int[] counts, int blocks) -> Tensor", input,
           input_meta);
    define("grouped_linear_weight", "(Tensor grad, Tensor rows, int[] counts, int blocks) -> Tensor", weight,
           weight_like);
    define("permute_rows", "(Tensor self, Tensor order, Tensor inverse, int[] leading) -> Tensor", permuted,
           permuted_meta);
    experts.impl("grouped_linear", c10::DispatchKey::Autograd, linear_autograd);
    experts.impl("permute_rows", c10::DispatchKey::Autograd, permuted_autograd);
    return experts;
  }();
}

}  // namespace lockstep
