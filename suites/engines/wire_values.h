// SPDX-License-Identifier: Apache-2.0
// What the messages of the wire are made of: tensors, placements, Specs, plain arguments. What is read is
// checked before memory is asked for; what does not fit throws Malformed, an Error or a JSON exception.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <string_view>

#include "engine/values/spec.h"
#include "suites/engines/wire.h"

namespace lockstep::suites::wire {

// The raw bytes of a message, taken from the front.
class Payload {
 public:
  explicit Payload(std::string_view bytes) : left_(bytes) {}
  std::string_view take(size_t bytes);
  // Throws Malformed if something is left.
  void finish() const;

 private:
  std::string_view left_;
};

// {"dtype","shape"} and, if it is not contiguous, "stride"; its elements go to `payload` row-major, whatever
// the strides.
Json write_tensor(const at::Tensor& tensor, std::string& payload);
// @post dense, of the stride that it names.
at::Tensor read_tensor(const Json& json, Payload& payload);

Json write_placements(const Placements& placements);  // ["S0","R"]
Placements read_placements(const Json& json);

// {"dtype","shape","stride","placements"}, "order" if not left to right, "mesh" if not `mesh`.
Json write_spec(const Spec& spec, const DeviceMesh& mesh);
SpecPtr read_spec(const Json& json, const DeviceMesh& mesh);

Json write_mesh(const DeviceMesh& mesh);  // {"shape","ranks"}, "names" if it has them
DeviceMesh read_mesh(const Json& json);

// All of the text is one number. Throws Malformed.
uint64_t read_hex(std::string_view text);

// A number that JSON has, or {"float":"inf"}, "-inf", "nan", "nan:<bits in hex>".
Json write_double(double value);
double read_double(const Json& json);

// An argument that is no tensor, or a plain one of one element. What has no form here (devices, generators,
// other tensors) becomes null.
Json write_plain(const c10::IValue& value);
c10::IValue read_plain(const Json& json);

template <class Items, class Write>
Json write_list(const Items& items, Write&& write) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(write(item));
  return list;
}

}  // namespace lockstep::suites::wire
