// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event files: what a real writer wrote, tensors of TF2, folders, damage.
#include <cmath>

#include "ci/curves/events.h"
#include "ci/curves/testing.h"
#include "ci/curves/tfrecord.h"

namespace lockstep::curves {
namespace {

using testing::Folder;
using testing::has;
using testing::noted;
using testing::refusal;
using testing::steps_of;
using Steps = std::vector<int64_t>;

std::string little(uint64_t value, size_t width) {
  std::string bytes;
  for (size_t i = 0; i < width; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  return bytes + static_cast<char>(value);
}

std::string bytes_field(uint64_t number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}

std::string varint_field(uint64_t number, uint64_t value) {
  return varint(number << 3) + varint(value);
}

std::string framed(const std::string& data) {
  const auto head = little(data.size(), 8);
  return head + little(masked(crc32c(head)), 4) + data + little(masked(crc32c(data)), 4);
}

// An Event with one Value.
std::string event(double wall, int64_t step, const std::string& tag, const std::string& value) {
  return varint(1 << 3 | 1) + little(std::bit_cast<uint64_t>(wall), 8) +
         varint_field(2, static_cast<uint64_t>(step)) +
         bytes_field(5, bytes_field(1, bytes_field(1, tag) + value));
}

std::string simple(float value) {
  return varint(2 << 3 | 5) + little(std::bit_cast<uint32_t>(value), 4);
}

std::string tensor(uint64_t dtype, const std::string& values, const std::string& shape = "") {
  return bytes_field(8, varint_field(1, dtype) + bytes_field(2, shape) + values);
}

// Catches: another polynomial, another mask. The vectors are those of RFC 3720, B.4.
TEST(TfRecord, ChecksumOfKnownTexts) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

// Catches: whatever we and our own writer would get wrong in the same way. tensorboardX 2.6.5 wrote the file:
// train/loss is 8 / step + 0.1, train/grad_norm 1 / step.
TEST(TensorBoard, AFileOfARealWriter) {
  const auto log = read(LOCKSTEP_GOLDEN "/curves/tensorboardX-2.6.5.tfevents", {});
  EXPECT_EQ(log.format, "tensorboard");
  ASSERT_EQ(steps_of(log), (Steps{1, 2, 3, 4, 5}));
  for (const auto& point : log.points) {
    const auto step = static_cast<double>(point.step);
    EXPECT_EQ(*point.loss, from_f32(std::bit_cast<uint32_t>(static_cast<float>(8.0 / step + 0.1))));
    EXPECT_EQ(*point.grad_norm, from_f32(std::bit_cast<uint32_t>(static_cast<float>(1.0 / step))));
  }
  EXPECT_TRUE(noted(log.notes, "loss is the tag 'train/loss'"));
  EXPECT_TRUE(noted(log.notes, "1 values are no scalars"));
}

// Catches: a scalar of TF2 read in another dtype, packed values misread, a longer tensor taken for a scalar.
TEST(TensorBoard, ScalarsAsTensors) {
  const auto one = [](const std::string& value) { return parse_event(event(0, 3, "x", value))->scalars; };
  const auto f32 = little(std::bit_cast<uint32_t>(0.1f), 4), f64 = little(std::bit_cast<uint64_t>(0.1), 8);
  const auto dim = [](uint64_t n) { return bytes_field(2, varint_field(1, n)); };
  EXPECT_EQ(one(tensor(1, bytes_field(4, f32))).at(0).value, from_f32(std::bit_cast<uint32_t>(0.1f)));
  EXPECT_EQ(one(tensor(1, bytes_field(5, f32))).at(0).value.bits, std::bit_cast<uint32_t>(0.1f));
  EXPECT_EQ(one(tensor(1, varint(5 << 3 | 5) + f32)).at(0).value.bits, std::bit_cast<uint32_t>(0.1f));
  EXPECT_EQ(one(tensor(2, bytes_field(6, f64))).at(0).value, from_f64(std::bit_cast<uint64_t>(0.1)));
  EXPECT_EQ(one(tensor(14, bytes_field(13, varint(0xbf80)))).at(0).value.value(), -1);
  EXPECT_EQ(one(tensor(19, varint_field(13, 0x3c00), dim(1))).at(0).value.value(), 1);
  for (const auto& other : {tensor(1, bytes_field(5, f32 + f32), dim(2)), tensor(7, ""), tensor(1, ""),
                            tensor(1, bytes_field(4, f32), dim(0)), bytes_field(5, "")}) {
    EXPECT_TRUE(one(other).empty());
    EXPECT_EQ(parse_event(event(0, 3, "x", other))->others, 1);
  }
}

// Catches: a NaN payload, a sign of zero or a negative step lost on the way.
TEST(TensorBoard, EveryBitOfAFloat) {
  const Folder folder;
  std::string bytes;
  const uint32_t patterns[] = {0x80000000, 0x7fc00001, 0x7f800001, 1, 0xff800000};
  int64_t step = -2;
  for (const auto bits : patterns)
    bytes += framed(event(1, step++, "loss", varint(2 << 3 | 5) + little(bits, 4)));
  const auto log = read(folder.write("tfevents", bytes), {});
  ASSERT_EQ(steps_of(log), (Steps{-2, -1, 0, 1, 2}));
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(log.points[i].loss->bits, patterns[i]);
}

// Catches: files taken in the order of their names, a neighbour that is no event file, another run below.
TEST(TensorBoard, AFolderInTheOrderOfTime) {
  const Folder folder;
  folder.write("run/a.tfevents",
               framed(event(20, 2, "loss", simple(9))) + framed(event(21, 3, "loss", simple(3))));
  folder.write("run/b.tfevents",
               framed(event(10, 1, "loss", simple(1))) + framed(event(11, 2, "loss", simple(2))));
  folder.write("run/notes.txt", "no events");
  const auto log = read((folder.path / "run").string(), {});
  ASSERT_EQ(steps_of(log), (Steps{1, 2, 3}));
  EXPECT_EQ(log.points[1].loss->value(), 9);
  EXPECT_TRUE(noted(log.notes, "2 event files"));
  EXPECT_TRUE(has(refusal(folder.path.string()), "run"));
  EXPECT_TRUE(has(refusal(folder.path.string()), "these below it do"));
}

// Catches: damage that is read over, a file that is still being written refused, a tag that is guessed.
TEST(TensorBoard, DamageAndTags) {
  const Folder folder;
  const auto good = framed(event(1, 1, "loss", simple(1)));
  const auto flipped = [&](size_t at) {
    auto bytes = good + good;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    return bytes;
  };
  const ReadOptions board{.format = "tensorboard"};
  EXPECT_TRUE(has(refusal(folder.write("a", flipped(good.size() + 3)), board),
                  "checksum of the length of record 2 at byte " + std::to_string(good.size())));
  EXPECT_TRUE(
      has(refusal(folder.write("b", flipped(20)), board), "checksum of the data of record 1 at byte 0"));
  EXPECT_TRUE(has(refusal(folder.write("c", flipped(good.size() - 1)), board), "checksum of the data"));
  EXPECT_TRUE(has(refusal(folder.write("d", framed("\xff\xff")), board), "no event of TensorBoard"));
  EXPECT_TRUE(has(refusal(folder.write("e", framed(event(1, 1, "x", "\x12\xff"))), board), "no event"));
  for (const size_t keep : {1u, 11u, 13u, 40u}) {
    const auto cut = read(folder.write("f", good + good.substr(0, keep)), board);
    EXPECT_EQ(steps_of(cut), Steps{1}) << keep;
    EXPECT_TRUE(noted(cut.notes, "ends within a record")) << keep;
  }
  EXPECT_TRUE(read(folder.write("g", ""), board).points.empty());
  EXPECT_TRUE(has(refusal(folder.write("h", framed(event(1, 1, "my\x1bmetric", simple(1)))), board),
                  "no tag with a usual name; say --tag loss=NAME. It has 'my\\x1bmetric'"));
  EXPECT_TRUE(has(refusal(folder.write("i", good), {.format = "tensorboard", .loss = "y"}), "no tag 'y'"));
  const auto huge = little(uint64_t{1} << 40, 8);
  EXPECT_TRUE(has(refusal(folder.write("j", huge + little(masked(crc32c(huge)), 4)), board), "below 1 GiB"));
}

}  // namespace
}  // namespace lockstep::curves
