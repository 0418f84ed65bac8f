// SPDX-License-Identifier: Apache-2.0
// The framing of TensorBoard's event files: records, each with its length and two checksums.
//   u64 length · u32 masked crc32c of the length · data · u32 masked crc32c of the data, all little-endian
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::curves {

// CRC-32C (Castagnoli).
uint32_t crc32c(std::string_view bytes);
// A checksum as it is stored: rotated by 15 bits, plus a constant.
uint32_t masked(uint32_t crc);

class TfRecords {
 public:
  explicit TfRecords(const std::string& path);
  // False at the end, or where the file ends within a record: see cut_short. Throws Error with the offset for
  // a wrong checksum: what comes after it cannot be trusted.
  bool next(std::string& data);
  bool cut_short() const { return cut_short_; }
  int64_t count() const { return count_; }

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  uint64_t size_ = 0, offset_ = 0;
  int64_t count_ = 0;
  bool cut_short_ = false;
};

// True if the file begins with a record's head.
bool is_tfrecord(const std::string& path);

}  // namespace lockstep::curves
