// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/events.h"

#include <bit>

#include "ci/curves/protobuf.h"

namespace lockstep::curves {
namespace {

using protobuf::Field;
using protobuf::Message;
using protobuf::Wire;

// Numbers of fields.
constexpr uint64_t kEventWallTime = 1, kEventStep = 2, kEventSummary = 5, kSummaryValue = 1, kValueTag = 1,
                   kValueSimple = 2, kValueTensor = 8, kTensorDtype = 1, kTensorShape = 2, kTensorContent = 4,
                   kTensorFloats = 5, kTensorDoubles = 6, kTensorHalves = 13, kShapeDim = 2, kDimSize = 1;

// TensorFlow's DataType.
struct Dtype {
  uint64_t number;
  const char* name;
  size_t width;
  uint64_t values;  // the field that holds elements of it
};
constexpr Dtype kDtypes[] = {{1, "f32", 4, kTensorFloats},
                             {2, "f64", 8, kTensorDoubles},
                             {14, "bf16", 2, kTensorHalves},
                             {19, "f16", 2, kTensorHalves}};

uint64_t little(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

// False if malformed. `single` becomes false for a shape of other than one element.
bool read_shape(std::string_view bytes, bool& single) {
  Message shape(bytes);
  for (Field dim; shape.next(dim);) {
    if (dim.number != kShapeDim || dim.wire != Wire::kBytes) continue;
    uint64_t size = 0;  // proto3 leaves a zero out
    Message fields(dim.bytes);
    for (Field f; fields.next(f);)
      if (f.number == kDimSize && f.wire == Wire::kVarint) size = f.value;
    if (!fields.whole()) return false;
    single = single && size == 1;
  }
  return shape.whole();
}

// The one element in a field of elements, packed or not; empty if it holds another number of them.
std::optional<uint64_t> one_element(const Field& f, const Dtype& dtype) {
  if (f.wire != Wire::kBytes) return f.value;
  if (dtype.values != kTensorHalves)
    return f.bytes.size() == dtype.width ? std::optional(little(f.bytes)) : std::nullopt;
  uint64_t value = 0;
  for (size_t i = 0; i < f.bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(f.bytes[i]);
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) return i + 1 == f.bytes.size() ? std::optional(value & 0xffff) : std::nullopt;
    if (i == 8) break;
  }
  return std::nullopt;
}

// False if malformed; `out` is empty for what is no scalar of a floating dtype.
bool read_tensor(std::string_view bytes, std::optional<Number>& out) {
  uint64_t number = 0;
  bool single = true;
  Message tensor(bytes);
  for (Field f; tensor.next(f);) {
    if (f.number == kTensorDtype && f.wire == Wire::kVarint) number = f.value;
    if (f.number == kTensorShape && f.wire == Wire::kBytes && !read_shape(f.bytes, single)) return false;
  }
  if (!tensor.whole()) return false;
  for (const auto& dtype : kDtypes) {
    if (dtype.number != number || !single) continue;
    Message again(bytes);
    for (Field f; again.next(f);) {
      if (f.number == kTensorContent && f.wire == Wire::kBytes && f.bytes.size() == dtype.width)
        out = Number{little(f.bytes), dtype.name, 0, 0};
      if (f.number != dtype.values) continue;
      if (const auto bits = one_element(f, dtype)) out = Number{*bits, dtype.name, 0, 0};
    }
  }
  return true;
}

bool read_value(std::string_view bytes, Event& event) {
  std::string_view tag;
  std::optional<Number> number;
  bool other = false;
  Message value(bytes);
  for (Field f; value.next(f);) {
    if (f.number == kValueTag && f.wire == Wire::kBytes) {
      tag = f.bytes;
    } else if (f.number == kValueSimple && f.wire == Wire::kFixed32) {
      number = from_f32(static_cast<uint32_t>(f.value));
    } else if (f.number == kValueTensor && f.wire == Wire::kBytes) {
      if (!read_tensor(f.bytes, number)) return false;
      other = !number;
    } else if (f.number >= 3 && f.number <= 6) {
      other = true;
    }
  }
  if (number) event.scalars.push_back({tag, *number});
  if (other && !number) ++event.others;
  return value.whole();
}

}  // namespace

std::optional<Event> parse_event(std::string_view record) {
  Event event;
  Message fields(record);
  for (Field f; fields.next(f);) {
    if (f.number == kEventWallTime && f.wire == Wire::kFixed64)
      event.wall_time = std::bit_cast<double>(f.value);
    if (f.number == kEventStep && f.wire == Wire::kVarint) event.step = static_cast<int64_t>(f.value);
    if (f.number != kEventSummary || f.wire != Wire::kBytes) continue;
    Message summary(f.bytes);
    for (Field v; summary.next(v);)
      if (v.number == kSummaryValue && v.wire == Wire::kBytes && !read_value(v.bytes, event))
        return std::nullopt;
    if (!summary.whole()) return std::nullopt;
  }
  return fields.whole() ? std::optional(std::move(event)) : std::nullopt;
}

}  // namespace lockstep::curves
