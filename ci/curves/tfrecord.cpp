// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/tfrecord.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "engine/values/error.h"

namespace lockstep::curves {
namespace {

constexpr size_t kHead = 12, kTail = 4;
constexpr uint64_t kLongest = uint64_t{1} << 30;

std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);  // the polynomial, reflected
    table[i] = c;
  }
  return table;
}

template <class T>
T little(const char* bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= T{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

bool head_holds(const char* head) {
  return masked(crc32c({head, 8})) == little<uint32_t>(head + 8);
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static const auto table = make_table();
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  return ~crc;
}

uint32_t masked(uint32_t crc) {
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

TfRecords::TfRecords(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "rb")) {
  struct stat found {};
  LOCKSTEP_CHECK(file_ && fstat(fileno(file_.get()), &found) == 0, "[curves] ", path, ": ",
                 std::strerror(errno), "; name an event file that can be read");
  LOCKSTEP_CHECK(S_ISREG(found.st_mode), "[curves] ", path,
                 " is no file; event files are read from the disk");
  size_ = static_cast<uint64_t>(found.st_size);
}

bool TfRecords::next(std::string& data) {
  if (cut_short_ || offset_ == size_) return false;
  const auto damaged = [&](const char* what) {
    return concat("[curves] ", path_, ": the checksum of the ", what, " of record ", count_ + 1, " at byte ",
                  offset_, " is wrong; the file is damaged, or no event file: copy it again");
  };
  char head[kHead];
  cut_short_ = std::fread(head, 1, kHead, file_.get()) != kHead;
  if (cut_short_) return false;
  LOCKSTEP_CHECK(head_holds(head), damaged("length"));
  const auto length = little<uint64_t>(head);
  LOCKSTEP_CHECK(length <= kLongest, "[curves] ", path_, ": record ", count_ + 1, " claims ", length,
                 " bytes; event records are below 1 GiB");
  cut_short_ = length + kTail > size_ - offset_ - kHead;
  if (cut_short_) return false;
  data.resize(length);
  char tail[kTail];
  cut_short_ = std::fread(data.data(), 1, length, file_.get()) != length ||
               std::fread(tail, 1, kTail, file_.get()) != kTail;
  if (cut_short_) return false;
  LOCKSTEP_CHECK(masked(crc32c(data)) == little<uint32_t>(tail), damaged("data"));
  offset_ += kHead + length + kTail;
  ++count_;
  return true;
}

bool is_tfrecord(const std::string& path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  char head[kHead];
  return file && std::fread(head, 1, kHead, file.get()) == kHead && head_holds(head);
}

}  // namespace lockstep::curves
