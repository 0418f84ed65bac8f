// SPDX-License-Identifier: Apache-2.0
#include "engine/values/reduction_order.h"

#include <algorithm>
#include <array>
#include <ostream>
#include <span>

#include "engine/values/error.h"
#include "engine/values/text.h"

namespace lockstep {
namespace {

using Kind = ReductionOrder::Kind;
using Node = ReductionOrder::Node;

constexpr std::array<const char*, 5> kKinds = {"term", "fold", "tree", "exact", "ring"};
constexpr std::array kOps = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
constexpr int kDeepest = 64;                       // no text is a way to the end of the stack
constexpr int64_t kMostDivisor = (1LL << 31) - 1;  // and no divisor leaves what 64 bits divide by

const char* name(Kind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

// The fold along the last of `dims` of the folds along those before, for the group's rank `rank` and on.
Node folded(const Spec& spec, const std::vector<int64_t>& group, std::span<const int64_t> dims,
            int64_t rank) {
  Node node;
  node.rank = rank;
  if (dims.empty()) return node;
  const int64_t dim = dims.back(), size = spec.mesh().size(dim);
  const auto* partial = std::get_if<Partial>(&spec.placements()[static_cast<size_t>(dim)]);
  LOCKSTEP_CHECK(partial != nullptr, "[order] ", spec, " has nothing to reduce along mesh dimension ", dim);
  int64_t step = 1;
  for (const int64_t d : group) step *= d > dim ? spec.mesh().size(d) : 1;
  const bool average = partial->op == ReduceOp::kAvg;
  node = {Kind::kFold, 0, 0, average ? ReduceOp::kSum : partial->op, spec.dtype(), average ? size : 1, {}};
  for (int64_t c = 0; c < size; ++c)
    node.children.push_back(folded(spec, group, dims.first(dims.size() - 1), rank + c * step));
  return node;
}

// ---- what must hold ----

class Validator {
 public:
  Validator(const ReductionOrder& order, int64_t ranks, int64_t microbatches)
      : order_(order), ranks_(ranks), microbatches_(microbatches) {}

  void slice(const ReductionOrder::Slice& s, int64_t after, int64_t elements) {
    check(s.begin > after && s.begin < elements, "has a slice that begins at element ", s.begin,
          "; the first begins at 0 and the others later, each before element ", elements);
    check(s.root.kind != Kind::kTerm, "has a term for a root");
    taken_.assign(static_cast<size_t>(ranks_ * microbatches_), false);
    node(s.root, s.root);
    check(std::find(taken_.begin(), taken_.end(), false) == taken_.end(), once(), ranks_ * microbatches_,
          " terms once");
  }

  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    LOCKSTEP_CHECK(condition, "[order] ", order_, ' ', parts...);
  }

 private:
  static const char* once() { return "does not take each of the "; }

  void node(const Node& n, const Node& root) {
    if (n.kind == Kind::kTerm) return term(n);
    const bool floating = c10::isFloatingType(n.dtype), sum = n.op == ReduceOp::kSum;
    check(!n.children.empty(), "has a node without terms");
    check(n.op != ReduceOp::kAvg, "averages; an average is a sum with a divisor");
    check(n.op == root.op, "reduces by ", name(n.op), " and by ", name(root.op));
    check(n.kind != Kind::kExact || (sum && floating), "is exact by ", name(n.op), " in ",
          dtype_name(n.dtype), "; only sums of a floating dtype round once");
    check(n.divisor == 1 || (n.divisor > 1 && n.divisor <= kMostDivisor && sum && floating), "divides a ",
          name(n.op), " in ", dtype_name(n.dtype), " by ", n.divisor,
          "; only sums of a floating dtype are divided, by at most ", kMostDivisor);
    for (const Node& child : n.children) node(child, root);
  }

  void term(const Node& n) {
    const bool known = n.rank >= 0 && n.rank < ranks_ && n.microbatch >= 0 && n.microbatch < microbatches_;
    const auto at = known ? static_cast<size_t>(n.rank * microbatches_ + n.microbatch) : 0;
    check(known && !taken_[at], once(), ranks_ * microbatches_, " terms once");
    taken_[at] = true;
  }

  const ReductionOrder& order_;
  const int64_t ranks_, microbatches_;
  std::vector<bool> taken_;  // by rank and microbatch
};

// ---- text ----

void print(std::string& out, const Node& n, const Node* parent) {
  if (n.kind == Kind::kTerm) {
    out += std::to_string(n.rank);
    if (n.microbatch != 0) out += ".m" + std::to_string(n.microbatch);
    return;
  }
  if (parent == nullptr || n.op != parent->op || n.dtype != parent->dtype || n.divisor != 1) {
    out += name(n.op);
    if (n.divisor != 1) out += "/" + std::to_string(n.divisor);
    out += ":" + dtype_name(n.dtype);
  }
  out.append("(").append(name(n.kind));
  for (const Node& child : n.children) {
    out += ' ';
    print(out, child, &n);
  }
  out += ')';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  ReductionOrder order() {
    ReductionOrder result;
    if (text_ == "none") return result;
    if (skip("over ")) {
      const auto dims = parse_integers(until(":"), '.');
      if (!dims) refuse("mesh dimensions joined by .");
      result.mesh_dims = *dims;
      expect(": ");
    }
    do result.slices.push_back(slice());
    while (skip("; "));
    if (at_ != text_.size()) refuse("its end");
    return result;
  }

 private:
  [[noreturn]] void refuse(std::string_view wanted) const {
    throw Error(concat("[order] '", text_, "' is no order of a reduction: at character ", at_, " it wants ",
                       wanted, "; for example over 0: sum:f32(fold 0 1 2 3)"));
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool skip(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  void expect(std::string_view wanted) {
    if (!skip(wanted)) refuse(wanted);
  }
  // What stands before the first of these characters.
  std::string_view until(std::string_view stops) {
    const auto rest = text_.substr(at_);
    const auto word = rest.substr(0, rest.find_first_of(stops));
    at_ += word.size();
    return word;
  }
  int64_t number() {
    const auto value = parse_integer(until(" ()[]/:.;="));
    if (!value) refuse("a number");
    return *value;
  }

  ReductionOrder::Slice slice() {
    ReductionOrder::Slice result;
    if (skip("[")) {
      result.begin = number();
      expect(":");
      if (peek() != ']') number();  // the next begin: the printed text tells
      expect("]=");
    }
    result.root = tree(nullptr, 0);
    return result;
  }

  Node child(const Node& parent, int depth) {
    if (peek() < '0' || peek() > '9') return tree(&parent, depth);
    Node term;
    term.rank = number();
    if (skip(".m")) term.microbatch = number();
    return term;
  }

  Node tree(const Node* parent, int depth) {
    if (depth > kDeepest) refuse(concat("at most ", kDeepest, " nested nodes"));
    Node result;
    if (parent != nullptr && peek() == '(') {
      result.op = parent->op;
      result.dtype = parent->dtype;
    } else {
      head(result);
    }
    expect("(");
    const auto kind = std::find(kKinds.begin() + 1, kKinds.end(), until(" )"));
    if (kind == kKinds.end()) refuse("fold, tree, exact or ring");
    result.kind = static_cast<Kind>(kind - kKinds.begin());
    while (skip(" ")) result.children.push_back(child(result, depth + 1));
    expect(")");
    return result;
  }

  void head(Node& node) {
    const auto word = until("/:");
    const auto op = std::find_if(kOps.begin(), kOps.end(), [&](ReduceOp o) { return word == name(o); });
    if (op == kOps.end()) refuse("sum, min, max or product before this");
    node.op = *op;
    if (skip("/")) node.divisor = number();
    expect(":");
    node.dtype = parse_dtype(until("("));
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

ReductionOrder fold_over(const Spec& spec, const std::vector<int64_t>& mesh_dims) {
  ReductionOrder order{mesh_dims, {}};
  std::sort(order.mesh_dims.begin(), order.mesh_dims.end());
  if (!mesh_dims.empty()) order.slices.push_back({0, folded(spec, order.mesh_dims, mesh_dims, 0)});
  return order;
}

void validate(const ReductionOrder& order, int64_t ranks, int64_t microbatches, int64_t elements) {
  Validator v(order, ranks, microbatches);
  const auto& dims = order.mesh_dims;
  v.check(std::adjacent_find(dims.begin(), dims.end(), std::greater_equal<>()) == dims.end(),
          "has mesh dimensions that do not ascend");
  v.check(order.empty() || order.slices.front().begin == 0, "does not begin at element 0");
  int64_t before = -1;
  for (const auto& s : order.slices) {
    v.slice(s, before, std::max<int64_t>(elements, 1));
    before = s.begin;
  }
}

std::string to_string(const ReductionOrder& order) {
  if (order.empty()) return "none";
  std::string text = order.mesh_dims.empty() ? "" : "over " + join(order.mesh_dims, '.') + ": ";
  for (size_t i = 0; i < order.slices.size(); ++i) {
    const bool last = i + 1 == order.slices.size();
    if (order.slices.size() > 1)
      text += concat(i > 0 ? "; " : "", '[', order.slices[i].begin, ':',
                     last ? "" : std::to_string(order.slices[i + 1].begin), "]=");
    print(text, order.slices[i].root, nullptr);
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const ReductionOrder& order) {
  return out << to_string(order);
}

ReductionOrder parse_reduction_order(std::string_view text) {
  auto order = Parser(text).order();
  LOCKSTEP_CHECK(to_string(order) == text, "[order] '", text, "' is written ", order);
  return order;
}

}  // namespace lockstep
