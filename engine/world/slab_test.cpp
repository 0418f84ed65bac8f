// SPDX-License-Identifier: Apache-2.0
// A slab is what at::narrow gives, and is copied as that.
#include "engine/world/slab.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/world/bits.h"
#include "engine/world/fold.h"

namespace lockstep {
namespace {

// Tensors of one shape whose elements lie in several orders, some of them apart.
std::vector<at::Tensor> laid_out(at::IntArrayRef shape, c10::ScalarType dtype) {
  const auto dense = at::arange(1, c10::multiply_integers(shape) + 1).view(shape).to(dtype);
  auto apart = at::zeros({shape[0], shape[1] + 3, shape[2]}, dtype).narrow(1, 2, shape[1]);
  auto columns = at::zeros({shape[0], shape[1], shape[2] + 1}, dtype).narrow(2, 0, shape[2]);
  apart.copy_(dense), columns.copy_(dense);
  return {dense, apart, columns, dense.transpose(0, 2).contiguous().transpose(0, 2)};
}

template <class F>
void each_slab(const at::Tensor& tensor, F&& f) {
  f(Slab(tensor), tensor);
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    for (int64_t start = 0; start <= tensor.size(dim); ++start)
      for (int64_t n = 0; start + n <= tensor.size(dim); ++n)
        f(Slab(tensor, dim, start, n), tensor.narrow(dim, start, n));
}

// Catches: an interval along another dimension, one counted in bytes or from the storage's beginning.
TEST(SlabTest, IsWhatNarrowGives) {
  for (const auto& tensor : laid_out({2, 4, 3}, at::kFloat))
    each_slab(tensor, [](const Slab& slab, const at::Tensor& expected) {
      const auto view = slab.tensor();
      EXPECT_EQ(view.sizes(), expected.sizes());
      EXPECT_EQ(view.strides(), expected.strides());
      EXPECT_EQ(view.storage_offset(), expected.storage_offset());
      EXPECT_TRUE(view.is_alias_of(expected));
      EXPECT_EQ(slab.numel(), expected.numel());
      EXPECT_EQ(slab.nbytes(), static_cast<int64_t>(expected.nbytes()));
      EXPECT_TRUE(same_sizes(slab, expected));
      EXPECT_FALSE(same_sizes(slab, at::zeros({9, 9, 9})));
      EXPECT_TRUE(slab.numel() == 0 || slab.const_data_ptr() == expected.const_data_ptr());
    });
}

// Catches: rows that lie apart taken for one, what is left of a row after whole words, an element beside the
// slab written.
TEST(SlabTest, IsCopiedAsItsView) {
  for (const auto dtype : {at::kFloat, at::kChar, at::kDouble})
    for (const int64_t width : {1, 3, 8, 70})
      for (const auto& from : laid_out({2, 3, width}, dtype))
        for (const auto& into : laid_out({2, 3, width}, dtype))
          for (int64_t dim = 0; dim < 3; ++dim) {
            const int64_t n = from.size(dim) - 1, start = dim % 2;
            const auto expected = at::zeros_like(into), got = into.zero_();
            expected.narrow(dim, start, n).copy_(from.narrow(dim, 1 - start, n));
            copy_bits({got, dim, start, n}, {from, dim, 1 - start, n});
            ASSERT_TRUE(same_bits(got, expected)) << from << " along " << dim;
          }
}

// Catches: a fold in place that writes to the first term, or takes a strided term for a dense one.
TEST(FoldTest, OfStridedTermsIsTheSumOfTheirElements) {
  for (const auto& first : laid_out({2, 3, 5}, at::kFloat))
    for (const auto& second : laid_out({2, 3, 5}, at::kFloat)) {
      const auto kept = first.clone();
      Fold fold(ReduceOp::kSum);
      fold.add(first);
      fold.add(second);
      fold.add(second);
      EXPECT_TRUE(same_bits(fold.result(), kept.add(second).add(second)));
      EXPECT_TRUE(same_bits(first, kept));
    }
}

}  // namespace
}  // namespace lockstep
