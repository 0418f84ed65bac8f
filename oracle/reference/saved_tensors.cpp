// SPDX-License-Identifier: Apache-2.0
#include "oracle/reference/saved_tensors.h"

#include <ATen/ATen.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "engine/values/error.h"

namespace lockstep::oracle {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Shape = std::vector<int64_t>;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  LOCKSTEP_CHECK(file.good(), "[oracle] there is no ", path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

at::ScalarType dtype_of(const std::string& name) {
  static const std::map<std::string, at::ScalarType> all = {
      {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf},  {"BF16", at::kBFloat16},
      {"I64", at::kLong},   {"I32", at::kInt},   {"I16", at::kShort}, {"I8", at::kChar},
      {"U8", at::kByte},    {"BOOL", at::kBool}};
  return all.at(name);
}

std::map<std::string, at::Tensor> tensors_of(const fs::path& path) {
  const auto bytes = text_of(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  std::map<std::string, at::Tensor> tensors;
  const auto header = Json::parse(bytes.substr(sizeof length, length));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    auto tensor = at::empty(entry.at("shape").get<Shape>(), dtype_of(entry.at("dtype")));
    const auto begin = sizeof length + length + entry.at("data_offsets").at(0).get<uint64_t>();
    if (tensor.nbytes() > 0)
      std::memcpy(tensor.mutable_data_ptr(), bytes.substr(begin, tensor.nbytes()).data(), tensor.nbytes());
    tensors.emplace(name, tensor);
  }
  return tensors;
}

at::Tensor within(at::Tensor whole, const Shape& start, const Shape& shape) {
  for (size_t d = 0; d < shape.size(); ++d) whole = whole.narrow(static_cast<int64_t>(d), start[d], shape[d]);
  return whole;
}

}  // namespace

SavedTensors read_saved(const std::string& folder) {
  std::map<std::string, std::map<std::string, at::Tensor>> files;
  SavedTensors saved;
  for (const auto& file : fs::directory_iterator(folder))
    if (file.path().extension() == ".safetensors")
      saved.unlisted += std::ssize(files[file.path().filename().string()] = tensors_of(file.path()));
  const auto index = Json::parse(text_of(fs::path(folder) / "model.safetensors.index.json"));
  for (const auto& [name, tensor] : index.at("tensors").items()) {
    const auto shape = tensor.at("shape").get<Shape>();
    auto& times = saved.times[name] = at::zeros(shape, at::kLong);
    auto& value = saved.values[name];
    for (const auto& piece : tensor.at("pieces")) {
      const auto& key = piece.at("key");
      const auto& part = files.at(index.at("weight_map").at(key)).at(key);
      const auto start = piece.at("start").get<Shape>();
      if (!value.defined()) value = at::zeros(shape, part.scalar_type());
      within(value, start, part.sizes().vec()).copy_(part);
      within(times, start, part.sizes().vec()).add_(1);
      --saved.unlisted;
    }
  }
  return saved;
}

}  // namespace lockstep::oracle
