// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/boxes.h"

#include <c10/util/accumulate.h>

#include <algorithm>

#include "engine/values/as_size.h"

namespace lockstep::dcp {
namespace {

// A box of a piece, and where it begins along each dimension of that.
struct Cut {
  Box box;
  std::vector<int64_t> at;
};

// One for each combination of the intervals along the dimensions.
std::vector<Cut> cuts(const Piece& piece) {
  std::vector<Cut> all{{}};
  for (const auto& list : piece.lists) {
    std::vector<Cut> longer;
    for (const auto& cut : all) {
      int64_t at = 0;
      for (const auto& interval : list) {
        auto& next = longer.emplace_back(cut);
        next.box.sides.push_back(interval);
        next.at.push_back(at);
        at += interval.length;
      }
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace

std::vector<int64_t> Box::shape() const {
  std::vector<int64_t> lengths;
  for (const auto& side : sides) lengths.push_back(side.length);
  return lengths;
}

int64_t Box::numel() const {
  return c10::multiply_integers(shape());
}

Box whole(const std::vector<int64_t>& shape) {
  Box box;
  for (const int64_t n : shape) box.sides.push_back({0, n});
  return box;
}

std::optional<Box> common(const Box& a, const Box& b) {
  Box both;
  for (size_t d = 0; d < a.sides.size(); ++d) {
    const auto &x = a.sides[d], &y = b.sides[d];
    const int64_t begin = std::max(x.start, y.start), end = std::min(x.start + x.length, y.start + y.length);
    if (begin >= end) return std::nullopt;
    both.sides.push_back({begin, end - begin});
  }
  return both;
}

at::Tensor part(const at::Tensor& tensor, const Box& of, const Box& box) {
  auto view = tensor;
  for (size_t d = 0; d < box.sides.size(); ++d)
    view = view.narrow(static_cast<int64_t>(d), box.sides[d].start - of.sides[d].start, box.sides[d].length);
  return view;
}

std::vector<Box> boxes(const Spec& spec, int64_t position) {
  std::vector<Box> all;
  for (const auto& piece : pieces(owned_by(spec, position)))
    for (auto& cut : cuts(piece)) all.push_back(std::move(cut.box));
  return all;
}

std::vector<at::Tensor> views(const at::Tensor& local, const Spec& spec, int64_t position) {
  std::vector<at::Tensor> all;
  for (const auto& piece : pieces(owned_by(spec, position))) {
    const auto shape = piece.shape();
    const auto dense =
        is_flat(spec) ? local.narrow(0, piece.start, c10::multiply_integers(shape)).view(shape) : local;
    for (const auto& cut : cuts(piece)) {
      auto view = dense;
      for (size_t d = 0; d < cut.at.size(); ++d)
        view = view.narrow(static_cast<int64_t>(d), cut.at[d], cut.box.sides[d].length);
      all.push_back(std::move(view));
    }
  }
  return all;
}

bool is_first(const Spec& spec, int64_t position) {
  const auto at = spec.mesh().coordinate(position);
  for (size_t d = 0; d < at.size(); ++d)
    if (!distributes(spec.placements()[d]) && at[d] != 0) return false;
  return true;
}

}  // namespace lockstep::dcp
