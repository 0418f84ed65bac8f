// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/index.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <regex>
#include <set>
#include <sstream>

#include "engine/checkpoint/strict_json.h"
#include "engine/values/digest.h"
#include "engine/values/error.h"

namespace lockstep::dcp {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kVersion = 1, kMostIndex = 1'000'000'000;

// 0: the file is none of ours.
int64_t generation_of(const fs::path& file) {
  static const std::regex ours("model-g([0-9]{1,15})-[0-9]{5,}-of-[0-9]{5,}\\.safetensors");
  std::smatch match;
  const auto name = file.filename().string();
  return std::regex_match(name, match, ours) ? std::stoll(match[1]) : 0;
}

// Of the files in the folder, as far as they can be listed.
std::vector<fs::path> files_in(const std::string& folder) {
  std::vector<fs::path> all;
  std::error_code failed;
  for (auto file = fs::directory_iterator(folder, failed); !failed && file != fs::directory_iterator();
       file.increment(failed))
    all.push_back(file->path());
  return all;
}

std::string hex(uint64_t high, uint64_t low) {
  std::ostringstream text;
  text << std::hex << std::setfill('0') << std::setw(16) << high << std::setw(16) << low;
  return text.str();
}

std::string digest_of_text(const std::string& text) {
  return digest_of(
      at::from_blob(const_cast<char*>(text.data()), {static_cast<int64_t>(text.size())}, at::kByte));
}

void sync(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = descriptor >= 0 && fsync(descriptor) == 0;
  const int why = errno;
  if (descriptor >= 0) close(descriptor);
  LOCKSTEP_CHECK(done, "[checkpoint] ", path.string(), " cannot be written: ", std::strerror(why));
}

// A name within the folder.
std::string file_name(const std::string& who, const Json& json) {
  LOCKSTEP_CHECK(json.is_string(), who, " a file's name is ", json.dump());
  auto name = json.get<std::string>();
  const bool is_plain = !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
                        name.find('\0') == std::string::npos;
  LOCKSTEP_CHECK(is_plain, who, " ", json.dump(), " is no file of its folder");
  return name;
}

// Each tensor of a file as one piece. @returns what the file says beside them
Metadata add_file(Index& index, const fs::path& path) {
  auto header = read_header(path.string());
  for (const auto& tensor : header.tensors) {
    const auto said = header.metadata.find(kDigestOf + tensor.name);
    index.tensors.push_back(
        {tensor.name,
         tensor.dtype,
         tensor.shape,
         {{{path.string(), tensor.name, std::vector<int64_t>(tensor.shape.size()), tensor.shape},
           said == header.metadata.end() ? "" : said->second}}});
  }
  std::erase_if(header.metadata, [](const auto& said) { return said.first.starts_with(kDigestOf); });
  return header.metadata;
}

void sort_and_check(Index& index, const std::string& who) {
  std::sort(index.tensors.begin(), index.tensors.end(), [](auto& a, auto& b) { return a.name < b.name; });
  for (size_t i = 1; i < index.tensors.size(); ++i)
    LOCKSTEP_CHECK(index.tensors[i - 1].name != index.tensors[i].name, who, " ", index.tensors[i].name,
                   " is in two files");
}

// As Hugging Face's: files, and which has what.
Index of_weight_map(const fs::path& folder, const std::string& who, const Json& json) {
  LOCKSTEP_CHECK(json.contains("weight_map") && json["weight_map"].is_object(), who, " it has no weight_map");
  std::set<std::string> files;
  for (const auto& [name, file] : json["weight_map"].items()) files.insert(file_name(who, file));
  Index index;
  for (const auto& file : files) static_cast<void>(add_file(index, folder / file));
  sort_and_check(index, who);
  for (const auto& [name, file] : json["weight_map"].items()) {
    const auto* found = find_tensor(index, name);
    LOCKSTEP_CHECK(
        found != nullptr && fs::path(found->pieces[0].piece.file).filename() == file.get<std::string>(), who,
        " ", name, " is not in ", file.dump());
  }
  return index;
}

at::ScalarType dtype_of(const std::string& who, const std::string& name, const Json& json) {
  try {
    return parse_dtype(json.get<std::string>());
  } catch (const std::exception&) {
    throw Error(concat(who, " the dtype of ", name, " is ", json.dump(), ", which there is not here"));
  }
}

Json json_of(const Index& index) {
  Json weights = Json::object(), tensors = Json::object();
  int64_t bytes = 0;
  for (const auto& tensor : index.tensors) {
    Json pieces = Json::array();
    for (const auto& [piece, digest] : tensor.pieces) {
      weights[piece.key] = piece.file;
      pieces.push_back(
          {{"key", piece.key}, {"start", piece.start}, {"shape", piece.shape}, {"digest", digest}});
    }
    bytes += bytes_of("[checkpoint]", tensor.shape, c10::elementSize(tensor.dtype));
    tensors[tensor.name] = {
        {"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"pieces", std::move(pieces)}};
  }
  Json metadata = {{"total_size", bytes}, {"lockstep", kVersion}, {"generation", index.generation}};
  return {{"metadata", std::move(metadata)},
          {"user", index.metadata},
          {"weight_map", std::move(weights)},
          {"tensors", std::move(tensors)}};
}

IndexTensor tensor_of(const fs::path& folder, const std::string& who, const std::string& name,
                      const Json& json, const Json& weights) {
  IndexTensor tensor{
      name, dtype_of(who, name, json.at("dtype")), sizes(who, json.at("shape"), "the shape of " + name), {}};
  int64_t elements = 0;
  for (const auto& piece : json.at("pieces")) {
    const auto key = piece.at("key").get<std::string>();
    tensor.pieces.push_back({{(folder / file_name(who, weights.at(key))).string(), key,
                              sizes(who, piece.at("start"), "the start of " + key),
                              sizes(who, piece.at("shape"), "the shape of " + key)},
                             piece.at("digest").get<std::string>()});
    const auto& [start, shape] =
        std::pair(tensor.pieces.back().piece.start, tensor.pieces.back().piece.shape);
    bool within = start.size() == tensor.shape.size() && shape.size() == tensor.shape.size();
    for (size_t d = 0; within && d < shape.size(); ++d)
      within = shape[d] <= tensor.shape[d] && start[d] <= tensor.shape[d] - shape[d];
    LOCKSTEP_CHECK(within, who, " the piece ", key, " is none of ", name);
    LOCKSTEP_CHECK(!__builtin_add_overflow(elements, bytes_of(who, shape, 1), &elements), who,
                   " the pieces of ", name, " have no size");
  }
  LOCKSTEP_CHECK(elements == bytes_of(who, tensor.shape, 1), who, " the pieces of ", name, " have ", elements,
                 " elements, and not as many as it");
  return tensor;
}

// Ours: whatever has changed since it was written is told by its digest.
Index of_pieces(const fs::path& folder, const std::string& who, Json json) {
  const auto said = json.value("digest", Json());
  json.erase("digest");
  LOCKSTEP_CHECK(said.is_string() && said == digest_of_text(json.dump()), who,
                 " it has changed since it was written");
  Index index;
  try {
    const auto version = json.at("metadata").at("lockstep").get<int64_t>();
    LOCKSTEP_CHECK(version == kVersion, who, " it is of version ", version, ", and this Lockstep reads ",
                   kVersion, "; use the Lockstep that wrote it");
    index.digest = said.get<std::string>();
    index.generation = json.at("metadata").at("generation").get<int64_t>();
    index.metadata = json.at("user").get<Metadata>();
    for (const auto& [name, tensor] : json.at("tensors").items())
      index.tensors.push_back(tensor_of(folder, who, name, tensor, json.at("weight_map")));
  } catch (const Json::exception& e) {
    throw Error(concat(who, " ", e.what()));
  }
  return index;
}

std::string who_is(const fs::path& path) {
  return concat("[checkpoint] ", path.string(), " is no index of a checkpoint:");
}

}  // namespace

std::string digest_of(const at::Tensor& piece) {
  const auto d = digest(piece);
  return hex(d.hi, d.lo);
}

void write_index(const std::string& folder, const Index& index) {
  auto json = json_of(index);
  json["digest"] = digest_of_text(json.dump());
  const auto path = fs::path(folder) / kIndexName;
  const auto begun = path.string() + ".new";
  std::error_code none;
  fs::remove(begun, none);  // what a save that did not end has left, or a link
  {
    const auto text = json.dump() + "\n";
    LOCKSTEP_CHECK(std::ssize(text) <= kMostIndex, "[checkpoint] the index would be of ", text.size(),
                   " bytes, and readers take ", kMostIndex, "; save in several folders");
    std::ofstream file(begun, std::ios::binary | std::ios::trunc);
    file << text;
    LOCKSTEP_CHECK(file.flush(), "[checkpoint] ", begun, " cannot be written: ", std::strerror(errno));
  }
  sync(begun);
  sync(folder);  // the files that it names
  std::error_code failed;
  fs::rename(begun, path, failed);
  LOCKSTEP_CHECK(!failed, "[checkpoint] ", path.string(), " cannot be written: ", failed.message());
  sync(folder);
}

Index read_index(const std::string& path) {
  const auto folder = fs::path(path);
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) {
    LOCKSTEP_CHECK(fs::exists(folder, failed), "[checkpoint] there is no ", path,
                   "; name the folder of a checkpoint, or a safetensors file");
    Index index;
    index.metadata = add_file(index, folder);
    sort_and_check(index, who_is(folder));
    return index;
  }
  const auto file = folder / kIndexName;
  if (!fs::exists(file, failed)) {
    const auto only = folder / "model.safetensors";
    LOCKSTEP_CHECK(fs::exists(only, failed), "[checkpoint] ", path, " has neither ", kIndexName,
                   " nor model.safetensors");
    return read_index(only.string());
  }
  const auto who = who_is(file);
  const auto text = read_text(file.string(), kMostIndex);
  auto json = parse_object(who, text);
  const auto& metadata = json.contains("metadata") ? json["metadata"] : json;
  const bool is_ours = json.contains("tensors") || json.contains("digest") || json.contains("user") ||
                       (metadata.is_object() && metadata.contains("lockstep"));
  if (is_ours) return of_pieces(folder, who, std::move(json));
  auto index = of_weight_map(folder, who, json);
  index.digest = digest_of_text(text);
  return index;
}

std::string file_of(int64_t generation, int64_t rank, int64_t ranks) {
  std::ostringstream name;
  name << "model-g" << generation << '-' << std::setfill('0') << std::setw(5) << rank + 1 << "-of-"
       << std::setw(5) << ranks << ".safetensors";
  return name.str();
}

int64_t last_generation(const std::string& folder) {
  int64_t last = 0;
  for (const auto& file : files_in(folder)) last = std::max(last, generation_of(file));
  return last;
}

void keep_generation(const std::string& folder, int64_t generation) {
  std::error_code ignored;  // what stays is in nobody's way
  for (const auto& file : files_in(folder))
    if (const auto of = generation_of(file); of > 0 && of != generation) fs::remove(file, ignored);
}

const IndexTensor* find_tensor(const Index& index, const std::string& name) {
  const auto found = std::lower_bound(index.tensors.begin(), index.tensors.end(), name,
                                      [](const IndexTensor& t, const std::string& n) { return t.name < n; });
  return found != index.tensors.end() && found->name == name ? &*found : nullptr;
}

void make_folder(const std::string& folder) {
  std::error_code failed;
  LOCKSTEP_CHECK(!fs::exists(fs::path(folder) / "model.safetensors", failed), "[checkpoint] ", folder,
                 " has a model.safetensors, which readers would take for what is saved; name another folder");
  const bool is_new = fs::create_directories(folder, failed);
  LOCKSTEP_CHECK(!failed && fs::is_directory(folder, failed), "[checkpoint] ", folder,
                 " cannot be made: ", failed ? failed.message() : "there is a file of that name");
  if (is_new) sync(fs::absolute(folder).lexically_normal().parent_path());
}

}  // namespace lockstep::dcp
