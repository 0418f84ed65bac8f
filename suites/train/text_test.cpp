// SPDX-License-Identifier: Apache-2.0
// What training reads: the sampler's law, and refusals of files that cannot be read.
#include "suites/train/text.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "engine/values/error.h"

namespace lockstep::suites {
namespace {

// Catches: a start past the end, a text of just one example, a hash that repeats.
TEST(Sampler, StaysWithinTheText) {
  for (const size_t size : {16, 17, 18, 1000})
    for (int64_t index = 0; index < 200; ++index) EXPECT_LE(example_start(3, 5, index, size, 16), size - 16);
  std::set<size_t> starts;
  for (uint64_t seed = 0; seed < 4; ++seed)
    for (int64_t step = 0; step < 4; ++step)
      for (int64_t index = 0; index < 4; ++index)
        starts.insert(example_start(seed, step, index, 1000000000, 16));
  EXPECT_EQ(starts.size(), 64U);
}

// Catches: examples that depend on how many there are, so that a data-parallel run would see others.
TEST(Sampler, ExamplesDoNotDependOnTheBatchSize) {
  const auto text = read_text("", 64);
  const auto small = make_batch(text, 1, 9, 2, 32), large = make_batch(text, 1, 9, 6, 32);
  EXPECT_TRUE(at::equal(small.tokens, large.tokens.narrow(0, 0, 2)));
  EXPECT_TRUE(at::equal(small.targets, large.targets.narrow(0, 0, 2)));
}

// Catches: targets that are not the next token, bytes above 127 read as negative.
TEST(Sampler, TargetsFollowTokens) {
  const auto b = make_batch(std::string_view("ab\xff\x00z", 5), 0, 1, 3, 3);
  EXPECT_TRUE((b.tokens.select(1, 0) == kBeginToken).all().item<bool>());
  EXPECT_TRUE(at::equal(b.tokens.narrow(1, 1, 2), b.targets.narrow(1, 0, 2)));
  EXPECT_TRUE(((b.targets >= 0) & (b.targets < kBeginToken)).all().item<bool>());
}

std::string message_of(const std::string& path, size_t least) {
  try {
    read_text(path, least);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// Catches: an empty text taken for a good one, a message without path or remedy.
TEST(ReadText, RefusesWhatItCannotRead) {
  const auto folder = std::filesystem::temp_directory_path();
  EXPECT_NE(message_of("/no/such/file", 8).find("/no/such/file: No such file"), std::string::npos);
  EXPECT_NE(message_of(folder, 8).find("is a folder"), std::string::npos);
  const auto path = folder / "lockstep_short_text";
  std::ofstream(path) << "short";
  EXPECT_NE(message_of(path, 8).find("has 5 bytes; one example needs 8"), std::string::npos);
  EXPECT_EQ(message_of(path, 5), "");
  std::filesystem::remove(path);
}

// Catches: another text than the one the curves were recorded with.
TEST(ReadText, ShipsGenesis) {
  const auto text = read_text("", 1);
  EXPECT_EQ(text.size(), 196818U);
  EXPECT_EQ(text.substr(0, 16), "In the beginning");
}

}  // namespace
}  // namespace lockstep::suites
