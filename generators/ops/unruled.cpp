// SPDX-License-Identifier: Apache-2.0
// Ops that have no sharding rule, which a Case may let run whole on every rank, and their makers.
#include "generators/ops/makers.h"

namespace lockstep::generators {
namespace {

bool has_history(const OpTemplate& op) {
  return (op.traits & kNoHistory) == 0;
}

// Of one tensor, and nothing else.
bool of_one(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .least = 1, .grad = has_history(op)});
  return emit(b, op, {x}, {x});
}

bool repeat(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes});
  std::vector<int64_t> times;
  for (int64_t d = b.ndim(x) + b.random().below(2); d > 0; --d) times.push_back(b.random().between(1, 2));
  return emit(b, op, {x, times}, {x});
}

// Half of a dimension gates the other half.
bool glu(Builder& b, const OpTemplate& op) {
  Shape shape = {b.random().between(1, 4), b.random().between(1, 4)};
  const auto dim = b.random().below(2);
  shape[static_cast<size_t>(dim)] *= 2;
  const Ref x = b.operand({.dtypes = op.dtypes, .shape = shape});
  return emit(b, op, {x, dim}, {x});
}

// Of probabilities, and probabilities.
bool entropy(Builder& b, const OpTemplate& op) {
  const oracle::Values between{.kind = oracle::ValueKind::kUniform,
                               .seed = static_cast<uint64_t>(b.random().below(100))};
  const Ref x = b.fresh({.dtypes = op.dtypes, .least = 1, .values = between});
  const Ref target =
      b.fresh({.dtypes = bit_of(b.dtype(x)), .shape = b.shape(x), .values = between, .grad = false});
  return emit(b, op, {x, target, None{}, b.random().below(3)}, {x, target});
}

bool prelu(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .least = 1});
  const Shape of_each = {b.random().chance(50) ? 1 : b.tensor(x).size(1)};
  const Ref weight = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = of_each});
  return emit(b, op, {x, weight}, {x, weight});
}

bool trace(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 2, .grad = has_history(op)});
  return emit(b, op, {x}, {x});
}

bool kth_value(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto dim = draw_dim(b, b.ndim(x));
  return emit(b, op, {x, b.random().between(1, b.tensor(x).size(dim)), dim, b.random().chance(40)}, {x});
}

// The numbers of elements between bounds, and between those of another tensor.
bool histogram(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .grad = false});
  return emit(b, op, {x, b.random().between(1, 6), int64_t{-2}, int64_t{3}}, {x});
}
bool bucketize(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .grad = false});
  const Ref bounds =
      b.operand({.dtypes = bit_of(b.dtype(x)), .shape = Shape{b.random().between(0, 5)}, .grad = false});
  return emit(b, op, {x, bounds}, {x, bounds});
}
bool count_each(Builder& b, const OpTemplate& op) {
  constexpr int64_t kMost = 5;
  const Ref x = b.fresh(
      {.dtypes = op.dtypes, .shape = Shape{b.random().between(0, 9)}, .values = indices_below(kMost)});
  // With fewer the values would say how many there are.
  return b.exactly(op.op, {x, None{}, kMost});
}

bool is_in(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes});
  const Ref among = b.operand({.dtypes = bit_of(b.dtype(x)), .max_dims = 1});
  return emit(b, op, {x, among}, {x, among});
}

bool take(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .least = 1});
  const Ref index = b.fresh({.dtypes = kI64, .max_dims = 2, .values = indices_below(b.tensor(x).numel())});
  return emit(b, op, {x, index}, {x, index});
}

// In place only where every rank has all of it: there whole tensors are what an op without a rule may write.
bool index_copy(Builder& b, const OpTemplate& op) {
  Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1, .writable = op.in_place()});
  if (op.in_place()) {
    const Ref whole = b.redistribute(x, replicated(b.settings().mesh));
    if (whole == x) return false;
    x = whole;
  }
  const auto dim = draw_dim(b, b.ndim(x));
  auto shape = b.shape(x);
  auto& rows = shape[static_cast<size_t>(dim < 0 ? dim + b.ndim(x) : dim)];
  const Ref index = b.fresh({.dtypes = kI64, .shape = Shape{2}, .values = indices_below(rows)});
  rows = 2;
  const Ref source = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = shape, .apart = {x}});
  return emit(b, op, {x, dim, index, source}, {x, index, source});
}

bool scatter_reduce(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto dim = b.random().below(b.ndim(x));
  const Ref index =
      b.fresh({.dtypes = kI64, .shape = b.shape(x), .values = indices_below(b.tensor(x).size(dim))});
  const Ref source = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = b.shape(x)});
  const std::string how = b.random().pick({"sum", "amax", "amin"});
  return emit(b, op, {x, dim, index, source, how, b.random().chance(60)}, {x, index, source});
}

bool masked_scatter(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes});
  const Ref mask = b.operand({.dtypes = kBool, .shape = b.shape(x)});
  const Ref source = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = b.shape(x)});
  return emit(b, op, {x, mask, source}, {x, mask, source});
}

Ref draw_image(Builder& b, const OpTemplate& op) {
  auto& random = b.random();
  return b.operand({.dtypes = op.dtypes,
                    .shape = Shape{random.between(1, 2), 2 * random.between(1, 2), random.between(1, 3),
                                   random.between(1, 3)}});
}

bool enlarge(Builder& b, const OpTemplate& op) {
  const Ref image = draw_image(b, op);
  return emit(b, op, {image, std::vector<int64_t>{b.random().between(1, 6), b.random().between(1, 6)}},
              {image});
}

// Not of an image without a gradient whose channels lie last: libtorch's kernel writes to that gradient where
// the weight or the bias has one, and takes the process along.
bool group_norm(Builder& b, const OpTemplate& op) {
  const Ref image = draw_image(b, op);
  const auto& x = b.tensor(image);
  if (!x.requires_grad() && x.suggest_memory_format() == at::MemoryFormat::ChannelsLast) return false;
  const auto of_channels = [&] {
    return b.operand({.dtypes = bit_of(b.dtype(image)), .shape = Shape{b.tensor(image).size(1)}});
  };
  const Ref weight = of_channels(), bias = of_channels();
  return emit(b, op, {image, b.random().between(1, 2), weight, bias}, {image, weight, bias});
}

// In a fixed order, which cases are drawn by.
constexpr OpTemplate kUnruled[] = {
    {"aten::repeat", kCopies, repeat, kNumbers, kNo, kDiff},
    {"aten::glu", kNeural, glu, kWide, kNo, kDiff},
    {"aten::huber_loss", kNeural, mse_loss, kWide, kNo, kDiff},
    {"aten::smooth_l1_loss", kNeural, mse_loss, kWide, kNo, kDiff},
    {"aten::binary_cross_entropy", kNeural, entropy, kWide, kNo, kDiff},
    {"aten::prelu", kNeural, prelu, kWide, kNo, kDiff},
    {"aten::group_norm", kNeural, group_norm, kWide, kNo, kDiff},
    {"aten::upsample_nearest2d", kNeural, enlarge, kWide, kNo, kDiff},
    {"aten::aminmax", kReductions, of_one, kWide, kNo, kNoHistory},
    {"aten::median", kReductions, of_one, kWide, kNo, kDiff},
    {"aten::median.dim", kReductions, reduce_dim, kWide, kNo, kDiff},
    {"aten::mode", kReductions, reduce_dim, kWide, kNo, kDiff},
    {"aten::kthvalue", kReductions, kth_value, kWide, kNo, kDiff},
    {"aten::cummax", kReductions, scan, kWide, kNo, kDiff},
    {"aten::cummin", kReductions, scan, kWide, kNo, kDiff},
    {"aten::trace", kReductions, trace, kWide, kNo, kDiff},
    {"aten::count_nonzero", kReductions, of_one, kNumbers, kNo, kNoHistory},
    {"aten::histc", kReductions, histogram, kWide, kNo, kNoHistory},
    {"aten::bincount", kReductions, count_each, kI64, kNo, kNoHistory},
    {"aten::bucketize.Tensor", kIndexing, bucketize, kWide, kNo, kNoHistory},
    {"aten::isin.Tensor_Tensor", kIndexing, is_in, kI64, kNo, kNoHistory},
    {"aten::take", kIndexing, take, kWide, kNo, kDiff},
    {"aten::index_copy", kIndexing, index_copy, kWide, kNo, kDiff},
    {"aten::index_copy_", kIndexing, index_copy, kWide, kNo, kDiff},
    {"aten::scatter_reduce.two", kIndexing, scatter_reduce, kWide, kNo, kDiff},
    {"aten::masked_scatter", kIndexing, masked_scatter, kWide, kNo, kDiff},
};

}  // namespace

std::span<const OpTemplate> unruled_templates() {
  return kUnruled;
}

void call_unruled(Builder& b) {
  const auto& op = kUnruled[b.random().below(std::ssize(kUnruled))];
  op.make(b, op);
}

}  // namespace lockstep::generators
