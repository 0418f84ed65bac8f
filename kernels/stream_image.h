// SPDX-License-Identifier: Apache-2.0
// StreamImage: which elements of a random stream a local tensor holds, and where. An index function as data:
// boxes whose dimensions are lists of intervals. It knows nothing of placements; every layout comes to this.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

// Global indices [start, start + length) of a dimension, at local indices `local`, `local` + 1, …
struct StreamPiece {
  int64_t start = 0, length = 0, local = 0;
};

struct StreamDim {
  std::vector<StreamPiece> pieces;  // ascending by start, none empty
  int64_t stride = 1;               // of a global index, in the stream
  int64_t local_stride = 1;         // of a local index, in memory
};

// The product of its dimensions. The fastest in the stream comes first and has stride 1; each stride is a
// multiple of the one before it, and no smaller than what the dimension before it spans.
struct StreamBox {
  std::vector<StreamDim> dims;
  int64_t offset = 0;  // in memory, of local index 0
};
using StreamImage = std::vector<StreamBox>;

int64_t elements(const StreamBox& box);
// The first and the last element of the stream that a box holds.
int64_t first_index(const StreamBox& box);
int64_t last_index(const StreamBox& box);

// Elements [first, last) of the stream lie at offsets `offset`, `offset` + stride, … of local memory.
struct StreamRun {
  int64_t first = 0, last = 0;
  int64_t offset = 0, stride = 1;
};

// Whether one cursor can walk all boxes: each ends in the stream before the next begins, and all have the
// same local stride along a run.
bool is_chain(std::span<const StreamBox> boxes);

// Walks the runs of a chain of boxes in the order of the stream.
class RunCursor {
 public:
  explicit RunCursor(std::span<const StreamBox> boxes);
  bool done() const { return box_ == boxes_.size(); }
  // @pre !done()
  const StreamRun& run() const { return run_; }
  void next() {
    if (single_piece_ && row_ + 1 < rows_) {  // the next index of the second dimension
      ++row_;
      run_.first += row_stride_;
      run_.last += row_stride_;
      run_.offset += row_local_stride_;
    } else {
      next_slowly();
    }
  }
  // This run and those after it, as long as each lies row_stride() after the one before, and
  // row_local_stride() in memory; skip moves over so many of them.
  int64_t rows() const { return single_piece_ ? rows_ - row_ : 1; }
  int64_t row_stride() const { return row_stride_; }
  int64_t row_local_stride() const { return row_local_stride_; }
  void skip(int64_t count) {  // @pre 0 < count <= rows()
    if (single_piece_) row_ += count - 1;
    next_slowly();
  }
  // Moves to the first run that ends after `index`, forward or backward.
  void seek(int64_t index);

 private:
  struct Place {
    size_t piece = 0;
    int64_t at = 0;  // within the piece; 0 in the first dimension, whose pieces are runs
  };
  void next_slowly();
  void enter_box(size_t box);
  bool seek_in_box(int64_t index);
  // One step in dimension `dim` or, at its end, the ones after it; those before it begin anew.
  bool step(size_t dim);
  void read();

  std::span<const StreamBox> boxes_;
  size_t box_ = 0;
  std::vector<Place> places_;
  StreamRun run_;
  bool single_piece_ = false;
  int64_t row_ = 0, rows_ = 0, row_stride_ = 0, row_local_stride_ = 0;
};

}  // namespace lockstep
