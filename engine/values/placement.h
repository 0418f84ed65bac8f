// SPDX-License-Identifier: Apache-2.0
// Placement: what one mesh dimension does to a tensor. Values with a text form; no arithmetic.
//   R · S<dim> · I<dim>x<parts> · P, Pavg, Pmin, Pmax, Pprod · G<dims joined by .>:<units joined by />
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lockstep {

// Every rank along the mesh dimension holds the same bits.
struct Replicate {
  bool operator==(const Replicate&) const = default;
};

// Tensor dimension `dim` is cut as torch.chunk does: pieces of ceil(n/m), the last ones shorter or empty.
struct Shard {
  int64_t dim = 0;
  bool operator==(const Shard&) const = default;
};

// Dimension `dim` is cut into `parts` pieces as torch.chunk does, each piece again over the mesh dimension; a
// rank holds its share of every piece, concatenated (veScale's InterleavedShard, torch's _StridedShard).
struct InterleavedShard {
  int64_t dim = 0;
  int64_t parts = 1;
  bool operator==(const InterleavedShard&) const = default;
};

// The leading dimensions `dims`, flattened, are cut into sum(units) equal blocks; rank r holds units[r] of
// them, after those of the ranks before it, as a tensor of one dimension. Without `dims` there is one block,
// and one rank holds all. Applied last among the placements: it cuts what they leave to a rank (veScale-FSDP,
// section 4). Compare units divided by their gcd.
struct RaggedShard {
  std::vector<int64_t> dims;
  std::vector<int64_t> units;
  bool operator==(const RaggedShard&) const = default;
};

enum class ReduceOp { kSum, kAvg, kMin, kMax, kProduct };

// Each rank holds a term; the value is the terms' reduction in rank order.
struct Partial {
  ReduceOp op = ReduceOp::kSum;
  bool operator==(const Partial&) const = default;
};

using Placement = std::variant<Replicate, Shard, InterleavedShard, RaggedShard, Partial>;
using Placements = std::vector<Placement>;

inline bool is_replicate(const Placement& p) {
  return std::holds_alternative<Replicate>(p);
}
inline bool is_partial(const Placement& p) {
  return std::holds_alternative<Partial>(p);
}
inline bool is_partial(const Placement& p, ReduceOp op) {
  return p == Placement(Partial{op});
}
// Shard or InterleavedShard of any dimension.
inline bool is_shard(const Placement& p) {
  return std::holds_alternative<Shard>(p) || std::holds_alternative<InterleavedShard>(p);
}
inline bool is_ragged(const Placement& p) {
  return std::holds_alternative<RaggedShard>(p);
}
// The ranks along the mesh dimension hold different elements: a shard of any kind.
inline bool distributes(const Placement& p) {
  return is_shard(p) || is_ragged(p);
}
// The tensor dimension that a Shard or InterleavedShard cuts; -1 for the others.
int64_t shard_dim(const Placement& p);
// The same kind of shard, of another tensor dimension.
Placement with_dim(const Placement& p, int64_t dim);

const char* name(ReduceOp op);  // "sum", "avg", "min", "max", "product"

std::string to_string(const Placement& p);
std::string to_string(const Placements& p);  // [S0,R]
std::ostream& operator<<(std::ostream& out, const Placement& p);
std::ostream& operator<<(std::ostream& out, const Placements& p);

// @post parse_placement(to_string(p)) == p. Throws Error that quotes the text and lists the forms.
Placement parse_placement(std::string_view text);
// Accepts "[S0,R]"; the brackets are required.
Placements parse_placements(std::string_view text);

}  // namespace lockstep
