// SPDX-License-Identifier: Apache-2.0
// An odometer over the pieces of a box's dimensions.
#include "kernels/stream_image.h"

#include <algorithm>

namespace lockstep {
int64_t first_index(const StreamBox& box) {
  int64_t first = 0;
  for (const auto& dim : box.dims) first += dim.pieces.front().start * dim.stride;
  return first;
}

int64_t last_index(const StreamBox& box) {
  int64_t last = 0;
  for (const auto& dim : box.dims) {
    const auto& piece = dim.pieces.back();
    last += (piece.start + piece.length - 1) * dim.stride;
  }
  return last;
}

int64_t elements(const StreamBox& box) {
  int64_t count = 1;
  for (const auto& dim : box.dims) {
    int64_t length = 0;
    for (const auto& piece : dim.pieces) length += piece.length;
    count *= length;
  }
  return count;
}

bool is_chain(std::span<const StreamBox> boxes) {
  for (size_t i = 1; i < boxes.size(); ++i)
    if (last_index(boxes[i - 1]) >= first_index(boxes[i]) ||
        boxes[i - 1].dims[0].local_stride != boxes[i].dims[0].local_stride)
      return false;
  return true;
}

RunCursor::RunCursor(std::span<const StreamBox> boxes) : boxes_(boxes) {
  enter_box(0);
}

void RunCursor::enter_box(size_t box) {
  box_ = box;
  if (done()) return;
  places_.assign(boxes_[box_].dims.size(), {});
  read();
}

bool RunCursor::step(size_t dim) {
  for (size_t d = 0; d < dim; ++d) places_[d] = {};
  const auto& dims = boxes_[box_].dims;
  for (; dim < dims.size(); ++dim) {
    Place& place = places_[dim];
    const auto& pieces = dims[dim].pieces;
    if (dim > 0 && ++place.at < pieces[place.piece].length) return true;
    place.at = 0;
    if (++place.piece < pieces.size()) return true;
    place.piece = 0;
  }
  return false;
}

void RunCursor::read() {
  const auto& box = boxes_[box_];
  run_ = {0, 0, box.offset, box.dims[0].local_stride};
  for (size_t d = 0; d < box.dims.size(); ++d) {
    const StreamDim& dim = box.dims[d];
    const StreamPiece& piece = dim.pieces[places_[d].piece];
    run_.first += (piece.start + places_[d].at) * dim.stride;
    run_.offset += (piece.local + places_[d].at) * dim.local_stride;
  }
  run_.last = run_.first + box.dims[0].pieces[places_[0].piece].length;
  single_piece_ = box.dims.size() > 1 && box.dims[0].pieces.size() == 1;
  if (!single_piece_) return;
  row_ = places_[1].at;
  rows_ = box.dims[1].pieces[places_[1].piece].length;
  row_stride_ = box.dims[1].stride;
  row_local_stride_ = box.dims[1].local_stride;
}

void RunCursor::next_slowly() {
  if (single_piece_) places_[1].at = row_;
  if (step(0))
    read();
  else
    enter_box(box_ + 1);
}

void RunCursor::seek(int64_t index) {
  const auto ends_after = [](int64_t j, const StreamBox& box) { return last_index(box) >= j; };
  const auto box = std::upper_bound(boxes_.begin(), boxes_.end(), index, ends_after);
  enter_box(static_cast<size_t>(box - boxes_.begin()));
  if (!done() && !seek_in_box(index)) enter_box(box_ + 1);
}

bool RunCursor::seek_in_box(int64_t index) {
  const auto& dims = boxes_[box_].dims;
  for (size_t d = dims.size(); d-- > 0;) {
    const int64_t at = index / dims[d].stride;
    index -= at * dims[d].stride;
    const auto& pieces = dims[d].pieces;
    const auto ends_after = [](int64_t i, const StreamPiece& p) { return i < p.start + p.length; };
    const auto piece = std::upper_bound(pieces.begin(), pieces.end(), at, ends_after);
    if (piece == pieces.end()) {  // this row has nothing more: the beginning of the next one that is held
      if (!step(d + 1)) return false;
      break;
    }
    places_[d] = {static_cast<size_t>(piece - pieces.begin()), 0};
    if (piece->start > at) break;
    if (d > 0) places_[d].at = at - piece->start;
  }
  read();
  return true;
}

}  // namespace lockstep
