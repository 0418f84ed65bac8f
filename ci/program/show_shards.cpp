// SPDX-License-Identifier: Apache-2.0
// lockstep show shards PATH
#include <c10/util/accumulate.h>

#include <filesystem>
#include <map>

#include "ci/program/show.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "engine/values/text.h"

namespace lockstep::program {
namespace {

using Json = nlohmann::json;

std::string shape_text(const std::vector<int64_t>& shape) {
  return shape.empty() ? "()" : join(shape, 'x');
}

struct Sums {
  int64_t pieces = 0, bytes = 0;
  std::map<std::string, int64_t> files;  // the bytes of each
};

Json to_json(const dcp::SavedTensor& tensor, Sums& sums) {
  Json pieces = Json::array();
  for (const auto& piece : tensor.pieces) {
    const auto bytes =
        c10::multiply_integers(piece.shape) * static_cast<int64_t>(c10::elementSize(tensor.dtype));
    const auto file = std::filesystem::path(piece.file).filename().string();
    ++sums.pieces, sums.bytes += bytes, sums.files[file] += bytes;
    pieces.push_back({{"file", file},
                      {"key", piece.key},
                      {"start", piece.start},
                      {"shape", piece.shape},
                      {"bytes", bytes}});
  }
  return {{"name", tensor.name},
          {"dtype", dtype_name(tensor.dtype)},
          {"shape", tensor.shape},
          {"pieces", std::move(pieces)}};
}

std::string text_of(const dcp::SavedTensor& tensor) {
  auto text = concat(tensor.name, "  ", dtype_name(tensor.dtype), "[", shape_text(tensor.shape), "]");
  for (const auto& piece : tensor.pieces) {
    const bool is_whole = piece.shape == tensor.shape;
    text += concat("\n  ",
                   is_whole ? "whole" : concat(shape_text(piece.shape), " from ", shape_text(piece.start)),
                   "  ", std::filesystem::path(piece.file).filename().string());
  }
  return text;
}

}  // namespace

Shown show_shards(const ShowRequest& request) {
  const auto contents = dcp::contents(request.path);
  Sums sums;
  Json tensors = Json::array();
  std::string text;
  for (const auto& tensor : contents.tensors) {
    tensors.push_back(to_json(tensor, sums));
    text += concat("\n", text_of(tensor));
  }
  auto head = concat(request.path, ": ", contents.tensors.size(), " tensors in ", sums.pieces, " pieces, ",
                     sums.bytes, " bytes in ", sums.files.size(), " files");
  Json json = {{"tensors", std::move(tensors)},
               {"metadata", contents.metadata},
               {"files", sums.files},
               {"bytes", sums.bytes},
               {"verified", nullptr}};
  if (request.verify) {
    const auto digests = dcp::verify(request.path);
    json["verified"] = digests;
    head += concat("\nread all of it: ", digests, " pieces are what was saved",
                   digests == sums.pieces
                       ? ""
                       : concat(", of ", sums.pieces - digests, " nobody has said what that was"));
  }
  for (const auto& [name, value] : contents.metadata) head += concat("\n", name, ": ", value);
  return {head + text, std::move(json)};
}

}  // namespace lockstep::program
