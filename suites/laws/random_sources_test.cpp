// SPDX-License-Identifier: Apache-2.0
// The engine's closed form against the oracle's simulation: two programs written apart, which must draw the
// same bits and leave the generator at the same offset, for every kind of call, dtype, size, memory order and
// device. And that this comparison sees an error in either of them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "engine/random/random.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/ownership/compare.h"
#include "oracle/random/random_launches.h"
#include "oracle/random/random_simulation.h"
#include "oracle/random/random_simulation_thread.h"
#include "oracle/random/random_support.h"

namespace lockstep::suites {
namespace {

using K = RandomKind;

constexpr K kKinds[] = {K::kUniform,     K::kNormal,     K::kLogNormal,         K::kExponential,
                        K::kCauchy,      K::kGeometric,  K::kBernoulli,         K::kBernoulliUniform,
                        K::kRandint,     K::kRandom,     K::kRandomBits,        K::kRandperm,
                        K::kDropoutMask, K::kRreluNoise, K::kMultinomialUniform};
constexpr c10::ScalarType kDtypes[] = {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
                                       at::kInt,    at::kShort, at::kChar, at::kByte,     at::kBool};

// A tensor's shape and strides.
struct Memory {
  std::vector<int64_t> shape, stride;
};
Memory contiguous(std::vector<int64_t> shape) {
  auto stride = contiguous_strides(shape);
  return {std::move(shape), std::move(stride)};
}

// Numbers that a kind needs: within the range of each, and none that rounds to itself in 16 bits.
RandomCall call_of(K kind, c10::ScalarType dtype, const Memory& memory) {
  RandomCall call;
  call.kind = kind;
  call.dtype = dtype;
  call.shape = memory.shape;
  call.stride = memory.stride;
  call.a = kind == K::kUniform || kind == K::kNormal || kind == K::kCauchy ? -0.3 : 0.3;
  call.b = 0.7;
  call.low = dtype == at::kByte || dtype == at::kBool ? 0 : -3;
  call.high = dtype == at::kBool ? 2 : 100;
  return call;
}

std::string describe(const RandomCall& call, const DeviceModel& device) {
  return concat(oracle::name_of(call.kind), " kind ", static_cast<int>(call.kind), " ",
                dtype_name(call.dtype), " ", shape_text(call.shape), " stride ", shape_text(call.stride),
                " on ", to_string(device));
}

struct Drawn {
  std::string refused;  // the error's text; the rest is then without meaning
  at::Tensor values;
  RandomState after;
};

Drawn draw(RandomSource& source, const RandomCall& call, const DeviceModel& device, RandomState state) {
  const auto dtype = call.kind == K::kDropoutMask ? at::kBool : call.dtype;
  Drawn drawn;
  drawn.values = at::empty_strided(call.shape, call.stride, at::TensorOptions(dtype));
  try {
    source.fill(call, drawn.values, device, state);
  } catch (const Error& e) {
    drawn.refused = e.what();
  }
  drawn.after = state;
  return drawn;
}

bool agree(const Drawn& a, const Drawn& b) {
  if (!a.refused.empty() || !b.refused.empty()) return a.refused.empty() == b.refused.empty();
  return a.after == b.after && oracle::compare(a.values, b.values).equal();
}

const RandomState kState{0x123456789abcdef0, 12};

void expect_agreement(const RandomCall& call, const DeviceModel& device, const RandomState& state = kState) {
  ClosedFormSource closed;
  oracle::SimulatedSource simulated;
  const auto ours = draw(closed, call, device, state), theirs = draw(simulated, call, device, state);
  ASSERT_TRUE(agree(ours, theirs)) << describe(call, device) << "\n  engine: " << ours.refused << " offset "
                                   << ours.after.offset << "\n  oracle: " << theirs.refused << " offset "
                                   << theirs.after.offset;
}

bool is_dense(const Memory& memory) {
  return at::empty_strided(memory.shape, memory.stride, at::kByte).is_non_overlapping_and_dense();
}

// The memory that a kind's calls name: any, but for these.
bool fits(K kind, const Memory& memory) {
  if (kind == K::kBernoulliUniform) return is_dense(memory);
  if (kind == K::kRandperm) return memory.shape.size() == 1;
  if (kind == K::kMultinomialUniform)
    return memory.shape.size() == 2 && memory.stride == contiguous_strides(memory.shape);
  return true;
}

void expect_agreement_everywhere(const std::vector<Memory>& memories, const DeviceModel& device) {
  for (const K kind : kKinds)
    for (const auto dtype : kDtypes)
      for (const auto& memory : memories) {
        if (!fits(kind, memory)) continue;
        expect_agreement(call_of(kind, dtype, memory), device);
        if (::testing::Test::HasFatalFailure()) return;
      }
}

// One block of threads, and two: every draw and lane, part blocks, odd sizes for dropout's vectors, nothing.
TEST(RandomSources, AgreeOnSmallDevices) {
  std::vector<Memory> memories{contiguous({}),       contiguous({0}),       contiguous({0, 3}),
                               contiguous({3, 0}),   contiguous({1}),       contiguous({2}),
                               contiguous({3}),      contiguous({255}),     contiguous({256}),
                               contiguous({257}),    contiguous({1024}),    contiguous({1025}),
                               contiguous({4094}),   contiguous({4100}),    contiguous({10007}),
                               contiguous({7, 300}), contiguous({513, 41}), contiguous({2, 8, 640})};
  for (const DeviceModel device : {DeviceModel{1, 256}, DeviceModel{2, 512}, DeviceModel{3, 768}})
    expect_agreement_everywhere(memories, device);
}

// Transposed, permuted, with gaps between rows, elements, or both; dimensions of one element with any stride.
TEST(RandomSources, AgreeInEveryMemoryOrder) {
  const std::vector<Memory> memories{{{60, 46}, {1, 60}},
                                     {{61, 45}, {1, 61}},
                                     {{40, 30}, {64, 1}},
                                     {{40, 30}, {60, 2}},
                                     {{40, 30}, {1, 64}},
                                     {{40, 30}, {2, 90}},
                                     {{7, 13, 24}, {24, 168, 1}},
                                     {{4, 6, 5, 8}, {240, 1, 48, 6}},
                                     {{4, 6, 5, 8}, {300, 1, 48, 6}},
                                     {{5, 1, 300}, {300, 7, 1}},
                                     {{300, 1}, {1, 1}},
                                     {{1, 300}, {1, 5}},
                                     {{3000}, {2}}};
  for (const DeviceModel device : {DeviceModel{1, 256}, DeviceModel{2, 512}})
    expect_agreement_everywhere(memories, device);
}

// An H200, with one thread for each element and with several draws of some.
TEST(RandomSources, AgreeOnALargeDevice) {
  expect_agreement_everywhere({contiguous({1000}), contiguous({300001}), {{500, 640}, {1, 500}}}, {});
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const K kind : kKinds)
      if (const auto n = kind == K::kRandperm ? 30000 : 1100000; kind != K::kMultinomialUniform)
        expect_agreement(call_of(kind, dtype, contiguous({n})), {});
}

// More distributions than a grid has rows; permutations with 32-bit keys compared whole, and with 64-bit
// keys; many seeds, of which some have equal keys.
TEST(RandomSources, AgreeOnSpecialSizes) {
  expect_agreement(call_of(K::kMultinomialUniform, at::kFloat, contiguous({131075, 2})), {});
  for (const int64_t n : {21000, 25000, 30083, 30084, 50000})
    expect_agreement(call_of(K::kRandperm, at::kLong, contiguous({n})), {});
  ClosedFormSource closed;
  oracle::SimulatedSource simulated;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const auto call = call_of(K::kRandperm, at::kInt, contiguous({static_cast<int64_t>(seed % 9 + 2)}));
    ASSERT_TRUE(agree(draw(closed, call, {1, 256}, {seed, 8}), draw(simulated, call, {1, 256}, {seed, 8})))
        << "seed " << seed;
  }
}

struct Arguments {
  K kind;
  double a, b;
};
constexpr double kLargest = std::numeric_limits<double>::max();
// At the ends of their ranges.
constexpr Arguments kExtreme[] = {
    {K::kUniform, 0, 0},       {K::kUniform, 1, 1.0000001},   {K::kUniform, -1e30, 1e30},
    {K::kNormal, 1e10, 0},     {K::kNormal, 0, 1e300},        {K::kLogNormal, 0, 400},
    {K::kLogNormal, -80, 30},  {K::kExponential, 1e-30, 0},   {K::kExponential, kLargest, 0},
    {K::kCauchy, 0, 1e-40},    {K::kGeometric, 1, 0},         {K::kGeometric, 1e-5, 0},
    {K::kGeometric, 1e-30, 0}, {K::kGeometric, .99999999, 0}, {K::kBernoulli, 0, 0},
    {K::kBernoulli, 1, 0},     {K::kDropoutMask, .999999, 0}, {K::kRreluNoise, -2, 5},
    {K::kRreluNoise, .25, .25}};

// Extreme arguments, and ranges of integers about 2^28, 2^32 and 2^64.
TEST(RandomSources, AgreeOnArguments) {
  const DeviceModel device{1, 256};
  for (const auto& [kind, a, b] : kExtreme)
    for (const auto dtype : kDtypes) {
      auto call = call_of(kind, dtype, contiguous({2500}));
      call.a = a;
      call.b = b;
      expect_agreement(call, device);
    }
  constexpr auto kLow = std::numeric_limits<int64_t>::min(), kHigh = std::numeric_limits<int64_t>::max();
  const int64_t limit = int64_t{1} << 28;
  for (const auto& [low, high] : {std::pair{int64_t{0}, int64_t{1}},
                                  {-limit, -1},
                                  {0, limit},
                                  {-5, limit + 9},
                                  {0, int64_t{1} << 32},
                                  {kLow, kHigh},
                                  {0, kHigh},
                                  {-1, kHigh},
                                  {5, kLow},
                                  {4, 4}})
    for (const auto dtype : kDtypes) {
      auto call = call_of(K::kRandint, dtype, contiguous({2500}));
      call.low = low;
      call.high = high;
      expect_agreement(call, device);
    }
}

// Words that sampling meets once in 2^32 draws, in every kind and with extreme arguments. Would catch: an end
// of an interval, a tie or an overflow that one side has otherwise; a kind that draws other words than those
// of its state.
TEST(RandomSources, AgreeOnForgedWords) {
  const DeviceModel device{1, 256};
  const int64_t limit = int64_t{1} << 28;
  for (const auto words :
       {RandomWords::kZeros, RandomWords::kOnes, RandomWords::kEqual, RandomWords::kEdges}) {
    const RandomState state{kState.seed, kState.offset, words};
    for (const auto dtype : kDtypes) {
      for (const K kind : kKinds)
        for (const auto& memory : {contiguous({700}), contiguous({20, 60}), Memory{{20, 60}, {1, 20}}})
          if (fits(kind, memory)) expect_agreement(call_of(kind, dtype, memory), device, state);
      for (const auto& [kind, a, b] : kExtreme) {
        auto call = call_of(kind, dtype, contiguous({2500}));
        call.a = a, call.b = b;
        expect_agreement(call, device, state);
      }
      for (const int64_t high : {limit - 1, limit, limit << 4, (limit << 4) + 1}) {
        auto call = call_of(K::kRandint, dtype, contiguous({2500}));
        call.low = 0, call.high = high;
        expect_agreement(call, device, state);
      }
    }
  }
}

bool is_served(const RandomCall& call) {
  try {
    oracle::check_supported(call);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Kinds that fill tensors of any size, too large for memory: the offsets after them.
TEST(RandomSources, AgreeOnAdvancesOfHugeTensors) {
  const int64_t k = 1024, limit = int64_t{1} << 29;
  const std::vector<Memory> memories{contiguous({limit}),          contiguous({limit + 1}),
                                     contiguous({3, k * k * k}),   contiguous({3000000000}),
                                     contiguous({8 * limit}),      {{128 * k, 4096}, {8192, 1}},
                                     {{k * k, 4 * k}, {1, k * k}}, {{70000, 3, 30011}, {90033, 1, 3}}};
  for (const K kind : {K::kUniform, K::kGeometric, K::kBernoulli, K::kRandint, K::kRandom, K::kRandomBits})
    for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kLong, at::kInt, at::kByte})
      for (const auto& memory : memories)
        for (const DeviceModel device : {DeviceModel{}, DeviceModel{1, 256}}) {
          const auto call = call_of(kind, dtype, memory);
          if (!is_served(call)) continue;
          EXPECT_EQ(advance(call, device), oracle::plan_launches(call, device).advance)
              << describe(call, device);
        }
}

// Some threads of each part of a split tensor, run as the kernel runs them: where they write, the engine
// draws the same. Would catch: a part that starts at another offset, element or thread.
TEST(RandomSources, AgreeOnThreadsOfHugeTensors) {
  const DeviceModel device;
  const int64_t columns = (1 << 15) + 3, rows = 1 << 16;
  const auto call = call_of(K::kRandom, at::kInt, {{rows, columns}, {1, rows}});
  const auto plan = oracle::plan_launches(call, device);
  EXPECT_GT(plan.launches.size(), 1U);
  for (const auto& launch : plan.launches) {
    const int64_t count = launch.count(), threads = oracle::kBlock * oracle::grid_of(count, device);
    for (const int64_t thread : {int64_t{0}, int64_t{1}, int64_t{70001}, threads - 1}) {
      oracle::ThreadGenerator generator(kState.seed, static_cast<uint64_t>(thread),
                                        kState.offset + launch.offset);
      for (int64_t linear = thread; linear < count; linear += 4 * threads) {
        const auto words = generator.next();
        for (int64_t lane = 0; lane < 4 && linear + threads * lane < count; ++lane) {
          const int64_t place = launch.memory_of(linear + threads * lane);
          const std::vector<IndexList> one{{{place % rows, 1}}, {{place / rows, 1}}};
          const auto drawn = draw_local(call, one, {1, 1}, kState, device);
          ASSERT_EQ(drawn.item<int32_t>(),
                    static_cast<int32_t>(words[static_cast<size_t>(lane)] & 0x7fffffff))
              << "element " << place << " of memory, thread " << thread;
        }
      }
    }
  }
}

// A source with something done to the call on its way in, or to the values on their way out.
struct Fault {
  const char* name;
  void (*before)(RandomCall&, DeviceModel&, RandomState&) = nullptr;
  void (*after)(const at::Tensor&, RandomState&) = nullptr;
};

class Faulty : public oracle::LiteralSource {
 public:
  Faulty(RandomSource& source, const Fault& fault) : source_(source), fault_(fault) {}
  void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
            RandomState& state) override {
    auto changed = call;
    auto on = device;
    if (fault_.before != nullptr) fault_.before(changed, on, state);
    source_.fill(changed, out, on, state);
    if (fault_.after != nullptr) fault_.after(out, state);
  }

 private:
  RandomSource& source_;
  const Fault& fault_;
};

bool depends_on_device(K kind) {
  return kind != K::kBernoulliUniform && kind != K::kMultinomialUniform;
}
bool follows_memory(K kind) {
  return kind != K::kRreluNoise && kind != K::kMultinomialUniform && kind != K::kRandperm;
}
bool has_arguments(K kind) {
  return kind != K::kBernoulliUniform && kind != K::kRandom && kind != K::kRandomBits &&
         kind != K::kRandperm && kind != K::kMultinomialUniform;
}
bool is_any(K /*kind*/) {
  return true;
}

struct Planted {
  Fault fault;
  bool (*concerns)(K);
};

// Errors of the sort that a stream has: in the words, the launch, the order of elements, the values, the
// offset.
const Planted kPlanted[] = {
    {{"words of the next block", [](RandomCall&, DeviceModel&, RandomState& s) { s.offset += 4; },
      [](const at::Tensor&, RandomState& s) { s.offset -= 4; }},
     is_any},
    {{"high half of the seed lost", [](RandomCall&, DeviceModel&, RandomState& s) { s.seed &= 0xffffffff; },
      [](const at::Tensor&, RandomState& s) { s.seed = kState.seed; }},
     is_any},
    {{"twice the threads", [](RandomCall&, DeviceModel& d, RandomState&) { d.sm_count *= 2; }},
     depends_on_device},
    {{"logical for memory order",
      [](RandomCall& c, DeviceModel&, RandomState&) { c.stride = contiguous_strides(c.shape); }},
     follows_memory},
    {{"an argument one part in a hundred off",
      [](RandomCall& c, DeviceModel&, RandomState&) {
        c.a *= 1.01;
        c.high += 1;
      }},
     has_arguments},
    {{"neighbours exchanged", nullptr,
      [](const at::Tensor& out, RandomState&) {
        const auto flat = out.flatten().clone();
        const auto last = out.numel() - out.numel() % 2;
        flat.narrow(0, 0, last).copy_(flat.narrow(0, 0, last).clone().view({-1, 2}).flip(1).flatten());
        out.copy_(flat.view_as(out));
      }},
     is_any},
    {{"the offset four short", nullptr, [](const at::Tensor&, RandomState& s) { s.offset -= 4; }}, is_any},
};

// Where a fault must show: several draws of each thread, an order that is not logical where the kind has one.
RandomCall revealing(K kind) {
  const auto dtype = kind == K::kRandperm ? at::kLong : at::kFloat;
  if (kind == K::kRandperm) return call_of(kind, dtype, contiguous({6000}));
  if (kind == K::kMultinomialUniform) return call_of(kind, dtype, contiguous({40, 150}));
  return call_of(kind, dtype, {{100, 60}, {1, 100}});
}

// Each fault, in the simulation and in the closed form. Would catch: a comparison that looks at one side
// only, at the offsets alone, or at so few elements that an error hides.
TEST(RandomSources, AnErrorOnEitherSideIsSeen) {
  ClosedFormSource closed;
  oracle::SimulatedSource simulated;
  const DeviceModel device{1, 256};
  for (const auto& [fault, concerns] : kPlanted)
    for (const K kind : kKinds) {
      if (!concerns(kind)) continue;
      const auto call = revealing(kind);
      Faulty wrong_closed(closed, fault), wrong_simulated(simulated, fault);
      const auto right = draw(simulated, call, device, kState);
      EXPECT_FALSE(agree(draw(wrong_closed, call, device, kState), right))
          << fault.name << " in the closed form: " << describe(call, device);
      EXPECT_FALSE(agree(draw(closed, call, device, kState), draw(wrong_simulated, call, device, kState)))
          << fault.name << " in the simulation: " << describe(call, device);
    }
}

}  // namespace
}  // namespace lockstep::suites
