// SPDX-License-Identifier: Apache-2.0
// For whatever bytes, each reader gives a Log or an Error; and a text that reads back keeps its bits.
#include <rapidcheck.h>
#include <charconv>
#include <cmath>

#include "ci/curves/localize.h"
#include "ci/curves/testing.h"

namespace lockstep::curves {
namespace {

using testing::Folder;

std::vector<std::string> samples() {
  return {
      "{\"step\":1,\"loss\":7.1,\"loss_bits\":\"40e33333\",\"grad_norm\":NaN}\n{\"environment\":{\"a\":["
      "1,{}]}}\n",
      "step,loss,\"grad_norm\"\n1,\"7.1\",2\n2,7.2,\n",
      "[rank0]:\x1b[31mstep:  1  loss:  8.1309  grad_norm: 1.5\x1b[0m memory: 1\n",
      "{\"step\":1,\"seq\":0,\"op\":\"a\",\"rank\":0,\"inputs\":[],\"outputs\":[\"ab\",null]}\n"};
}

// Catches: a crash, a hang or an exception of another kind in any reader.
TEST(Hostile, EveryReaderGivesALogOrAnError) {
  const Folder folder;
  const auto all = samples();
  EXPECT_TRUE(rc::check("spoilt samples", [&] {
    auto bytes = all[*rc::gen::inRange<size_t>(0, all.size())];
    for (int n = *rc::gen::inRange(0, 6); n > 0 && !bytes.empty(); --n) {
      const auto at = *rc::gen::inRange<size_t>(0, bytes.size());
      switch (*rc::gen::inRange(0, 3)) {
        case 0:
          bytes[at] = *rc::gen::arbitrary<char>();
          break;
        case 1:
          bytes.erase(at, *rc::gen::inRange<size_t>(1, 9));
          break;
        default:
          bytes.insert(at, bytes.substr(*rc::gen::inRange<size_t>(0, bytes.size()), 20));
      }
    }
    const auto path = folder.write("x", bytes);
    for (const char* format : {"auto", "jsonl", "csv", "torchtitan"})
      for (const char* promise : {"", "f32"}) {
        try {
          const auto log = read(path, {.format = format, .round_trip = promise});
          for (size_t i = 1; i < log.points.size(); ++i)
            RC_ASSERT(log.points[i - 1].step < log.points[i].step);
          RC_ASSERT(!log.points.empty() || !log.notes.empty());
        } catch (const Error& e) {
          RC_ASSERT(std::string(e.what()).find("[curves] ") == 0);
        }
      }
    try {
      RC_ASSERT(!localize(path, path).row.step);
    } catch (const Error&) {
    }
  }));
}

template <class Float, class Bits>
std::string shortest(Bits bits) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, std::bit_cast<Float>(bits)).ptr};
}

// Catches: a reader that rounds where the writer promised a round trip.
TEST(Hostile, RoundTripsKeepBits) {
  EXPECT_TRUE(rc::check("f64 and f32", [](uint64_t bits) {
    const auto low = static_cast<uint32_t>(bits);
    if (!std::isnan(std::bit_cast<double>(bits)))
      RC_ASSERT(parse_decimal(shortest<double>(bits), "f64")->bits == bits);
    if (!std::isnan(std::bit_cast<float>(low)))
      RC_ASSERT(parse_decimal(shortest<float>(low), "f32")->bits == low);
    RC_ASSERT(narrowed(widened(from_f32(low))) == from_f32(low));
  }));
}

}  // namespace
}  // namespace lockstep::curves
