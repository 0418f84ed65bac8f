// SPDX-License-Identifier: Apache-2.0
// The fields of a protobuf message, as they stand in the bytes. Enough to read event files, and no more:
// numbers of fields are the caller's business.
#pragma once
#include <cstdint>
#include <string_view>

namespace lockstep::curves::protobuf {

enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  uint64_t number = 0;
  Wire wire = Wire::kVarint;
  uint64_t value = 0;        // of a varint or fixed field
  std::string_view bytes{};  // of a length-delimited one
};

// Walks over a message: while (m.next(f)) …; then m.whole() says whether the bytes were a message to the end.
// A group, a field number of 0 and a length beyond the end are not.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}
  bool next(Field& field);
  bool whole() const { return whole_; }

 private:
  bool varint(uint64_t& value);
  bool fixed(size_t width, uint64_t& value);
  std::string_view rest_;
  bool whole_ = true;
};

}  // namespace lockstep::curves::protobuf
