// SPDX-License-Identifier: Apache-2.0
#include "suites/train/text.h"

#include <ATen/Functions.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/values/error.h"

namespace lockstep::suites {
namespace {

std::string shipped_text() {
  for (const char* path : {LOCKSTEP_TEXT, LOCKSTEP_INSTALLED_TEXT})
    if (std::filesystem::exists(path)) return path;
  throw Error(concat("[train] the text that Lockstep ships is neither at ", LOCKSTEP_TEXT, " nor at ",
                     LOCKSTEP_INSTALLED_TEXT, "; pass --data FILE with any text"));
}

// splitmix64's finaliser: every bit of the result depends on every bit of the argument.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

std::string read_text(const std::string& path, size_t least) {
  const auto name = path.empty() ? shipped_text() : path;
  LOCKSTEP_CHECK(!std::filesystem::is_directory(name), "[train] ", name, " is a folder; name a text file");
  std::ifstream file(name, std::ios::binary);
  LOCKSTEP_CHECK(file, "[train] cannot read ", name, ": ", std::strerror(errno),
                 "; name a readable text file");
  std::string text;
  char buffer[65536];
  while (file.read(buffer, sizeof buffer), file.gcount() > 0)
    text.append(buffer, static_cast<size_t>(file.gcount()));
  LOCKSTEP_CHECK(!file.bad(), "[train] reading ", name, " failed: ", std::strerror(errno),
                 "; name a readable text file");
  LOCKSTEP_CHECK(text.size() >= least, "[train] ", name, " has ", text.size(), " bytes; one example needs ",
                 least, ": name a longer text, or ask for a shorter sequence");
  return text;
}

size_t example_start(uint64_t seed, int64_t step, int64_t index, size_t text_size, int64_t sequence) {
  const auto hash = mix(mix(mix(seed) ^ static_cast<uint64_t>(step)) ^ static_cast<uint64_t>(index));
  return static_cast<size_t>(hash % (text_size - static_cast<size_t>(sequence) + 1));
}

Batch make_batch(std::string_view text, uint64_t seed, int64_t step, int64_t batch, int64_t sequence) {
  Batch result{at::empty({batch, sequence}, at::kLong), at::empty({batch, sequence}, at::kLong)};
  auto* token = result.tokens.mutable_data_ptr<int64_t>();
  auto* target = result.targets.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < batch; ++i) {
    int64_t before = kBeginToken;
    for (const char c :
         text.substr(example_start(seed, step, i, text.size(), sequence), static_cast<size_t>(sequence))) {
      *token++ = before;
      *target++ = before = static_cast<unsigned char>(c);
    }
  }
  return result;
}

}  // namespace lockstep::suites
