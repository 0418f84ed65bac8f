// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/safetensors.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/checkpoint/strict_json.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep::dcp {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors' numbers begin with their lowest byte");

constexpr int64_t kLengthBytes = 8, kMostHeader = 100'000'000;  // as the package `safetensors` has it

struct NamedDtype {
  const char* name;
  at::ScalarType dtype;
};
constexpr std::array kDtypes = std::to_array<NamedDtype>({{"F64", at::kDouble},
                                                          {"F32", at::kFloat},
                                                          {"F16", at::kHalf},
                                                          {"BF16", at::kBFloat16},
                                                          {"I64", at::kLong},
                                                          {"I32", at::kInt},
                                                          {"I16", at::kShort},
                                                          {"I8", at::kChar},
                                                          {"U8", at::kByte},
                                                          {"BOOL", at::kBool}});

// Closes itself.
class File {
 public:
  File(const std::string& path, int flags)
      : path_(path), descriptor_(open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666)) {
    if (descriptor_ < 0) fail("cannot be opened");
    struct stat status = {};
    const bool is_file = fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
    if (!is_file) close(descriptor_);
    LOCKSTEP_CHECK(is_file, "[checkpoint] ", path_, " is no file");  // a pipe would be waited for
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(concat("[checkpoint] ", path_, " ", what, ": ", std::strerror(errno)));
  }
  int64_t size() const {
    struct stat status = {};
    if (fstat(descriptor_, &status) != 0) fail("has no size");
    return status.st_size;
  }
  void read(void* to, int64_t bytes, int64_t at) const {
    for (auto* next = static_cast<char*>(to); bytes > 0;) {
      const auto got = pread(descriptor_, next, as_size(bytes), at);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("cannot be read");
      LOCKSTEP_CHECK(got > 0, "[checkpoint] ", path_, " ends at byte ", at, ", and ", bytes,
                     " more were to be read");
      next += got, at += got, bytes -= got;
    }
  }
  void write(const void* from, int64_t bytes) const {
    for (const auto* next = static_cast<const char*>(from); bytes > 0;) {
      const auto put = ::write(descriptor_, next, as_size(bytes));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail("cannot be written");
      next += put, bytes -= put;
    }
  }
  void sync() const {
    if (fsync(descriptor_) != 0) fail("cannot be written");
  }

 private:
  const std::string& path_;
  int descriptor_;
};

FileTensor entry(const std::string& who, const std::string& name, const Json& json, int64_t start,
                 int64_t size) {
  for (const char* field : {"dtype", "shape", "data_offsets"})
    LOCKSTEP_CHECK(json.is_object() && json.contains(field), who, " ", name, " has no ", field);
  const auto& dtype = json["dtype"];
  const auto known = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [&](const NamedDtype& d) { return dtype.is_string() && dtype == d.name; });
  LOCKSTEP_CHECK(known != kDtypes.end(), who, " ", name, " is of dtype ", dtype.dump(),
                 ", which there is not here");
  FileTensor tensor{name, known->dtype, sizes(who, json["shape"], "the shape of " + name), 0, 0};
  const auto offsets = sizes(who, json["data_offsets"], "data_offsets of " + name);
  LOCKSTEP_CHECK(offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= size - start, who, " ",
                 name, " lies at ", json["data_offsets"].dump(), " of ", size - start, " bytes");
  tensor.begin = start + offsets[0], tensor.end = start + offsets[1];
  const auto bytes = bytes_of(who, tensor.shape, c10::elementSize(tensor.dtype));
  LOCKSTEP_CHECK(bytes == tensor.end - tensor.begin, who, " ", name, " needs ", bytes, " bytes and has ",
                 tensor.end - tensor.begin);
  return tensor;
}

// They follow each other, and fill the file.
void check_order(const std::string& who, const std::vector<FileTensor>& tensors, int64_t start,
                 int64_t size) {
  int64_t end = start;
  for (const auto& tensor : tensors) {
    LOCKSTEP_CHECK(tensor.begin == end, who, " ", tensor.name, " begins at byte ", tensor.begin,
                   ", and what is before it ends at ", end);
    end = tensor.end;
  }
  LOCKSTEP_CHECK(end == size, who, " its tensors end at byte ", end, ", and the file at ", size);
}

}  // namespace

bool has_name(at::ScalarType dtype) {
  return std::any_of(kDtypes.begin(), kDtypes.end(), [&](const NamedDtype& d) { return d.dtype == dtype; });
}

FileHeader read_header(const std::string& path) {
  const auto who = concat("[checkpoint] ", path, " is no safetensors file:");
  const File file(path, O_RDONLY);
  const int64_t size = file.size();
  uint64_t length = 0;
  LOCKSTEP_CHECK(size >= kLengthBytes, who, " it has ", size, " bytes");
  file.read(&length, kLengthBytes, 0);
  LOCKSTEP_CHECK(length <= as_size(std::min(size - kLengthBytes, kMostHeader)), who,
                 " its header is said to be of ", length, " bytes, and the file is of ", size);
  std::string text(length, ' ');
  file.read(text.data(), static_cast<int64_t>(length), kLengthBytes);
  const auto json = parse_object(who, text);
  FileHeader header;
  const int64_t start = kLengthBytes + static_cast<int64_t>(length);
  for (const auto& [name, value] : json.items()) {
    if (name != "__metadata__") {
      header.tensors.push_back(entry(who, name, value, start, size));
      continue;
    }
    LOCKSTEP_CHECK(value.is_object(), who, " its __metadata__ is no object");
    for (const auto& [key, word] : value.items()) {
      LOCKSTEP_CHECK(word.is_string(), who, " its __metadata__ has ", key, ", which is no text");
      header.metadata[key] = word.get<std::string>();
    }
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const FileTensor& a, const FileTensor& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  check_order(who, header.tensors, start, size);
  return header;
}

at::Tensor read_tensor(const std::string& path, const FileTensor& tensor) {
  const File file(path, O_RDONLY);
  LOCKSTEP_CHECK(tensor.end <= file.size(), "[checkpoint] ", path, " has changed: it is too short for ",
                 tensor.name);
  const auto value = at::empty(tensor.shape, tensor.dtype);
  file.read(value.mutable_data_ptr(), tensor.end - tensor.begin, tensor.begin);
  return value;
}

void write_file(const std::string& path, const std::vector<NamedTensor>& tensors,
                const std::map<std::string, std::string>& metadata, Existing existing) {
  for (const auto& [key, word] : metadata) require_text(key + word, "metadata");
  Json json = Json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  // Those of wide elements first, so that each is aligned.
  auto sorted = tensors;
  std::stable_sort(sorted.begin(), sorted.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return a.value.element_size() > b.value.element_size();
  });
  std::vector<at::Tensor> values;
  int64_t end = 0;
  for (const auto& [name, value] : sorted) {
    const auto known =
        std::find_if(kDtypes.begin(), kDtypes.end(),
                     [&, dtype = value.scalar_type()](const NamedDtype& d) { return d.dtype == dtype; });
    LOCKSTEP_CHECK(known != kDtypes.end(), "[checkpoint] safetensors has no name for ", value.scalar_type(),
                   ", the dtype of ", name);
    LOCKSTEP_CHECK(name != "__metadata__" && !json.contains(name), "[checkpoint] two tensors of ", path,
                   " are called ", name);
    values.push_back(value.detach().resolve_neg().contiguous());
    const auto bytes = static_cast<int64_t>(values.back().nbytes());
    json[name] = {
        {"dtype", known->name}, {"shape", value.sizes().vec()}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  auto text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  LOCKSTEP_CHECK(length <= as_size(kMostHeader), "[checkpoint] the header of ", path, " would be of ", length,
                 " bytes, and readers take ", kMostHeader, "; save fewer tensors in one file");
  const bool replaces = existing == Existing::kReplaced;
  const auto begun = replaces ? path + ".new" : path;
  if (replaces) unlink(begun.c_str());  // what was left of one that did not end, or a link
  const File file(begun, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  try {
    file.write(&length, kLengthBytes);
    file.write(text.data(), static_cast<int64_t>(length));
    for (const auto& value : values) file.write(value.const_data_ptr(), static_cast<int64_t>(value.nbytes()));
    file.sync();
    if (replaces && std::rename(begun.c_str(), path.c_str()) != 0) file.fail("cannot be put in place");
  } catch (const Error&) {
    unlink(begun.c_str());
    throw;
  }
}

std::string read_text(const std::string& path, int64_t most) {
  const File file(path, O_RDONLY);
  const int64_t size = file.size();
  LOCKSTEP_CHECK(size <= most, "[checkpoint] ", path, " is of ", size,
                 " bytes, and none of its kind is of more than ", most);
  std::string text(as_size(size), ' ');
  file.read(text.data(), size, 0);
  return text;
}

}  // namespace lockstep::dcp
