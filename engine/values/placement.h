// SPDX-License-Identifier: Apache-2.0
// Placement: what one mesh dimension does to a tensor. Values with a text form; no arithmetic.
//   R · S<dim> · I<dim>x<parts> · P, Pavg, Pmin, Pmax, Pprod · G<dims joined by .>:<units joined by />
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

namespace lockstep {

// Each kind names its fields. One with a `dim` cuts this tensor dimension, whatever the tensor: all below
// that asks for shards takes it for one.

// Every rank along the mesh dimension holds the same bits.
struct Replicate {
  auto fields() const { return std::tie(); }
  bool operator==(const Replicate&) const = default;
};

// Tensor dimension `dim` is cut as torch.chunk does: pieces of ceil(n/m), the last ones shorter or empty.
struct Shard {
  int64_t dim = 0;
  auto fields() const { return std::tie(dim); }
  bool operator==(const Shard&) const = default;
};

// Dimension `dim` is cut into `parts` pieces as torch.chunk does, each piece again over the mesh dimension; a
// rank holds its share of every piece, concatenated (veScale's InterleavedShard, torch's _StridedShard).
struct InterleavedShard {
  int64_t dim = 0;
  int64_t parts = 1;
  auto fields() const { return std::tie(dim, parts); }
  bool operator==(const InterleavedShard&) const = default;
};

// The leading dimensions `dims`, flattened, are cut into sum(units) equal blocks; rank r holds units[r] of
// them, after those of the ranks before it, as a tensor of one dimension. Without `dims` there is one block,
// and one rank holds all. Applied last among the placements, wherever it stands: it cuts what they leave to a
// rank (veScale-FSDP, section 4; left of a Shard of its dimension the paper calls it StridedRaggedShard).
// Where that differs by coordinate of the other mesh dimensions (257 rows over two ranks are 129 and 128),
// units may too: then `units` has a list for each such coordinate, row-major, one behind another (in text
// joined by |, as in G0:64/65|64/64). Compare units of a list divided by their gcd.
struct RaggedShard {
  std::vector<int64_t> dims;
  std::vector<int64_t> units;
  int64_t lists = 1;
  auto fields() const { return std::tie(dims, units, lists); }
  bool operator==(const RaggedShard&) const = default;
};

enum class ReduceOp { kSum, kAvg, kMin, kMax, kProduct };

// Each rank holds a term; the value is the terms' reduction in rank order.
struct Partial {
  ReduceOp op = ReduceOp::kSum;
  auto fields() const { return std::tie(op); }
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
// Of one dimension, any of them.
inline bool is_shard(const Placement& p) {
  return std::visit(
      [](const auto& kind) {
        return requires {
          kind.dim;
        };
      },
      p);
}
// A shard of which a rank holds more than one run.
inline bool is_scattered(const Placement& p) {
  return is_shard(p) && !std::holds_alternative<Shard>(p);
}
inline bool is_ragged(const Placement& p) {
  return std::holds_alternative<RaggedShard>(p);
}
// The ranks along the mesh dimension hold different elements: a shard of any kind.
inline bool distributes(const Placement& p) {
  return is_shard(p) || is_ragged(p);
}
// The tensor dimension that a shard cuts; -1 for what is none.
int64_t shard_dim(const Placement& p);
// Into how many pieces a shard cuts its dimension before ranks share each; 1 for the others.
int64_t parts(const Placement& p);
// The same kind of shard, of another tensor dimension.
Placement with_dim(const Placement& p, int64_t dim);

const char* name(ReduceOp op);  // "sum", "avg", "min", "max", "product"

// Without dimensions and sizes: R S I G P Pavg …
std::string kind(const Placement& p);
std::string to_string(const Placement& p);
std::string to_string(const Placements& p);  // [S0,R]
std::ostream& operator<<(std::ostream& out, const Placement& p);
std::ostream& operator<<(std::ostream& out, const Placements& p);

// @post parse_placement(to_string(p)) == p. Throws Error that quotes the text and lists the forms.
Placement parse_placement(std::string_view text);
// Accepts "[S0,R]"; the brackets are required.
Placements parse_placements(std::string_view text);

}  // namespace lockstep
