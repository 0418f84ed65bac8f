// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/protobuf.h"

namespace lockstep::curves::protobuf {

bool Message::varint(uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return false;
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    if (shift == 63 && byte > 1) return false;  // beyond 64 bits
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool Message::fixed(size_t width, uint64_t& value) {
  if (rest_.size() < width) return false;
  value = 0;
  for (size_t i = 0; i < width; ++i) value |= uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
  rest_.remove_prefix(width);
  return true;
}

bool Message::next(Field& field) {
  if (rest_.empty() || !whole_) return false;
  uint64_t tag = 0, length = 0;
  whole_ = varint(tag) && tag >> 3 != 0;
  if (!whole_) return false;
  field = {.number = tag >> 3, .wire = static_cast<Wire>(tag & 7)};
  switch (field.wire) {
    case Wire::kVarint:
      return whole_ = varint(field.value);
    case Wire::kFixed64:
      return whole_ = fixed(8, field.value);
    case Wire::kFixed32:
      return whole_ = fixed(4, field.value);
    case Wire::kBytes:
      whole_ = varint(length) && length <= rest_.size();
      if (!whole_) return false;
      field.bytes = rest_.substr(0, length);
      rest_.remove_prefix(length);
      return true;
  }
  return whole_ = false;
}

}  // namespace lockstep::curves::protobuf
