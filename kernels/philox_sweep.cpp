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
  Sweep(const PhiloxSweep& plan, int lanes, const std::function<void(PhiloxBatch&)>& flush)
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
  }

  // Adds up about `limit` blocks of one draw, the elements that they serve and the stretches of blocks that
  // are found one by one; no batch is made.
  struct Sample {
    int64_t limit, blocks = 0, outputs = 0, stretches = 0;
  };
  void sample(const PhiloxLaunch& launch, int64_t draw, std::span<const StreamBox> boxes, Sample& sample) {
    sample_ = &sample;
    one_draw(launch, draw, boxes);
    sample_ = nullptr;
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
    if (batch_.count > 0) flush_(batch_);
    batch_.count = 0;
    batch_.segments.clear();
    batch_.vectors.clear();
  }

  // Blocks of one draw: `rows` times `width` subsequences, the lanes wanted and where those of the first go.
  struct Rows {
    uint64_t counter, subsequence;
    int64_t width;
    uint32_t lanes = 0;
    int64_t offset[4] = {};
    int64_t rows = 1, row_stride = 0, row_local_stride = 0;
  };

  // To the end of the batch. Rows are cut only if a batch cannot hold one; short ones become columns, many
  // blocks at one distance each.
  void add(const Rows& r) {
    if (sample_ != nullptr) {
      ++sample_->stretches;
      sample_->blocks += r.width * r.rows;
      sample_->outputs += r.width * r.rows * std::popcount(r.lanes);
      return;
    }
    if (r.width > kPhiloxBatch) return add_wide(r);
    constexpr int64_t kShortRow = 8;
    const bool columns = r.width <= kShortRow && r.rows > r.width;
    const auto row_stride = static_cast<uint64_t>(r.row_stride);
    for (int64_t done = 0; done < r.rows;) {
      if (batch_.count + r.width > kPhiloxBatch) flush();
      const int64_t rows = std::min(r.rows - done, (kPhiloxBatch - batch_.count) / r.width);
      const uint64_t first = r.subsequence + static_cast<uint64_t>(done) * row_stride;
      if (columns) {
        for (int64_t at = 0; at < r.width; ++at)
          add_segment(r, batch_.count + at * rows, 1, rows, done * r.row_local_stride + at * batch_.stride);
        put(r.counter, first, {r.width, 1}, {rows, row_stride});
      } else {
        add_segment(r, batch_.count, r.width, rows, done * r.row_local_stride);
        put(r.counter, first, {rows, row_stride}, {r.width, 1});
      }
      done += rows;
    }
  }

  // Rows from block `block` of the batch on; those that follow each other in memory are one.
  void add_segment(const Rows& r, int64_t block, int64_t width, int64_t rows, int64_t offset) {
    const bool joined = r.row_local_stride == width * batch_.stride;
    LaneSegment& segment = batch_.segments.emplace_back();
    segment.block = static_cast<int32_t>(block);
    segment.width = static_cast<int32_t>(joined ? rows * width : width);
    segment.rows = static_cast<int32_t>(joined ? 1 : rows);
    segment.lanes = r.lanes;
    segment.row_stride = r.row_local_stride;
    for (size_t l = 0; l < 4; ++l) segment.offset[l] = r.offset[l] + offset;
  }

  void add_wide(Rows r) {
    const int64_t width = r.width;
    for (int64_t row = 0; row < r.rows; ++row) {
      Rows part = r;
      part.rows = 1;
      for (int64_t at = 0; at < width; at += part.width) {
        part.width = std::min(width - at, kPhiloxBatch);
        part.subsequence = r.subsequence + static_cast<uint64_t>(row * r.row_stride + at);
        for (size_t l = 0; l < 4; ++l)
          part.offset[l] = r.offset[l] + row * r.row_local_stride + at * batch_.stride;
        add(part);
      }
    }
  }

  // So many subsequences at a distance.
  struct Steps {
    int64_t count;
    uint64_t step;
  };
  // The blocks of one counter whose subsequences are first + o * outer.step + i * inner.step. @pre there is
  // room
  void put(uint64_t counter, uint64_t first, Steps outer, Steps inner) {
    auto& word = batch_.words.word;
    const int64_t begin = batch_.count, end = begin + outer.count * inner.count;
    const uint64_t upper = first >> 32;
    set(word[0], begin, end, [&](uint32_t) { return static_cast<uint32_t>(counter); });
    set(word[1], begin, end, [&](uint32_t) { return static_cast<uint32_t>(counter >> 32); });
    set(word[3], begin, end, [&](uint32_t) { return static_cast<uint32_t>(upper); });
    const auto step = static_cast<uint32_t>(inner.step);
    auto lower = static_cast<uint32_t>(first);
    for (int64_t at = begin; at < end; at += inner.count, lower += static_cast<uint32_t>(outer.step))
      set(word[2], at, at + inner.count, [&](uint32_t i) { return lower + i * step; });
    batch_.count = end;
    const auto subsequence = [&](int64_t o, int64_t i) {
      return first + static_cast<uint64_t>(o) * outer.step + static_cast<uint64_t>(i) * inner.step;
    };
    if (subsequence(outer.count - 1, inner.count - 1) >> 32 == upper) return;
    for (int64_t i = 0; i < end - begin; ++i)  // rare: a carry into the upper half
      word[3][begin + i] = static_cast<uint32_t>(subsequence(i / inner.count, i % inner.count) >> 32);
  }

  // word[begin + i] = value(i), up to `end`.
  template <class F>
  static void set(uint32_t* word, int64_t begin, int64_t end, const F& value) {
    constexpr uint32_t kVector = 8;  // a loop of this length is worth vector instructions, a shorter one not
    const auto count = static_cast<uint32_t>(end - begin);
    word += begin;
    uint32_t i = 0;
    for (; i + kVector <= count; i += kVector)
      for (uint32_t k = 0; k < kVector; ++k) word[i + k] = value(i + k);
    for (; i < count; ++i) word[i] = value(i);
  }

  // One block for each element, lane after lane.
  void elements(const PhiloxLaunch& launch, std::span<const StreamBox> boxes) {
    Window window{launch.first, launch.first};
    for (RunCursor cursor = cursor_at(launch, boxes); serves(launch, cursor);) {
      const StreamRun& run = cursor.run();
      const int64_t first = std::max(run.first, launch.first);
      const int64_t last = std::min(run.last, launch.first + launch.count);
      if (first >= window.last) window = window_at(launch, first);
      if (run.first >= window.first && run.last <= window.last) {
        Rows r = of_run(window, run, run.first, run.last);
        if (cursor.rows() > 1) {
          r.rows = std::min(cursor.rows(), (window.last - last) / cursor.row_stride() + 1);
          r.row_stride = cursor.row_stride();
          r.row_local_stride = cursor.row_local_stride();
        }
        add(r);
        cursor.skip(r.rows);
        continue;
      }
      for (int64_t j = first; j < last; j = std::min(last, window.last)) {
        if (j >= window.last) window = window_at(launch, j);
        add(of_run(window, run, j, std::min(last, window.last)));
      }
      cursor.next();
    }
  }

  // Elements [first, last) of the stream: one lane of one draw.
  struct Window {
    int64_t first, last;
    uint64_t counter = 0, subsequence = 0;  // of the first element
    uint32_t lane = 0;
  };

  Window window_at(const PhiloxLaunch& launch, int64_t element) const {
    const int64_t row = (element - launch.first) / launch.threads;
    const int64_t first = launch.first + row * launch.threads;
    return {first, std::min(first + launch.threads, launch.first + launch.count),
            launch.counter + static_cast<uint64_t>(row / lanes_), launch.subsequence,
            static_cast<uint32_t>(row % lanes_)};
  }

  // Elements [first, last) of a run. @pre they lie in the window
  static Rows of_run(const Window& window, const StreamRun& run, int64_t first, int64_t last) {
    Rows r{window.counter, window.subsequence + static_cast<uint64_t>(first - window.first), last - first};
    r.lanes = 1u << window.lane;
    r.offset[window.lane] = run.offset + (first - run.first) * run.stride;
    return r;
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
      if (begin == kNever || (sample_ != nullptr && sample_->blocks >= sample_->limit)) return;
      Rows r{launch.counter + static_cast<uint64_t>(draw), launch.subsequence + static_cast<uint64_t>(begin),
             0};
      for (size_t l = 0; l < lane.size(); ++l) {
        if (lane[l].begin_at > begin) {
          end = std::min(end, lane[l].begin_at);
        } else {
          end = std::min(end, lane[l].end_at);
          r.lanes |= 1u << l;
          r.offset[l] = lane[l].offset(begin);
        }
      }
      r.width = end - begin;
      r.rows = equal_rows(begin, end);
      if (r.rows > 1) {
        const RunCursor& cursor = lane[static_cast<size_t>(std::countr_zero(r.lanes))].cursor;
        r.row_stride = cursor.row_stride();
        r.row_local_stride = cursor.row_local_stride();
      }
      add(r);
      for (Lane& it : lane)
        if (it.end_at == end) {
          it.cursor.skip(r.rows);
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
      if (it.cursor.rows() == 1 || (stride != 0 && it.cursor.row_stride() != stride)) return 1;
      rows = std::min(rows, it.rows());
      stride = it.cursor.row_stride();
    }
    for (const Lane& it : lane_state_)
      if (it.begin_at > begin && it.begin_at != kNever && rows > 1)
        rows = std::min(rows, (it.begin_at - end) / stride + 1);
    return rows;
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
        batch_.vectors.push_back({word, next - j, run.offset + (launch.first + j - run.first) * run.stride});
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
      put(launch.counter + static_cast<uint64_t>(draw + part),
          launch.subsequence + static_cast<uint64_t>(thread), {1, 0}, {1, 0});
      if (++part < blocks) continue;
      part = 0;
      if (++thread < launch.threads) continue;
      thread = 0;
      draw += blocks;
    }
  }

  const PhiloxSweep& plan_;
  const int lanes_;
  const std::function<void(PhiloxBatch&)>& flush_;
  bool by_element_ = false;
  Sample* sample_ = nullptr;
  std::vector<Lane> lane_state_;
  PhiloxBatch batch_;
};

int64_t run_count(const StreamBox& box) {
  int64_t runs = lockstep::elements({{box.dims.begin() + 1, box.dims.end()}, 0});
  return runs * static_cast<int64_t>(box.dims[0].pieces.size());
}

// Whether one block for each element is quicker than to look for those that serve several, judged by some
// blocks in the middle of the chain; asked only where runs are so short that looking takes noticeable time.
bool prefers_elements(const PhiloxSweep& plan, std::span<const StreamBox> boxes, int lanes) {
  constexpr int64_t kShortRun = 512, kStretch = 16;  // to find a stretch takes the time of that many blocks
  int64_t outputs = 0, runs = 0;
  for (const StreamBox& box : boxes) {
    outputs += lockstep::elements(box);
    runs += run_count(box);
  }
  if (plan.width > 1 || outputs >= kShortRun * runs) return false;
  const std::function<void(PhiloxBatch&)> none;
  Sweep::Sample sample{std::clamp<int64_t>(outputs / 64, 64, 1024)};  // few, so that to ask costs little
  const int64_t middle = (first_index(boxes.front()) + last_index(boxes.back())) / 2;
  for (const PhiloxLaunch& launch : plan.launches)
    if (launch.first <= middle && middle < launch.first + launch.count && launch.threads > 1)
      Sweep(plan, lanes, none)
          .sample(launch, (middle - launch.first) / (launch.threads * lanes), boxes, sample);
  return sample.outputs < sample.blocks + kStretch * sample.stretches;
}

// Boxes that one cursor cannot walk are swept one by one.
template <class F>
void for_each_chain(const StreamImage& image, const F& f) {
  const std::span<const StreamBox> boxes(image);
  if (is_chain(boxes)) return f(boxes);
  for (size_t i = 0; i < boxes.size(); ++i) f(boxes.subspan(i, 1));
}

}  // namespace

void sweep(const PhiloxSweep& plan, const StreamImage& image, int lanes,
           const std::function<void(PhiloxBatch&)>& flush) {
  if (image.empty()) return;
  for_each_chain(image, [&](std::span<const StreamBox> boxes) {
    Sweep all(plan, lanes, flush);
    all.by_element(prefers_elements(plan, boxes, lanes));
    all.chain(boxes);
  });
}

int64_t distinct_blocks(const PhiloxSweep& plan, const StreamImage& image, int lanes) {
  int64_t blocks = 0;
  const std::function<void(PhiloxBatch&)> count = [&](PhiloxBatch& batch) { blocks += batch.count; };
  if (!image.empty())
    for_each_chain(image, [&](std::span<const StreamBox> boxes) { Sweep(plan, lanes, count).chain(boxes); });
  return blocks;
}

}  // namespace lockstep
