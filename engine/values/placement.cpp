// SPDX-License-Identifier: Apache-2.0
#include "engine/values/placement.h"

#include <ostream>

#include "engine/values/error.h"
#include "engine/values/text.h"

namespace lockstep {
namespace {

struct ReduceName {
  ReduceOp op;
  const char* name;
  const char* text;
};
constexpr ReduceName kReduceNames[] = {{ReduceOp::kSum, "sum", "P"},
                                       {ReduceOp::kAvg, "avg", "Pavg"},
                                       {ReduceOp::kMin, "min", "Pmin"},
                                       {ReduceOp::kMax, "max", "Pmax"},
                                       {ReduceOp::kProduct, "product", "Pprod"}};

const ReduceName& entry(ReduceOp op) {
  return kReduceNames[static_cast<size_t>(op)];
}

struct Printer {
  std::string operator()(const Replicate&) const { return "R"; }
  std::string operator()(const Shard& s) const { return concat("S", s.dim); }
  std::string operator()(const InterleavedShard& s) const { return concat("I", s.dim, "x", s.parts); }
  std::string operator()(const RaggedShard& s) const {
    auto text = concat("G", join(s.dims, '.'), ":");
    const auto ranks = std::ssize(s.units) / s.lists;
    for (int64_t k = 0; k < s.lists; ++k) {
      const auto first = s.units.begin() + k * ranks;
      text += (k > 0 ? "|" : "") + join(std::vector<int64_t>(first, first + ranks), '/');
    }
    return text;
  }
  std::string operator()(const Partial& p) const { return entry(p.op).text; }
};

[[noreturn]] void refuse(std::string_view text) {
  throw Error(
      concat("[placement] '", text,
             "' is not a placement; the forms are R, S<dim>, I<dim>x<parts>, P, Pavg, Pmin, Pmax, Pprod and "
             "G<dims joined by .>:<units joined by />, for example S0, I0x3, G0.1:0/1/5/2"));
}

Placement parse_interleaved(std::string_view text) {
  const auto numbers = parse_integers(text.substr(1), 'x');
  if (!numbers || numbers->size() != 2 || (*numbers)[1] < 1) refuse(text);
  return InterleavedShard{(*numbers)[0], (*numbers)[1]};
}

Placement parse_ragged(std::string_view text) {
  const auto halves = split(text.substr(1), ':');
  if (halves.size() != 2) refuse(text);
  auto dims = halves[0].empty() ? std::make_optional<std::vector<int64_t>>() : parse_integers(halves[0], '.');
  if (!dims) refuse(text);
  RaggedShard ragged{std::move(*dims), {}, 0};
  for (const auto& list : split(halves[1], '|')) {
    const auto units = parse_integers(list, '/');
    if (!units) refuse(text);
    LOCKSTEP_CHECK(
        std::ssize(ragged.units) == std::ssize(*units) * ragged.lists, "[placement] '", text,
        "' has lists of units of several lengths; each has a unit for each rank, as in G0:2/1|1/1");
    ++ragged.lists;
    ragged.units.insert(ragged.units.end(), units->begin(), units->end());
  }
  return ragged;
}

}  // namespace

int64_t shard_dim(const Placement& p) {
  return std::visit(
      [](const auto& of) -> int64_t {
        if constexpr (requires { of.dim; }) return of.dim;
        return -1;
      },
      p);
}

int64_t parts(const Placement& p) {
  return std::visit(
      [](const auto& of) -> int64_t {
        if constexpr (requires { of.parts; }) return of.parts;
        return 1;
      },
      p);
}

Placement with_dim(const Placement& p, int64_t dim) {
  return std::visit(
      [&](auto of) -> Placement {
        if constexpr (requires { of.dim; }) {
          of.dim = dim;
          return of;
        }
        throw Broken(concat("[placement] with_dim of ", p, ", which has no dimension"));
      },
      p);
}

const char* name(ReduceOp op) {
  return entry(op).name;
}

std::string kind(const Placement& p) {
  return distributes(p) ? to_string(p).substr(0, 1) : to_string(p);
}

std::string to_string(const Placement& p) {
  return std::visit(Printer{}, p);
}

std::string to_string(const Placements& p) {
  std::string text = "[";
  for (size_t i = 0; i < p.size(); ++i) text += (i ? "," : "") + to_string(p[i]);
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const Placement& p) {
  return out << to_string(p);
}
std::ostream& operator<<(std::ostream& out, const Placements& p) {
  return out << to_string(p);
}

Placement parse_placement(std::string_view text) {
  if (text == "R") return Replicate{};
  for (const auto& reduce : kReduceNames)
    if (text == reduce.text) return Partial{reduce.op};
  if (text.starts_with('I')) return parse_interleaved(text);
  if (text.starts_with('G')) return parse_ragged(text);
  const auto dim = text.starts_with('S') ? parse_integer(text.substr(1)) : std::nullopt;
  if (!dim) refuse(text);
  return Shard{*dim};
}

Placements parse_placements(std::string_view text) {
  LOCKSTEP_CHECK(
      text.size() >= 2 && text.front() == '[' && text.back() == ']', "[placement] '", text,
      "' is not a list of placements; write them in brackets, one for each mesh dimension: [S0,R]");
  Placements placements;
  for (const auto part : split(text.substr(1, text.size() - 2), ','))
    placements.push_back(parse_placement(part));
  return placements;
}

}  // namespace lockstep
