// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/infer.h"

#include <ATen/ATen.h>

#include <unordered_map>

#include "engine/values/error.h"

namespace lockstep {
namespace {

using torch::jit::Stack;

at::Tensor like(const at::Tensor& t) {
  return at::empty_like(t);
}
at::Tensor sized(const at::Tensor& t, at::IntArrayRef shape) {
  return at::empty(shape, t.options());
}
at::Tensor tensor(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

// Statistics of the last `n` dimensions.
std::vector<int64_t> statistics(const at::Tensor& input, size_t n) {
  auto shape = input.sizes().vec();
  for (size_t i = shape.size() - n; i < shape.size(); ++i) shape[i] = 1;
  return shape;
}

at::Tensor reduced_as_sum(const Stack& s) {
  const bool keepdim = s.back().toBool();
  if (s[1].isNone()) return at::sum(s[0].toTensor(), at::OptionalIntArrayRef(), keepdim);
  return at::sum(s[0].toTensor(), s[1].toIntVector(), keepdim);
}

// Two-dimensional convolutions work in channels-last order if the input or the weight lies so.
at::Tensor convolution_result(const at::Tensor& like_dtype, std::vector<int64_t> shape,
                              const at::Tensor& input, const at::Tensor& weight) {
  const auto last = at::MemoryFormat::ChannelsLast;
  const bool channels_last =
      input.dim() == 4 && (input.suggest_memory_format() == last || weight.suggest_memory_format() == last);
  return at::empty(shape, like_dtype.options(), channels_last ? last : at::MemoryFormat::Contiguous);
}

at::Tensor convolved(const Stack& s) {
  const auto input = s[0].toTensor(), weight = s[1].toTensor();
  const auto stride = s[3].toIntVector(), padding = s[4].toIntVector(), dilation = s[5].toIntVector();
  LOCKSTEP_CHECK(!s[6].toBool(),
                 "[aten::convolution] transposed convolutions have no sharding rule in this version");
  std::vector<int64_t> shape{input.size(0), weight.size(0)};
  for (int64_t d = 2; d < input.dim(); ++d) {
    const auto i = static_cast<size_t>(d - 2);
    const auto at = [i](const std::vector<int64_t>& v) { return v.size() == 1 ? v[0] : v[i]; };
    shape.push_back((input.size(d) + 2 * at(padding) - at(dilation) * (weight.size(d) - 1) - 1) / at(stride) +
                    1);
  }
  return convolution_result(input, std::move(shape), input, weight);
}

// Ops without a meta kernel in libtorch: their results, on meta tensors.
using Infer = void (*)(Stack&);
void as_input(Stack& s) {
  s = {at::neg(s[0].toTensor())};
}
void as_first_dense(Stack& s) {
  s = {sized(s[0].toTensor(), s[0].toTensor().sizes())};
}
void as_pair(Stack& s) {
  s = {at::add(s[0].toTensor(), s[1].toTensor())};
}
void as_sum(Stack& s) {
  s = {reduced_as_sum(s)};
}
void as_extremum(Stack& s) {
  if (s.size() == 1) s = {at::amax(s[0].toTensor())};
}

void infer_where(Stack& s) {
  const auto a = s[1].toTensor(), b = s[2].toTensor();
  const auto dtype = at::result_type(a, b);
  const auto cast = [dtype](const at::Tensor& t) {
    return t.to(at::TensorOptions().dtype(dtype).device(at::kMeta));
  };
  const auto wide = dtype == at::kBool ? at::kByte : dtype;
  const auto like_all = at::addcmul(cast(s[0].toTensor()).to(wide), cast(a).to(wide), cast(b).to(wide));
  s = {at::empty_strided(like_all.sizes(), like_all.strides(), like_all.options().dtype(dtype))};
}

void infer_index_select(Stack& s) {
  const auto self = s[0].toTensor();
  auto shape = self.sizes().vec();
  if (!shape.empty())
    shape[static_cast<size_t>(wrap_dim(s[1].toInt(), self.dim()))] = s[2].toTensor().numel();
  s = {sized(self, shape)};
}

void infer_layer_norm(Stack& s) {
  const auto input = s[0].toTensor();
  const auto shape = statistics(input, s[1].toIntVector().size());
  s = {sized(input, input.sizes()), sized(input, shape), sized(input, shape)};
}

void infer_layer_norm_backward(Stack& s) {
  const auto input = s[1].toTensor(), weight = tensor(s[5]), bias = tensor(s[6]);
  const auto mask = s[7].toBoolList();
  s = {mask[0] ? sized(input, input.sizes()) : at::Tensor(),
       mask[1] && weight.defined() ? like(weight) : at::Tensor(),
       mask[2] && bias.defined() ? like(bias) : at::Tensor()};
}

void infer_convolution_backward(Stack& s) {
  const auto grad = s[0].toTensor(), input = s[1].toTensor(), weight = s[2].toTensor();
  const auto mask = s[10].toBoolList();
  const auto result = [&](const at::Tensor& of) {
    return convolution_result(of, of.sizes().vec(), input, weight);
  };
  const bool pointwise = c10::multiply_integers(weight.sizes().slice(2)) == 1;
  s = {mask[0] ? result(input) : at::Tensor(),
       !mask[1]    ? at::Tensor()
       : pointwise ? sized(weight, weight.sizes())
                   : result(weight),
       mask[2] ? sized(grad, {grad.size(1)}) : at::Tensor()};
}

void infer_multinomial(Stack& s) {
  const auto weights = s[0].toTensor();
  auto shape = weights.sizes().vec();
  LOCKSTEP_CHECK(!shape.empty(), "[aten::multinomial] weights without dimensions; give one or two");
  shape.back() = s[1].toInt();
  s = {at::empty(shape, weights.options().dtype(at::kLong))};
}

void infer_adaptive_pool(Stack& s) {
  auto shape = s[0].toTensor().sizes().vec();
  const auto out = s[1].toIntVector();
  std::copy(out.begin(), out.end(), shape.end() - static_cast<int64_t>(out.size()));
  s = {sized(s[0].toTensor(), shape)};
}

const std::unordered_map<std::string, Infer> kWithoutMetaKernel = {
    {"aten::abs", as_input},
    {"aten::relu", as_input},
    {"aten::hardswish", as_input},
    {"aten::hardtanh", as_input},
    {"aten::logit", as_input},
    {"aten::flip", as_first_dense},
    {"aten::roll", as_first_dense},
    {"aten::floor_divide", as_pair},
    {"aten::hardswish_backward", as_pair},
    {"aten::hardtanh_backward", as_pair},
    {"aten::log_sigmoid_backward", as_pair},
    {"aten::mse_loss_backward", [](Stack& s) { s = {at::add(s[1].toTensor(), s[2].toTensor())}; }},
    {"aten::isnan", [](Stack& s) { s = {at::eq(s[0].toTensor(), s[0].toTensor())}; }},
    {"aten::where", infer_where},
    {"aten::dot", [](Stack& s) { s = {sized(s[0].toTensor(), {})}; }},
    {"aten::index_select", infer_index_select},
    {"aten::embedding",
     [](Stack& s) {
       auto shape = s[1].toTensor().sizes().vec();
       shape.push_back(s[0].toTensor().size(1));
       s = {sized(s[0].toTensor(), shape)};
     }},
    {"aten::embedding_dense_backward",
     [](Stack& s) {
       s = {sized(s[0].toTensor(), {s[2].toInt(), s[0].toTensor().size(-1)})};
     }},
    {"aten::std", as_sum},
    {"aten::var", as_sum},
    {"aten::var_mean",
     [](Stack& s) {
       const auto sum = reduced_as_sum(s);
       s = {sum, like(sum)};
     }},
    {"aten::native_layer_norm", infer_layer_norm},
    {"aten::native_layer_norm_backward", infer_layer_norm_backward},
    {"aten::_fused_rms_norm",
     [](Stack& s) {
       const auto input = s[0].toTensor();
       const auto shape = statistics(input, s[1].toIntVector().size());
       s = {sized(input, input.sizes()), sized(input, shape)};
     }},
    {"aten::native_dropout",
     [](Stack& s) {
       const auto input = s[0].toTensor();
       s = {like(input), at::empty_like(input, input.options().dtype(at::kBool))};
     }},
    {"aten::native_dropout_backward", as_input},
    {"aten::rrelu_with_noise", as_first_dense},
    {"aten::multinomial", infer_multinomial},
    {"aten::convolution", [](Stack& s) { s = {convolved(s)}; }},
    {"aten::convolution_backward", infer_convolution_backward},
    {"aten::_adaptive_avg_pool2d", infer_adaptive_pool},
};

// Full reductions: the overloads with dims have meta kernels.
Infer without_meta_kernel(const c10::OperatorHandle& op) {
  const auto& name = op.schema().name();
  const bool full = op.schema().overload_name().empty();
  if (full && (name == "aten::max" || name == "aten::min")) return as_extremum;
  if (full && name == "aten::prod")
    return [](Stack& s) {
      s = {at::sum(s[0].toTensor(), s[1].isNone() ? std::optional<at::ScalarType>() : s[1].toScalarType())};
    };
  // Reads its bound on the host, which does not matter here.
  if (name == "aten::randint_like" && op.schema().overload_name().starts_with("Tensor"))
    return [](Stack& s) {
      const auto dtype = s[s.size() - 5];
      const auto self = s[0].toTensor();
      s = {at::empty_like(self,
                          self.options().dtype(dtype.isNone() ? self.scalar_type() : dtype.toScalarType()))};
    };
  const auto it = kWithoutMetaKernel.find(name);
  if (it == kWithoutMetaKernel.end()) return nullptr;
  const bool scalar_where = name == "aten::where" && op.schema().overload_name() != "self";
  return scalar_where ? nullptr : it->second;
}

at::Tensor zeros_of(const at::Tensor& meta) {
  if (!meta.defined() || !meta.is_meta()) return meta;
  return at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(at::kCPU)).zero_();
}

// Kernels that no meta kernel describes run on zeros, once for each decision.
void run_on_meta_or_zeros(const c10::OperatorHandle& op, Stack& args) {
  Stack zeros = args;
  try {
    return op.callBoxed(args);
  } catch (const c10::NotImplementedError&) {
    for (auto& value : zeros) {
      if (value.isTensor()) value = zeros_of(value.toTensor());
      if (value.isDevice()) value = c10::Device(at::kCPU);
      if (!value.isTensorList()) continue;
      auto list = value.toTensorVector();
      for (auto& t : list) t = zeros_of(t);
      value = std::move(list);
    }
  }
  op.callBoxed(zeros);
  args = std::move(zeros);
}

void flatten(const c10::IValue& value, std::vector<TensorMeta>& out) {
  if (value.isTensor()) {
    out.push_back(meta_of(value.toTensor()));
  } else if (value.isTensorList()) {
    for (const auto& t : value.toTensorVector()) out.push_back(meta_of(t));
  } else if (value.isNone()) {
    out.push_back({});
  }
}

}  // namespace

TensorMeta meta_of(const at::Tensor& tensor) {
  TensorMeta meta;
  if (!tensor.defined()) return meta;
  meta.defined = true;
  meta.shape = tensor.sizes().vec();
  meta.stride = tensor.strides().vec();
  meta.dtype = tensor.scalar_type();
  meta.offset = tensor.storage_offset();
  return meta;
}

std::vector<TensorMeta> infer_outputs(const c10::OperatorHandle& op, Stack args) {
  if (const auto infer = without_meta_kernel(op))
    infer(args);
  else
    run_on_meta_or_zeros(op, args);
  std::vector<TensorMeta> outputs;
  for (const auto& value : args) flatten(value, outputs);
  return outputs;
}

}  // namespace lockstep
