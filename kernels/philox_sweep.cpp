// SPDX-License-Identifier: Apache-2.0
// Grid-stride launches: within one draw of all threads, a cursor for each lane walks its part of the image,
// and blocks are cut wherever a lane begins or ends. Vectors: run by run.
#include "kernels/philox_sweep.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace lockstep {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

class Sweep {
 public:
  Sweep(const PhiloxPlan& plan, int lanes, const std::function<void(PhiloxBatch&)>& flush)
      : plan_(plan), lanes_(lanes), flush_(flush) {
    batch_.segments.reserve(kPhiloxBatch);
    batch_.block_words = plan.width == 1 ? lanes : std::min<int64_t>(plan.width, 4);
  }

  void chain(std::span<const StreamBox> boxes) {
    batch_.stride = boxes[0].dims[0].local_stride;
    for (const PhiloxLaunch& launch : plan_.launches) {
      if (plan_.width > 1 || launch.threads == 1) {
        flush();
        vectors(launch, boxes);
        flush();
      } else if (by_element_) {
        elements(launch, boxes);
      } else {
        blocks(launch, boxes);
      }
    }
    flush();
    places_of_ = 0;
  }

  // Some blocks of one draw.
  void sample(const PhiloxLaunch& launch, int64_t draw, std::span<const StreamBox> boxes) {
    limit_ = 4 * kPhiloxBatch;
    one_draw(launch, draw, boxes);
    flush();
  }

  void by_element(bool on) { by_element_ = on; }

 private:
  static RunCursor cursor_at(const PhiloxLaunch& launch, std::span<const StreamBox> boxes) {
    RunCursor cursor(boxes);
    cursor.seek(launch.first);
    return cursor;
  }
  static bool serves(const PhiloxLaunch& launch, const RunCursor& cursor) {
    return !cursor.done() && cursor.run().first < launch.first + launch.count;
  }

  void flush() {
    batch_.lanes |= places_of_;
    if (batch_.count > 0) flush_(batch_);
    limit_ -= batch_.count;
    batch_.count = 0;
    batch_.lanes = 0;
    batch_.segments.clear();
    batch_.vectors.clear();
  }

  void put_one(uint64_t counter, uint64_t subsequence) {
    auto& word = batch_.words.word;
    word[0][batch_.count] = static_cast<uint32_t>(counter);
    word[1][batch_.count] = static_cast<uint32_t>(counter >> 32);
    word[2][batch_.count] = static_cast<uint32_t>(subsequence);
    word[3][batch_.count] = static_cast<uint32_t>(subsequence >> 32);
    ++batch_.count;
  }

  // Blocks of subsequences at a distance go to the end of the batch. @pre there is room
  void put(uint64_t counter, uint64_t subsequence, uint64_t step, int64_t count) {
    constexpr int64_t kFew = 8;  // too few for vector instructions
    if (count < kFew) {
      for (int64_t i = 0; i < count; ++i) put_one(counter, subsequence + static_cast<uint64_t>(i) * step);
      return;
    }
    auto& word = batch_.words.word;
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t s = subsequence + static_cast<uint64_t>(i) * step;
      const int64_t at = batch_.count + i;
      word[0][at] = static_cast<uint32_t>(counter);
      word[1][at] = static_cast<uint32_t>(counter >> 32);
      word[2][at] = static_cast<uint32_t>(s);
      word[3][at] = static_cast<uint32_t>(s >> 32);
    }
    batch_.count += count;
  }
  void put(const PhiloxLaunch& launch, int64_t draw, int64_t thread, int64_t count) {
    put(launch.counter + static_cast<uint64_t>(draw), launch.subsequence + static_cast<uint64_t>(thread), 1,
        count);
  }

  // Threads [begin, end) of a draw; lane l of the first goes to offset[l].
  void add(const PhiloxLaunch& launch, int64_t draw, int64_t begin, int64_t end, LaneSegment& segment) {
    if (places_of_ != 0) {
      flush();
      places_of_ = 0;
    }
    for (;;) {
      if (batch_.count == kPhiloxBatch) flush();
      const int64_t count = std::min(end - begin, kPhiloxBatch - batch_.count);
      segment.block = static_cast<int32_t>(batch_.count);
      segment.count = static_cast<int32_t>(count);
      batch_.lanes |= segment.lanes;
      batch_.segments.push_back(segment);
      put(launch, draw, begin, count);
      begin += count;
      if (begin == end) return;
      for (size_t l = 0; l < 4; ++l)
        if (segment.lanes >> l & 1) segment.offset[l] += count * batch_.stride;
    }
  }

  // One block for each element, lane after lane.
  void elements(const PhiloxLaunch& launch, std::span<const StreamBox> boxes) {
    Window window{launch.first, launch.first};
    for (RunCursor cursor = cursor_at(launch, boxes); serves(launch, cursor);) {
      const StreamRun& run = cursor.run();
      const int64_t first = std::max(run.first, launch.first);
      const int64_t last = std::min(run.last, launch.first + launch.count);
      if (first >= window.last) enter(launch, first, window);
      const bool cut = last > window.last || run.first < window.first || last < run.last;
      if (!cut) {
        int64_t rows = 1;
        if (cursor.rows() > 1) rows = std::min(cursor.rows(), (window.last - last) / cursor.row_stride() + 1);
        put_rows(window, run, run.first, run.last, rows, cursor);
        cursor.skip(rows);
        continue;
      }
      for (int64_t j = first; j < last;) {
        if (j >= window.last) enter(launch, j, window);
        const int64_t end = std::min(last, window.last);
        put_rows(window, run, j, end, 1, cursor);
        j = end;
      }
      cursor.next();
    }
    flush();
    places_of_ = 0;
  }

  // Elements [first, last) of the stream, one lane of one draw.
  struct Window {
    int64_t first, last;
    uint64_t counter = 0, subsequence = 0;  // of the first element
  };

  void enter(const PhiloxLaunch& launch, int64_t element, Window& window) {
    flush();
    const int64_t row = (element - launch.first) / launch.threads;
    window.first = launch.first + row * launch.threads;
    window.last = std::min(window.first + launch.threads, launch.first + launch.count);
    window.counter = launch.counter + static_cast<uint64_t>(row / lanes_);
    window.subsequence = launch.subsequence;
    places_of_ = 1u << (row % lanes_);
  }

  // Elements [first, last) of a run, and of the ones like it after it. @pre all lie in the window
  void put_rows(const Window& window, const StreamRun& run, int64_t first, int64_t last, int64_t rows,
                const RunCursor& cursor) {
    Rows r{window.counter,
           window.subsequence + static_cast<uint64_t>(first - window.first),
           last - first,
           rows,
           cursor.row_stride(),
           run.stride,
           cursor.row_local_stride(),
           {}};
    for (int64_t& offset : r.offset) offset = run.offset + (first - run.first) * run.stride;
    put_rows(r);
  }

  // Blocks of `width` threads, and `rows` times the same at a distance, with one place for each lane wanted.
  struct Rows {
    uint64_t counter, subsequence;
    int64_t width, rows, row_stride, stride, row_local_stride;
    int64_t offset[4];
  };
  void put_rows(Rows r) {
    constexpr int64_t kFew = 8;  // too few for vector instructions along a row
    if (r.width == 1) return put_places(r, static_cast<uint64_t>(r.row_stride), r.row_local_stride, r.rows);
    if (r.width < kFew) return put_short_rows(r);
    for (int64_t row = 0; row < r.rows; ++row) {
      put_places(r, 1, r.stride, r.width);
      r.subsequence += static_cast<uint64_t>(r.row_stride);
      for (int64_t& offset : r.offset) offset += r.row_local_stride;
    }
  }

  void put_short_rows(const Rows& r) {
    for (int64_t done = 0; done < r.rows;) {
      if (batch_.count + r.width > kPhiloxBatch) flush();
      const int64_t rows = std::min(r.rows - done, (kPhiloxBatch - batch_.count) / r.width);
      for (uint32_t lanes = places_of_; lanes != 0; lanes &= lanes - 1) {
        const auto lane = static_cast<size_t>(std::countr_zero(lanes));
        int64_t* place = batch_.place[lane] + batch_.count;
        const int64_t offset = r.offset[lane] + done * r.row_local_stride;
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t i = 0; i < r.width; ++i) *place++ = offset + row * r.row_local_stride + i * r.stride;
      }
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < r.width; ++i)
          put_one(r.counter, r.subsequence + static_cast<uint64_t>((done + row) * r.row_stride + i));
      done += rows;
    }
  }

  // `count` blocks whose subsequences and whose lanes' places lie at regular distances.
  void put_places(const Rows& r, uint64_t step, int64_t local_step, int64_t count) {
    for (int64_t done = 0; done < count;) {
      if (batch_.count == kPhiloxBatch) flush();
      const int64_t n = std::min(count - done, kPhiloxBatch - batch_.count);
      for (size_t l = 0; l < 4; ++l) {
        if ((places_of_ >> l & 1) == 0) continue;
        int64_t* const place = batch_.place[l] + batch_.count;
        for (int64_t i = 0; i < n; ++i) place[i] = r.offset[l] + (done + i) * local_step;
      }
      put(r.counter, r.subsequence + step * static_cast<uint64_t>(done), step, n);
      done += n;
    }
  }

  // Each block once.
  void blocks(const PhiloxLaunch& launch, std::span<const StreamBox> boxes) {
    const int64_t per_draw = launch.threads * lanes_;
    int64_t next = 0;  // draw
    RunCursor cursor = cursor_at(launch, boxes);
    while (serves(launch, cursor) && next * per_draw < launch.count) {
      const int64_t draw = std::max((cursor.run().first - launch.first) / per_draw, next);
      one_draw(launch, draw, boxes);
      next = draw + 1;
      cursor.seek(launch.first + next * per_draw);
    }
  }

  struct Lane {
    RunCursor cursor;
    int64_t base = 0, end = 0;         // in the stream
    int64_t begin_at = 0, end_at = 0;  // of the current run, as threads; kNever: no more
    void read() {
      begin_at = end_at = kNever;
      if (base >= end || cursor.done() || cursor.run().first >= end) return;
      begin_at = std::max(cursor.run().first, base) - base;
      end_at = std::min(cursor.run().last, end) - base;
    }
    int64_t offset(int64_t thread) const {
      const StreamRun& run = cursor.run();
      return run.offset + (base + thread - run.first) * run.stride;
    }
    // This run and those like it after it, if they are whole.
    int64_t rows() const {
      const StreamRun& run = cursor.run();
      if (cursor.rows() == 1 || run.first < base || run.last > end) return 1;
      return std::min(cursor.rows(), (end - run.last) / cursor.row_stride() + 1);
    }
  };

  void one_draw(const PhiloxLaunch& launch, int64_t draw, std::span<const StreamBox> boxes) {
    std::vector<Lane>& lane = lane_state_;
    while (static_cast<int>(lane.size()) < lanes_) lane.push_back({RunCursor(boxes)});
    for (int l = 0; l < lanes_; ++l) {
      Lane& it = lane[static_cast<size_t>(l)];
      it.base = launch.first + (draw * lanes_ + l) * launch.threads;
      it.end = std::min(it.base + launch.threads, launch.first + launch.count);
      it.cursor.seek(it.base);
      it.read();
    }
    for (int64_t thread = 0;;) {
      int64_t begin = kNever, end = kNever;
      for (const Lane& it : lane) begin = std::min(begin, std::max(it.begin_at, thread));
      if (begin == kNever || limit_ <= 0) return;
      LaneSegment segment{};
      for (size_t l = 0; l < lane.size(); ++l) {
        if (lane[l].begin_at > begin) {
          end = std::min(end, lane[l].begin_at);
        } else {
          end = std::min(end, lane[l].end_at);
          segment.lanes |= 1u << l;
          segment.offset[l] = lane[l].offset(begin);
        }
      }
      constexpr int64_t kShort = 16;
      const int64_t rows = end - begin < kShort ? equal_rows(begin, end) : 1;
      if (rows > 1)
        add_rows(launch, draw, begin, end, segment, rows);
      else
        add(launch, draw, begin, end, segment);
      for (Lane& it : lane)
        if (it.end_at == end) {
          it.cursor.skip(rows);
          it.read();
        }
      thread = end;  // of the first row: no lane begins before the last one ends
    }
  }

  // How often the threads [begin, end) occur again at one distance, with the same lanes wanted.
  int64_t equal_rows(int64_t begin, int64_t end) const {
    int64_t rows = kNever, stride = 0;
    for (const Lane& it : lane_state_) {
      if (it.begin_at > begin) continue;
      if (it.begin_at < begin || it.end_at > end) return 1;
      if (stride != 0 && it.cursor.row_stride() != stride) return 1;
      rows = std::min(rows, it.rows());
      stride = it.cursor.row_stride();
    }
    for (const Lane& it : lane_state_)
      if (it.begin_at > begin && it.begin_at != kNever && rows > 1)
        rows = std::min(rows, (it.begin_at - end) / stride + 1);
    return rows;
  }

  void add_rows(const PhiloxLaunch& launch, int64_t draw, int64_t begin, int64_t end,
                const LaneSegment& first, int64_t rows) {
    if (places_of_ != first.lanes) {
      flush();
      places_of_ = first.lanes;
    }
    const RunCursor& cursor = lane_state_[static_cast<size_t>(std::countr_zero(first.lanes))].cursor;
    put_rows({launch.counter + static_cast<uint64_t>(draw),
              launch.subsequence + static_cast<uint64_t>(begin),
              end - begin,
              rows,
              cursor.row_stride(),
              batch_.stride,
              cursor.row_local_stride(),
              {first.offset[0], first.offset[1], first.offset[2], first.offset[3]}});
  }

  // Run by run; the block that two runs share occurs once if they follow each other.
  void vectors(const PhiloxLaunch& launch, std::span<const StreamBox> boxes) {
    const int64_t words = batch_.block_words;
    int64_t last_group = -1;
    for (RunCursor cursor = cursor_at(launch, boxes); serves(launch, cursor); cursor.next()) {
      const StreamRun& run = cursor.run();
      const int64_t last = std::min(run.last - launch.first, launch.count);
      for (int64_t j = std::max(run.first - launch.first, int64_t{0}); j < last;) {
        const int64_t group = j / words;
        int64_t groups = 1;
        if (group != last_group) {
          if (batch_.count == kPhiloxBatch) flush();
          groups = std::min((last - 1) / words - group + 1, kPhiloxBatch - batch_.count);
          put_groups(launch, group, groups);
          last_group = group + groups - 1;
        }
        const int64_t next = std::min(last, (group + groups) * words);
        const int64_t word = (batch_.count - groups - group) * words + j;
        add_words(word, next - j, run.offset + (launch.first + j - run.first) * run.stride);
        j = next;
      }
    }
  }

  // The blocks of groups of consecutive elements: one for each vector, or two, one draw after the other.
  void put_groups(const PhiloxLaunch& launch, int64_t group, int64_t count) {
    const int64_t blocks = std::max<int64_t>(plan_.width / 4, 1), vector = group / blocks;
    int64_t part = group % blocks, thread = vector % launch.threads;
    int64_t draw = blocks * (vector / launch.threads);
    for (int64_t i = 0; i < count; ++i) {
      put(launch, draw + part, thread, 1);
      if (++part < blocks) continue;
      part = 0;
      if (++thread < launch.threads) continue;
      thread = 0;
      draw += blocks;
    }
  }

  // Elements of blocks of the batch, from word `at` on, counted over all blocks.
  void add_words(int64_t at, int64_t count, int64_t offset) {
    batch_.lanes = (1u << batch_.block_words) - 1;
    batch_.vectors.push_back({at, count, offset});
  }

  const PhiloxPlan& plan_;
  const int lanes_;
  const std::function<void(PhiloxBatch&)>& flush_;
  bool by_element_ = false;
  uint32_t places_of_ = 0;  // the lanes of which a batch keeps places; 0: it keeps segments or vectors
  int64_t limit_ = kNever;
  std::vector<Lane> lane_state_;
  PhiloxBatch batch_;
};

int64_t run_count(const StreamBox& box) {
  int64_t runs = lockstep::elements({{box.dims.begin() + 1, box.dims.end()}, 0});
  return runs * static_cast<int64_t>(box.dims[0].pieces.size());
}

// Whether blocks of this chain serve less than two elements each, counted in some of those in its middle;
// asked only where runs are so short that to find shared blocks takes longer than to compute some again.
bool prefers_elements(const PhiloxPlan& plan, std::span<const StreamBox> boxes, int lanes) {
  constexpr int64_t kShortRun = 32;
  int64_t outputs = 0, runs = 0, blocks = 0;
  for (const StreamBox& box : boxes) {
    outputs += lockstep::elements(box);
    runs += run_count(box);
  }
  if (plan.width > 1 || outputs >= kShortRun * runs) return false;
  outputs = 0;
  const std::function<void(PhiloxBatch&)> count = [&](PhiloxBatch& batch) {
    blocks += batch.count;
    if (batch.segments.empty()) outputs += batch.count * std::popcount(batch.lanes);
    for (const LaneSegment& s : batch.segments) outputs += s.count * std::popcount(s.lanes);
  };
  const int64_t middle = (first_index(boxes.front()) + last_index(boxes.back())) / 2;
  for (const PhiloxLaunch& launch : plan.launches)
    if (launch.first <= middle && middle < launch.first + launch.count && launch.threads > 1)
      Sweep(plan, lanes, count).sample(launch, (middle - launch.first) / (launch.threads * lanes), boxes);
  return outputs < 2 * blocks;
}

// Boxes that one cursor cannot walk are swept one by one.
template <class F>
void for_each_chain(const StreamImage& image, const F& f) {
  const std::span<const StreamBox> boxes(image);
  if (is_chain(boxes)) return f(boxes);
  for (size_t i = 0; i < boxes.size(); ++i) f(boxes.subspan(i, 1));
}

}  // namespace

void sweep(const PhiloxPlan& plan, const StreamImage& image, int lanes,
           const std::function<void(PhiloxBatch&)>& flush) {
  if (image.empty()) return;
  for_each_chain(image, [&](std::span<const StreamBox> boxes) {
    Sweep all(plan, lanes, flush);
    all.by_element(prefers_elements(plan, boxes, lanes));
    all.chain(boxes);
  });
}

int64_t distinct_blocks(const PhiloxPlan& plan, const StreamImage& image, int lanes) {
  int64_t blocks = 0;
  const std::function<void(PhiloxBatch&)> count = [&](PhiloxBatch& batch) { blocks += batch.count; };
  if (!image.empty())
    for_each_chain(image, [&](std::span<const StreamBox> boxes) { Sweep(plan, lanes, count).chain(boxes); });
  return blocks;
}

}  // namespace lockstep
