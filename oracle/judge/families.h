// SPDX-License-Identifier: Apache-2.0
// The one table of ops that round on the way from several elements to one: how many roundings there are, of
// what size, and whether a slice may round otherwise than the whole.
#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <string_view>

#include "oracle/program/schema.h"

namespace lockstep::oracle {

// How far the op's result may be from its float64 answer: `magnitude` times the roundings on the path.
enum class Bound {
  kLinear,              // magnitude: the op on the magnitudes of its terms
  kRelative,            // magnitude: the answer itself (products, powers, norms: no cancellation)
  kLayerNorm,           // gradients of weight and bias; magnitude: |g| (|x| + |mean|) rstd, |g|
  kRmsNorm,             // gradient of weight; magnitude: |g| |x| rstd
  kVariance,            // magnitude: the mean of the squares
  kSoftmax,             // magnitude: the answer times the range of the exponents
  kLogSoftmax,          // also logsumexp; magnitude: 1 + |answer| + range of the exponents
  kSoftmaxBackward,     // magnitude: |y| (|g| + sum |g y|)
  kLogSoftmaxBackward,  // magnitude: |g| + exp(y) sum |g|
  kTwoPaths,  // none, or what the kernel gives for such an element in its vector body or in its tail
};

// How many roundings of the accumulation type stand between a term and the result, from the shapes of the op.
using Shapes = std::span<const std::vector<int64_t>>;
using Roundings = int64_t (*)(Shapes inputs, Shapes outputs);

struct OpFamily {
  std::string_view name = {};  // without overload and without the underscore of in-place variants
  Bound bound = Bound::kLinear;
  Roundings roundings = nullptr;
  bool accumulates_narrow = false;  // adds in the tensor's own dtype, not in a wider one
  // Why the stock kernel on a slice may round otherwise than on the whole; empty: it never does.
  std::string_view local_kernel = {};
  bool fast_lane = false;  // local_kernel holds only there
  bool zero_sign = false;  // what local_kernel says is of the sign of a zero
};

// Null if the op is not in the table. `name` may have an overload, an in-place underscore, or a "_foreach_"
// prefix.
const OpFamily* find_family(std::string_view name);
// "aten::_foreach_add_.List" -> "add": how the tables of the judge name an op.
std::string_view family_key(std::string_view name);
std::span<const OpFamily> families();

// Ops without a line there: their bits are the plain answer's, or there is a difference. What looks at
// several elements at once has to be here or there, so that nobody forgets to ask whether a slice may round
// otherwise.
struct EqualOps {
  std::string_view reason, names;  // with blanks between them, as in OpFamily
};
std::span<const EqualOps> equal_ops();

// It looks at each element alone. Not all are tagged so: of the list ops all but the norms apply a pointwise
// op to each, and of others a table names those whose overloads have the tag by chance.
bool is_pointwise(const Operator& op);
// Whether these tables say what its bits may be: pointwise, random and composite ops need no line.
bool is_known(const Operator& op);

// Ops whose results are memory without values, to be written next.
bool leaves_unset(std::string_view name);

}  // namespace lockstep::oracle
