// SPDX-License-Identifier: Apache-2.0
#include "suites/golden/stock_op.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "engine/nn/init.h"
#include "engine/values/error.h"
#include "engine/values/text.h"

namespace lockstep::suites {
namespace {

using Form = TensorForm;
using Given = Arguments;

double real(const Given& given, const char* name) {
  const auto& text = given.at(name);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  LOCKSTEP_CHECK(!text.empty() && *end == '\0', "[random] ", name, " ", text, ": write a number");
  return value;
}

std::optional<int64_t> optional_integer(const Given& given, const char* name) {
  const auto& text = given.at(name);
  if (text.empty()) return std::nullopt;
  const auto value = parse_integer(text);
  LOCKSTEP_CHECK(value, "[random] ", name, " ", text, ": write an integer");
  return value;
}
int64_t integer(const Given& given, const char* name) {
  const auto value = optional_integer(given, name);
  LOCKSTEP_CHECK(value, "[random] ", name, " is missing: write an integer");
  return *value;
}
bool flag(const Given& given, const char* name) {
  const auto& text = given.at(name);
  LOCKSTEP_CHECK(text == "true" || text == "false", "[random] ", name, " ", text, ": write true or false");
  return text == "true";
}

at::Tensor filled(const Form& form, double value) {
  return at::empty_strided(form.shape, form.stride, at::TensorOptions(form.dtype)).fill_(value);
}
// What is filled: its memory is not touched before.
at::Tensor blank(const Maker& maker, const Form& form) {
  return maker.place(at::empty_strided(form.shape, form.stride, at::TensorOptions(form.dtype)));
}
at::Tensor ones(const Maker& maker, const Form& form) {
  return maker.place(filled(form, 1));
}

// 1 to n along the last dimension, the same in every row.
at::Tensor weights(const Maker& maker, const Form& form) {
  LOCKSTEP_CHECK(!form.shape.empty(), "[random] multinomial draws by the weights of a row; write a shape");
  auto plain = filled(form, 0);
  plain.copy_(at::arange(1, form.shape.back() + 1, at::TensorOptions(at::kDouble)).expand(form.shape));
  return maker.place(plain);
}

at::Tensor random_(const Maker& m, const Form& f, const Given& g) {
  auto x = blank(m, f);
  const auto from = optional_integer(g, "from"), to = optional_integer(g, "to");
  if (!from && !to) return x.random_();
  return x.random_(from.value_or(0), to);
}

// Probabilities in float32, in float64 for a tensor of those, laid out as the tensor.
at::Tensor bernoulli(const Maker& m, const Form& f, const Given& g) {
  const auto dtype = f.dtype == at::kDouble ? at::kDouble : at::kFloat;
  const auto p = m.place(filled({f.shape, f.stride, dtype}, real(g, "p")));
  return blank(m, f).bernoulli_(p);
}

at::Tensor rrelu(const Maker& m, const Form& f, const Given& g) {
  return at::rrelu(m.place(filled(f, -1)), real(g, "lower"), real(g, "upper"), true);
}

at::Tensor randperm(const Maker& m, const Form& f, const Given&) {
  LOCKSTEP_CHECK(f.shape.size() == 1, "[random] randperm makes one dimension; write its length");
  return m.randperm(f.shape[0], f.dtype);
}

at::Tensor multinomial(const Maker& m, const Form& f, const Given& g) {
  return at::multinomial(weights(m, f), integer(g, "num_samples"), flag(g, "replacement"));
}

using M = const Maker&;
using F = const Form&;
using G = const Given&;

// Fills by one number or two, which take their places in the order of their names.
template <auto Fill>
at::Tensor fills(M m, F f, G g) {
  const auto x = blank(m, f);
  const double first = real(g, g.begin()->first.c_str());
  if constexpr (std::is_invocable_v<decltype(Fill), at::Tensor, double, std::nullopt_t>)
    return (x.*Fill)(first, std::nullopt);
  else
    return (x.*Fill)(first, real(g, g.rbegin()->first.c_str()), std::nullopt);
}

// A dropout of ones.
template <auto Drop>
at::Tensor drops(M m, F f, G g) {
  return Drop(ones(m, f), real(g, "p"), true);
}
at::Tensor native_mask(const at::Tensor& x, double p, bool train) {
  return std::get<1>(at::native_dropout(x, p, train));
}

// An initialiser of engine/nn with one argument.
template <auto Init>
at::Tensor initialised(M m, F f, G g) {
  auto x = blank(m, f);
  return Init(x, real(g, g.begin()->first.c_str()));
}

at::Tensor randint(M m, F f, G g) {
  return at::randint_like(blank(m, f), integer(g, "low"), integer(g, "high"));
}
at::Tensor bernoulli_(M m, F f, G g) {
  return blank(m, f).bernoulli_(real(g, "p"));
}
at::Tensor trunc_normal_(M m, F f, G g) {
  auto x = blank(m, f);
  return nn::trunc_normal_(x, real(g, "mean"), real(g, "std"), real(g, "a"), real(g, "b"));
}

using T = at::Tensor;
constexpr StockOp kOps[] = {
    {"rand", "f32", {}, false, [](M m, F f, G) { return blank(m, f).uniform_(0, 1); }},
    {"randn", "f32", {}, true, [](M m, F f, G) { return blank(m, f).normal_(0, 1); }},
    {"uniform_", "f32", {{{"from", "0"}, {"to", "1"}}}, false, fills<&T::uniform_>},
    {"normal_", "f32", {{{"mean", "0"}, {"std", "1"}}}, true, fills<&T::normal_>},
    {"log_normal_", "f32", {{{"mean", "1"}, {"std", "2"}}}, true, fills<&T::log_normal_>},
    {"exponential_", "f32", {{{"lambd", "1"}}}, true, fills<&T::exponential_>},
    {"cauchy_", "f32", {{{"median", "0"}, {"sigma", "1"}}}, true, fills<&T::cauchy_>},
    {"geometric_", "f32", {{{"p", "0.5"}}}, true, fills<&T::geometric_>},
    {"random_", "i64", {{{"from", ""}, {"to", ""}}}, false, random_},
    {"randint", "i64", {{{"low", "0"}, {"high", "10"}}}, false, randint},
    {"bernoulli_", "f32", {{{"p", "0.5"}}}, false, bernoulli_},
    {"bernoulli", "f32", {{{"p", "0.5"}}}, false, bernoulli},
    {"dropout", "f32", {{{"p", "0.5"}}}, false, drops<at::dropout>},
    {"native_dropout", "f32", {{{"p", "0.5"}}}, false, drops<native_mask>},
    {"feature_dropout", "f32", {{{"p", "0.5"}}}, false, drops<at::feature_dropout>},
    {"alpha_dropout", "f32", {{{"p", "0.5"}}}, false, drops<at::alpha_dropout>},
    {"feature_alpha_dropout", "f32", {{{"p", "0.5"}}}, false, drops<at::feature_alpha_dropout>},
    {"rrelu", "f32", {{{"lower", "0.125"}, {"upper", "0.3333333333333333"}}}, false, rrelu},
    {"randperm", "i64", {}, false, randperm},
    {"multinomial", "f32", {{{"num_samples", "1"}, {"replacement", "false"}}}, true, multinomial},
    {"kaiming_uniform_", "f32", {{{"a", "0"}}}, false, initialised<nn::kaiming_uniform_>},
    {"kaiming_normal_", "f32", {{{"a", "0"}}}, true, initialised<nn::kaiming_normal_>},
    {"xavier_uniform_", "f32", {{{"gain", "1"}}}, false, initialised<nn::xavier_uniform_>},
    {"xavier_normal_", "f32", {{{"gain", "1"}}}, true, initialised<nn::xavier_normal_>},
    {"orthogonal_", "f32", {{{"gain", "1"}}}, true, initialised<nn::orthogonal_>},
    {"trunc_normal_", "f32", {{{"mean", "0"}, {"std", "1"}, {"a", "-2"}, {"b", "2"}}}, true, trunc_normal_},
};

}  // namespace

Maker plain_maker() {
  return {[](const at::Tensor& plain) { return plain; },
          [](int64_t n, c10::ScalarType dtype) { return at::randperm(n, at::TensorOptions(dtype)); }};
}

Maker mesh_maker(const MeshInWorld& mesh, const Placements& placements, const std::vector<int64_t>& order) {
  return {[=](const at::Tensor& plain) {
            const auto cut = distribute_tensor(plain, mesh, placements, order);
            if (spec(cut).stride() == plain.strides()) return cut;
            return from_local(to_local(cut), mesh, placements, plain.sizes().vec(), plain.strides().vec(),
                              true, order);
          },
          [=](int64_t n, c10::ScalarType dtype) { return lockstep::randperm(n, mesh, placements, dtype); }};
}

std::span<const StockOp> stock_ops() {
  return kOps;
}

const StockOp& find_stock_op(std::string_view name) {
  std::string names;
  for (const auto& op : kOps) {
    if (op.name == name) return op;
    names += concat(names.empty() ? "" : ", ", op.name);
  }
  throw Error(concat("[random] no random operator is called '", name, "'; write ", names));
}

at::Tensor run_stock(const StockOp& op, const Maker& maker, const TensorForm& form, const Arguments& given) {
  Arguments all;
  std::string names;
  for (const auto& [name, value] : op.arguments) {
    if (name.empty()) break;
    all[std::string(name)] = value;
    names += concat(names.empty() ? "" : ", ", name);
  }
  for (const auto& [name, value] : given) {
    LOCKSTEP_CHECK(all.contains(name), "[random] ", op.name, " has no argument ", name, "; it takes ",
                   names.empty() ? "none" : names);
    all[name] = value;
  }
  return op.run(maker, form, all);
}

uint64_t fnv1a64(const at::Tensor& plain) {
  const auto dense = plain.contiguous();
  const auto* bytes = static_cast<const unsigned char*>(dense.const_data_ptr());
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < dense.nbytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  return hash;
}

std::string element_bits(const at::Tensor& flat, int64_t i) {
  const auto* bytes = static_cast<const unsigned char*>(flat.const_data_ptr()) + i * flat.element_size();
  std::string text = "0x";
  for (int64_t k = flat.element_size() - 1; k >= 0; --k) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", bytes[k]);
    text += two;
  }
  return text;
}

}  // namespace lockstep::suites
