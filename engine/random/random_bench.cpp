// SPDX-License-Identifier: Apache-2.0
// How fast a rank draws its part of the stream, as ratios within one run: against the stock CPU operators on
// the same local size, and against drawing the whole. The bits are checked first. README.md says how to run
// it.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>

#include "engine/random/random.h"
#include "engine/random/random_policy.h"
#include "engine/random/random_walk.h"

namespace lockstep {
namespace {

const DeviceModel kDevice;
const RandomState kState{1234, 8};

// This thread's own time: another process on the core does not count.
double seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Quartiles {
  double low, median, high;
};
Quartiles quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) { return values[static_cast<size_t>(q * double(values.size() - 1) + 0.5)]; };
  return {at(0.25), at(0.5), at(0.75)};
}

using Run = std::function<void()>;

struct Pair {
  Quartiles ratio;      // of b's time to a's, round by round
  double a = 0, b = 0;  // medians, in seconds
};

// Both in turn, so that whatever slows the machine slows both; the first round is left out.
Pair in_turn(int rounds, const Run& a, const Run& b) {
  std::vector<double> as, bs, ratios;
  const auto timed = [](const Run& run) {
    const double start = seconds();
    run();
    return seconds() - start;
  };
  for (int round = 0; round <= rounds; ++round) {
    const double at = timed(a), bt = timed(b);
    if (round == 0) continue;
    as.push_back(at);
    bs.push_back(bt);
    ratios.push_back(bt / at);
  }
  return {quartiles(ratios), quartiles(as).median, quartiles(bs).median};
}

Spec spec_of(const std::string& mesh, const std::string& placements, const std::vector<int64_t>& shape) {
  return Spec(parse_mesh(mesh), parse_placements(placements), shape, c10::kFloat);
}

RandomCall call_of(RandomKind kind, const Spec& spec) {
  return {.kind = kind, .shape = spec.shape(), .stride = spec.stride()};
}

const char* name(RandomKind kind) {
  return kind == RandomKind::kUniform ? "uniform_" : "normal_";
}

at::Tensor empty_local(const Spec& spec, int64_t position) {
  return at::empty(local_shape(spec, position), at::kFloat);
}

// Element by element from the definition of a launch, with the scalar functor.
template <class G>
int64_t wrong_bits(const G& values, const Spec& spec, int64_t position, const at::Tensor& drawn) {
  const RandomGeometry geometry = random_geometry(call_of(RandomKind::kUniform, spec), kDevice);
  const RandomLaunch& launch = geometry.launches.at(0);
  int64_t wrong = 0;
  const float* data = drawn.const_data_ptr<float>();
  const auto check = [&](const StreamRun& run) {
    for (int64_t j = run.first; j < run.last; ++j) {
      const int64_t row = j / launch.threads;
      const PhiloxBlock block = philox(kState.seed, static_cast<uint64_t>(j % launch.threads),
                                       kState.offset / 4 + static_cast<uint64_t>(row / 4));
      const float expected = values.value(block, static_cast<int>(row % 4));
      wrong += std::memcmp(&expected, data + run.offset + (j - run.first) * run.stride, sizeof(float)) != 0;
    }
  };
  for_each_run(owned_by(spec, position), spec.shape(), geometry.rank_stride, drawn.strides().vec(), check);
  return wrong;
}

struct Options {
  int rounds = 15;
  bool check = false;  // bits only
  std::string only;    // the lines that hold this text
  Simd simd = best_simd();
};

bool wanted(const Options& options, const std::string& line) {
  return line.find(options.only) != std::string::npos;
}

void fill(const RandomCall& call, const Spec& spec, int64_t position, const at::Tensor& out, Simd simd) {
  fill_local(call, owned_by(spec, position), kState, random_geometry(call, kDevice), out, simd);
}

bool bits_are_right(RandomKind kind, const Spec& spec, int64_t position, Simd simd) {
  const at::Tensor drawn = empty_local(spec, position);
  fill(call_of(kind, spec), spec, position, drawn, simd);
  const int64_t wrong = kind == RandomKind::kUniform
                            ? wrong_bits(UniformValue<float>(0, 1), spec, position, drawn)
                            : wrong_bits(NormalValue<float>(0, 1), spec, position, drawn);
  if (wrong > 0)
    std::printf("WRONG BITS: %s %s: %lld of %lld elements\n", name(kind),
                to_string(spec.placements()).c_str(), static_cast<long long>(wrong),
                static_cast<long long>(drawn.numel()));
  return wrong == 0;
}

struct Tally {
  int wrong = 0, missed = 0;
  const char* judge(bool met) {
    missed += !met;
    return met ? "met" : "MISSED";
  }
};

struct Shard {
  const char* what;
  double goal;  // of stock's time over ours
  const char *mesh, *placements;
  std::vector<int64_t> shape;
  int64_t position;
};

const Shard kShards[] = {
    {"rows", 1.0, "8", "[S0]", {4096, 4096}, 3},
    {"rows, uneven", 1.0, "7", "[S0]", {4099, 4096}, 6},
    {"flat, uneven", 1.0, "7", "[S0]", {16777213}, 3},
    {"columns, C divides the launch", 0.5, "8", "[S1]", {4096, 4096}, 3},
    {"columns, C does not", 0.5, "8", "[S1]", {4096, 14336}, 3},
    {"columns, C does not, 64 ranks", 0.5, "64", "[S1]", {4096, 14336}, 21},
    {"both", 0.5, "2x4", "[S0,S1]", {4096, 5120}, 5},
    {"interleaved columns", 0.5, "8", "[I1x3]", {4096, 12288}, 3},
    {"runs of 1, C divides the launch", 0.5, "8", "[S1]", {1 << 20, 8}, 3},
    {"runs of 1, C does not", 0.5, "7", "[S1]", {1 << 20, 7}, 3},
    {"runs of 2, C does not", 0.5, "7", "[S1]", {1 << 19, 14}, 3},
};

void against_stock(const Options& options, Tally& tally) {
  std::printf("\nA rank's shard against the stock CPU operator on the local size (float32, one thread)\n");
  std::printf("%-32s %-8s %9s %9s %22s  %s\n", "shard", "op", "ns/elem", "stock", "stock/ours [quartiles]",
              "goal");
  for (const Shard& shard : kShards) {
    if (!wanted(options, shard.what)) continue;
    const Spec spec = spec_of(shard.mesh, shard.placements, shard.shape);
    for (const RandomKind kind : {RandomKind::kUniform, RandomKind::kNormal}) {
      tally.wrong += !bits_are_right(kind, spec, shard.position, options.simd);
      if (options.check) continue;
      const RandomCall call = call_of(kind, spec);
      const at::Tensor ours = empty_local(spec, shard.position), stock = empty_local(spec, shard.position);
      const Pair times = in_turn(
          options.rounds, [&] { fill(call, spec, shard.position, ours, options.simd); },
          [&] { kind == RandomKind::kUniform ? stock.uniform_() : stock.normal_(); });
      const double scale = 1e9 / static_cast<double>(ours.numel());
      std::printf("%-32s %-8s %9.2f %9.2f %8.2f [%.2f %.2f]     %.1f %s\n", shard.what, name(kind),
                  times.a * scale, times.b * scale, times.ratio.median, times.ratio.low, times.ratio.high,
                  shard.goal, tally.judge(times.ratio.median >= shard.goal));
    }
  }
}

// The blocks that a rank needs.
int64_t blocks(const Spec& spec, int64_t position) {
  const RandomCall call = call_of(RandomKind::kUniform, spec);
  const RandomGeometry geometry = random_geometry(call, kDevice);
  const auto shape = local_shape(spec, position);
  const StreamImage image =
      stream_image(owned_by(spec, position), spec.shape(), geometry.rank_stride, local_stride(spec, shape));
  return distinct_blocks(philox_plan(kState, geometry), image, 4);
}

const std::vector<int64_t> kWeights[] = {
    {4096, 4096}, {14336, 4096}, {4096, 14336}, {32000, 5120}, {1024, 1024}};

std::string text(const std::vector<int64_t>& shape) {
  return std::to_string(shape[0]) + "x" + std::to_string(shape[1]);
}

int64_t hundredths(double ratio) {
  return std::llround(100 * ratio);
}

// Of all ranks together, over those of the whole.
double block_ratio(const std::vector<int64_t>& shape, int dim, int64_t ranks) {
  const Spec spec = spec_of(std::to_string(ranks), "[S" + std::to_string(dim) + "]", shape);
  int64_t sum = 0;
  for (int64_t r = 0; r < ranks; ++r) sum += blocks(spec, r);
  return static_cast<double>(sum) / static_cast<double>(blocks(spec_of("1", "[R]", shape), 0));
}

void table_of_blocks() {
  std::printf("\nDistinct Philox blocks of all ranks over those of the whole (132x2048 threads; exact)\n");
  std::printf("%-14s %-24s %-24s %s\n", "weight", "[S0] 2 / 8 / 64 ranks", "[S1] 2 / 8 / 64 ranks",
              "one block an element");
  for (const auto& shape : kWeights) {
    std::printf("%-14s", text(shape).c_str());
    for (const int dim : {0, 1})
      std::printf(" %5.2f / %5.2f / %5.2f    ", block_ratio(shape, dim, 2), block_ratio(shape, dim, 8),
                  block_ratio(shape, dim, 64));
    std::printf(" %.2f\n", static_cast<double>(shape[0] * shape[1]) /
                               static_cast<double>(blocks(spec_of("1", "[R]", shape), 0)));
  }
}

struct Cut {
  std::vector<int64_t> shape;
  int dim;
  int64_t ranks;
  Spec spec() const { return spec_of(std::to_string(ranks), "[S" + std::to_string(dim) + "]", shape); }
};

// A rank and its own memory.
struct Part {
  int64_t position;
  at::Tensor local;
};

// At most 8, one from each stretch of ranks: many, or the clock itself and its jumps would count for a short
// draw.
std::vector<Part> some_ranks(const Cut& cut) {
  std::vector<Part> parts;
  const int64_t step = std::max<int64_t>(cut.ranks / 8, 1);
  for (int64_t r = step / 2; r < cut.ranks; r += step) parts.push_back({r, empty_local(cut.spec(), r)});
  return parts;
}

// What a rank drew is its part of the whole.
bool is_part(const Cut& cut, const Part& part, const at::Tensor& whole) {
  const Interval held = owned_by(cut.spec(), part.position).lists.at(static_cast<size_t>(cut.dim)).at(0);
  const at::Tensor expected = whole.narrow(cut.dim, held.start, held.length);
  return at::equal(part.local.view(at::kInt), expected.contiguous().view(at::kInt));
}

// Time of some ranks, one after the other, over that of the whole, in shares of blocks.
void against_whole(const Cut& cut, RandomKind kind, const Options& options, Tally& tally) {
  const Spec spec = cut.spec(), whole = spec_of("1", "[R]", cut.shape);
  const RandomCall call = call_of(kind, spec);
  const std::vector<Part> parts = some_ranks(cut);
  const at::Tensor all = empty_local(whole, 0);
  const auto draw_parts = [&] {
    for (const Part& part : parts) fill(call, spec, part.position, part.local, options.simd);
  };
  const Pair times =
      in_turn(std::max(options.rounds / 3, 3), draw_parts, [&] { fill(call, whole, 0, all, options.simd); });
  int64_t needed = 0;
  bool right = true;
  for (const Part& part : parts) {
    needed += blocks(spec, part.position);
    right = right && is_part(cut, part, all);
  }
  tally.wrong += !right;
  const double share = static_cast<double>(needed) / static_cast<double>(blocks(whole, 0));
  const double cost = 1 / times.ratio.median / share;
  const double of_one = times.ratio.median * static_cast<double>(parts.size());
  const bool sixth = cut.ranks == 8 && hundredths(block_ratio(cut.shape, cut.dim, cut.ranks)) <= 110;
  std::printf("%-14s S%-4d %6lld %-8s %7.1f %9.2f [%.2f %.2f]     1.33%s %s%s\n", text(cut.shape).c_str(),
              cut.dim, static_cast<long long>(cut.ranks), name(kind), of_one, cost,
              1 / times.ratio.high / share, 1 / times.ratio.low / share, sixth ? ", 6" : "",
              tally.judge(cost <= 1.33 && (!sixth || of_one >= 6)), right ? "" : " WRONG BITS");
}

void against_whole(const Options& options, Tally& tally) {
  std::printf(
      "\nA rank against the whole: time over its share of the distinct blocks, goal at most 1.33;\n"
      "8 ranks, where the table has at most 1.10: at most 1/6 of the whole\n");
  std::printf("%-14s %-5s %6s %-8s %8s %22s %s\n", "weight", "shard", "ranks", "op", "whole/",
              "time/share [quartiles]", "goal");
  for (const auto& shape : kWeights)
    for (const int dim : {0, 1})
      for (const int64_t ranks : {2, 8, 64})
        for (const RandomKind kind : {RandomKind::kUniform, RandomKind::kNormal})
          if (wanted(options, text(shape))) against_whole({shape, dim, ranks}, kind, options, tally);
}

int run(const Options& options) {
  at::set_num_threads(1);
  const c10::InferenceMode plain;
  Tally tally;
  against_stock(options, tally);
  if (options.only.empty()) table_of_blocks();
  if (!options.check) against_whole(options, tally);
  std::printf("\n%d wrong, %d goals missed\n", tally.wrong, tally.missed);
  return tally.wrong > 0 ? 1 : tally.missed > 0 ? 4 : 0;
}

}  // namespace
}  // namespace lockstep

// Exit codes as the program's: 0 all goals are met, 1 wrong bits, 2 usage, 4 a goal is missed, 77 the
// processor lacks the instructions.
int main(int count, char** arguments) {
  using lockstep::Simd;
  const std::pair<const char*, Simd> instructions[] = {
      {"baseline", Simd::kBaseline}, {"avx2", Simd::kAvx2}, {"avx512", Simd::kAvx512}};
  lockstep::Options options;
  for (int i = 1; i < count; ++i) {
    const std::string option = arguments[i], value = i + 1 < count ? arguments[i + 1] : "";
    const auto* simd = std::find_if(std::begin(instructions), std::end(instructions),
                                    [&](const auto& known) { return value == known.first; });
    if (option == "--check") {
      options.check = true;
      continue;
    }
    ++i;
    if (option == "--rounds" && std::atoi(value.c_str()) > 0) {
      options.rounds = std::atoi(value.c_str());
    } else if (option == "--only" && !value.empty()) {
      options.only = value;
    } else if (option == "--simd" && simd != std::end(instructions)) {
      options.simd = simd->second;
      // Stock's operators choose likewise, when they are first called.
      setenv("ATEN_CPU_CAPABILITY", options.simd == Simd::kBaseline ? "default" : simd->first, 1);
    } else {
      std::fputs("engine_random_bench [--check] [--rounds N] [--only TEXT] [--simd baseline|avx2|avx512]\n",
                 stderr);
      return 2;
    }
  }
  if (options.simd > lockstep::best_simd()) {
    std::fputs("this processor does not have these instructions\n", stderr);
    return 77;
  }
  return lockstep::run(options);
}
