// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/wire_values.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/values/error.h"
#include "suites/core/outcome.h"

namespace lockstep::suites::wire {
namespace {

using Sizes = std::vector<int64_t>;

Sizes read_shape(const Json& json) {
  auto shape = json.get<Sizes>();
  int64_t elements = 1;
  for (const auto n : shape) {
    const bool fits = n >= 0 && !__builtin_mul_overflow(elements, std::max<int64_t>(n, 1), &elements);
    if (!fits) throw Malformed(concat("the shape ", json.dump(), " has no size"));
  }
  return shape;
}

// Its last element lies within as many as there are.
bool is_dense(const Sizes& shape, const Sizes& stride) {
  int64_t last = 0, elements = 1, span = 0;
  if (stride.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    elements *= shape[d];
    const bool overflows = __builtin_mul_overflow(std::max<int64_t>(shape[d] - 1, 0), stride[d], &span) ||
                           __builtin_add_overflow(last, span, &last);
    if (stride[d] < 0 || overflows) return false;
  }
  return elements == 0 || last < elements;
}

template <class T>
c10::List<T> list_of(const Json& json) {
  c10::List<T> list;
  for (const auto& item : json) list.push_back(item.get<T>());
  return list;
}

Json write_generic_list(const c10::IValue& value) {
  Json list = Json::array();
  for (const c10::IValue& item : value.toListRef()) {
    if (!item.isScalar()) return nullptr;
    list.push_back(write_plain(item));
  }
  return {{"scalars", list}};
}

c10::IValue read_scalars(const Json& json) {
  c10::List<at::Scalar> list;
  for (const auto& item : json) list.push_back(read_plain(item).toScalar());
  return list;
}

}  // namespace

uint64_t read_hex(std::string_view text) {
  uint64_t bits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
  if (error != std::errc() || end != text.data() + text.size())
    throw Malformed(concat("'", text, "' is not a number in hex"));
  return bits;
}

std::string_view Payload::take(size_t bytes) {
  if (bytes > left_.size())
    throw Malformed(concat("its tensors need ", bytes, " bytes more, where ", left_.size(), " are left"));
  const auto part = left_.substr(0, bytes);
  left_.remove_prefix(bytes);
  return part;
}

void Payload::finish() const {
  if (!left_.empty()) throw Malformed(concat(left_.size(), " bytes belong to no tensor"));
}

Json write_tensor(const at::Tensor& tensor, std::string& payload) {
  const auto dense = tensor.detach().contiguous();
  if (dense.nbytes() > 0) payload.append(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
  Json json = {{"dtype", dtype_name(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}};
  const auto stride = tensor.strides().vec();  // of dimensions of one element, too
  if (stride != contiguous_strides(tensor.sizes().vec())) json["stride"] = stride;
  return json;
}

at::Tensor read_tensor(const Json& json, Payload& payload) {
  const auto dtype = parse_dtype(json.at("dtype").get<std::string>());
  const auto shape = read_shape(json.at("shape"));
  size_t bytes = c10::elementSize(dtype);
  for (const auto n : shape)
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(n), &bytes)) bytes = kMostPayload + 1;
  const auto data = payload.take(bytes);
  const auto tensor = at::empty(shape, at::TensorOptions(dtype));
  if (!data.empty()) std::memcpy(tensor.mutable_data_ptr(), data.data(), data.size());
  if (!json.contains("stride")) return tensor;
  const auto stride = json.at("stride").get<Sizes>();
  if (!is_dense(shape, stride)) throw Malformed("the strides " + json.at("stride").dump() + " are not dense");
  return at::empty_strided(shape, stride, tensor.options()).copy_(tensor);
}

Json write_placements(const Placements& placements) {
  return write_list(placements, [](const Placement& p) { return to_string(p); });
}

Placements read_placements(const Json& json) {
  Placements placements;
  for (const auto& text : json) placements.push_back(parse_placement(text.get<std::string>()));
  return placements;
}

Json write_mesh(const DeviceMesh& mesh) {
  Json json = {{"shape", mesh.shape()}, {"ranks", mesh.ranks()}};
  if (mesh.has_names()) json["names"] = mesh.names();
  return json;
}

DeviceMesh read_mesh(const Json& json) {
  return DeviceMesh(json.at("shape").get<Sizes>(), json.value("names", std::vector<std::string>()),
                    json.at("ranks").get<Sizes>());
}

Json write_spec(const Spec& spec, const DeviceMesh& mesh) {
  Json json = {{"dtype", dtype_name(spec.dtype())},
               {"shape", spec.shape()},
               {"stride", spec.stride()},
               {"placements", write_placements(spec.placements())}};
  if (!spec.default_order()) json["order"] = spec.order();
  if (spec.mesh() != mesh) json["mesh"] = write_mesh(spec.mesh());
  return json;
}

SpecPtr read_spec(const Json& json, const DeviceMesh& mesh) {
  auto shape = read_shape(json.at("shape"));
  auto stride = json.contains("stride") ? json.at("stride").get<Sizes>() : contiguous_strides(shape);
  if (stride.size() != shape.size()) throw Malformed("shape and stride have different lengths");
  return std::make_shared<const Spec>(json.contains("mesh") ? read_mesh(json.at("mesh")) : mesh,
                                      read_placements(json.at("placements")), std::move(shape),
                                      std::move(stride), parse_dtype(json.at("dtype").get<std::string>()),
                                      json.value("order", Sizes()));
}

Json write_double(double value) {
  if (std::isfinite(value)) return value;
  if (std::isinf(value)) return {{"float", value < 0 ? "-inf" : "inf"}};
  return {{"float", "nan:" + hex(std::bit_cast<uint64_t>(value))}};
}

double read_double(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const auto text = json.at("float").get<std::string>();
  if (text == "inf" || text == "-inf") return text == "inf" ? HUGE_VAL : -HUGE_VAL;
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (!text.starts_with("nan:")) throw Malformed("'" + text + "' is no number");
  return std::bit_cast<double>(read_hex(text.substr(4)));
}

// A string of JSON is Unicode; other bytes are told in hex.
static Json write_text(const std::string& text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return c > 0; })) return text;
  std::string digits;
  for (const char c : text)
    for (const int shift : {4, 0})
      digits += "0123456789abcdef"[(static_cast<unsigned char>(c) >> shift) & 15];
  return {{"text", digits}};
}

static std::string read_text(const Json& json) {
  const auto digits = json.get<std::string>();
  std::string text;
  for (size_t i = 0; i < digits.size(); i += 2)
    text += static_cast<char>(read_hex(std::string_view(digits).substr(i, 2)));
  return text;
}

// A plain tensor of one element, that an op took for a number.
static Json write_constant(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() != 1) return nullptr;
  try {
    parse_dtype(dtype_name(tensor.scalar_type()));
  } catch (const Error&) {  // one that has no name here
    return nullptr;
  }
  return {{"constant", write_plain(c10::IValue(tensor.item()))},
          {"dtype", dtype_name(tensor.scalar_type())},
          {"shape", tensor.sizes().vec()},
          {"number", tensor.unsafeGetTensorImpl()->is_wrapped_number()}};
}

static c10::IValue read_constant(const Json& json) {
  const auto dtype = parse_dtype(json.at("dtype").get<std::string>());
  const auto shape = read_shape(json.at("shape"));
  const auto& number = json.at("constant");
  const bool is_number = number.is_number() || number.is_boolean() || number.contains("float");
  if (shape.size() > 64 || c10::multiply_integers(shape) != 1 || !is_number)
    throw Malformed("a constant that is no number of one element");
  const auto value = number.is_object() ? c10::IValue(read_double(number)) : read_plain(number);
  try {
    const auto tensor = at::full(shape, value.toScalar(), dtype);
    if (json.at("number").get<bool>()) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
  } catch (const c10::Error&) {  // a number that the dtype does not hold
    throw Malformed("a constant that does not fit its dtype or shape");
  } catch (const std::runtime_error&) {
    throw Malformed("a constant that does not fit its dtype or shape");
  }
}

Json write_plain(const c10::IValue& value) {
  if (value.isTensor()) return write_constant(value.toTensor());
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return value.toInt();
  if (value.isDouble()) return write_double(value.toDouble());
  if (value.isString()) return write_text(value.toStringRef());
  if (value.isIntList()) return value.toIntVector();
  if (value.isDoubleList()) return {{"floats", write_list(value.toDoubleVector(), write_double)}};
  if (value.isBoolList()) {
    Json list = Json::array();
    for (const bool b : value.toBoolList()) list.push_back(b);
    return {{"bools", list}};
  }
  return value.isList() ? write_generic_list(value) : Json(nullptr);
}

c10::IValue read_plain(const Json& json) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) return json.get<Sizes>();
  if (json.contains("constant")) return read_constant(json);
  if (json.contains("text")) return read_text(json.at("text"));
  if (json.contains("scalars")) return read_scalars(json.at("scalars"));
  if (json.contains("bools")) return list_of<bool>(json.at("bools"));
  if (!json.contains("floats")) return read_double(json);
  std::vector<double> floats;
  for (const auto& item : json.at("floats")) floats.push_back(read_double(item));
  return floats;
}

}  // namespace lockstep::suites::wire
