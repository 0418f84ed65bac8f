// SPDX-License-Identifier: Apache-2.0
#include "engine/world/packing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "engine/values/as_size.h"

namespace lockstep {
namespace {

constexpr size_t kAligned = 16;  // elements begin at multiples of it, as those of any dtype may have to

bool holds(const std::vector<int64_t>& ranks, int64_t rank) {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

}  // namespace

// Every step is a bijection of the state, so that a change of one word is never lost.
uint64_t checksum(std::string_view text) {
  uint64_t sum = text.size();
  for (size_t at = 0; at < text.size(); at += sizeof sum) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    sum = (sum ^ word) * 0x9e3779b97f4a7c15;
    sum ^= sum >> 29;
  }
  return sum;
}

void Packer::number(int64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void Packer::text(std::string_view value) {
  number(std::ssize(value));
  bytes_ += value;
}

void Packer::tensor(const at::Tensor& value) {
  const auto dense = value.detach().contiguous();
  number(static_cast<int64_t>(dense.scalar_type()));
  number(dense.dim());
  for (const int64_t size : dense.sizes()) number(size);
  bytes_.resize((bytes_.size() + kAligned - 1) / kAligned * kAligned);
  if (dense.nbytes() > 0) bytes_.append(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
}

void Packer::posted(const Posted& value, const std::vector<int64_t>& ranks) {
  const auto& group = value.meeting.ranks;
  const auto theirs = [&](int64_t place) { return holds(ranks, group[as_size(place)]); };
  number(std::ssize(group));
  for (const int64_t rank : group) number(rank);
  number(value.meeting.number);
  number(value.place);
  text(value.post->op);
  for (int64_t place = 0; place < std::ssize(group); ++place) {
    number(theirs(place) ? 1 : 0);
    if (!theirs(place)) continue;
    text(value.post->asks[as_size(place)].sends);
    text(value.post->asks[as_size(place)].expects);
  }
  number(std::count_if(value.post->sent.begin(), value.post->sent.end(),
                       [&](const Parcel& parcel) { return theirs(parcel.place); }));
  for (const auto& parcel : value.post->sent)
    if (theirs(parcel.place)) number(parcel.place), tensor(parcel.tensor());
}

const char* Unpacker::take(int64_t bytes) {
  if (bytes < 0 || at_ + bytes > bytes_.numel())
    throw Broken(concat("[world] a message of ", bytes_.numel(), " bytes ends within what it says"));
  return static_cast<const char*>(bytes_.const_data_ptr()) + std::exchange(at_, at_ + bytes);
}

int64_t Unpacker::number() {
  int64_t value = 0;
  std::memcpy(&value, take(sizeof value), sizeof value);
  return value;
}

std::string Unpacker::text() {
  const int64_t size = number();
  return {take(size), as_size(size)};
}

at::Tensor Unpacker::tensor() {
  const auto dtype = static_cast<c10::ScalarType>(number());
  std::vector<int64_t> sizes(as_size(number()));
  for (auto& size : sizes) size = number();
  constexpr auto aligned = static_cast<int64_t>(kAligned);
  take((aligned - at_ % aligned) % aligned);
  const int64_t elements = c10::multiply_integers(sizes);
  const char* data = take(elements * static_cast<int64_t>(c10::elementSize(dtype)));
  if (elements == 0) return at::empty(sizes, dtype);
  return at::from_blob(
      const_cast<char*>(data), sizes, [bytes = bytes_](void*) {}, dtype);
}

Posted Unpacker::posted() {
  Posted value;
  value.meeting.ranks.resize(as_size(number()));
  for (auto& rank : value.meeting.ranks) rank = number();
  value.meeting.number = number();
  value.place = number();
  Post post;
  post.op = text();
  for (size_t place = 0; place < value.meeting.ranks.size(); ++place) {
    auto& ask = post.asks.emplace_back();
    ask.op = post.op;
    if (number() == 0) continue;
    ask.sends = text();
    ask.expects = text();
  }
  for (int64_t left = number(); left > 0; --left) {
    const int64_t place = number();
    post.sent.push_back({place, tensor()});
  }
  value.post = std::make_shared<const Post>(std::move(post));
  return value;
}

}  // namespace lockstep
