// SPDX-License-Identifier: Apache-2.0
#include "suites/core/outcome.h"

#include <cstdio>
#include <set>

#include "engine/values/error.h"

namespace lockstep::suites {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace

dashboard::Verdict verdict_of(const Outcome& outcome) {
  return std::visit(
      Overloaded{[](const Passed& p) { return p.verdict; }, [](const Failed& f) { return f.kind; },
                 [](const Flaky&) { return dashboard::Verdict::kNondeterministic; },
                 [](const GaveUp&) { return dashboard::Verdict::kGaveUp; },
                 [](const HarnessBroken&) { return dashboard::Verdict::kBroken; }},
      outcome);
}

std::string explanation_of(const Outcome& outcome) {
  return std::visit(
      Overloaded{[](const Passed& p) { return p.note; }, [](const Failed& f) { return f.explanation; },
                 [](const Flaky& f) { return f.side + " is not deterministic: " + f.explanation; },
                 [](const GaveUp& g) { return g.text; }, [](const HarnessBroken& b) { return b.what; }},
      outcome);
}

GaveUp left_out(const std::string& lacking) {
  return {{"", concat(kLeftOut, lacking)}, "the engine lacks: " + lacking};
}

GaveUp not_judged(const std::string& why, const std::string& text) {
  return {{"", concat(kNotJudged, why)}, concat(kNotJudged, why, " (", text, ")")};
}

Failed failed(const std::string& suite, std::string verdict, std::string op, std::string pattern,
              std::string dtype, std::string explanation) {
  Failed f;
  f.bucket = bucket(suite, verdict, op, pattern, dtype);
  f.verdict = std::move(verdict);
  f.op = std::move(op);
  f.pattern = std::move(pattern);
  f.dtype = std::move(dtype);
  f.explanation = std::move(explanation);
  return f;
}

std::string placement_pattern(const std::vector<Placements>& placements) {
  std::set<std::string> kinds;
  for (const auto& one : placements)
    for (const auto& p : one) kinds.insert(is_partial(p) ? "P" : kind(p));
  std::string text;
  for (const auto& one : kinds) text += (text.empty() ? "" : "+") + one;
  return text.empty() ? "-" : text;
}

std::string bucket(const std::string& suite, const std::string& verdict, const std::string& op,
                   const std::string& pattern, const std::string& dtype) {
  return concat(suite, " | ", verdict, " | ", op.empty() ? "-" : op, " | ", pattern, " | ",
                dtype.empty() ? "-" : dtype);
}

uint64_t stable_hash(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325ull;  // FNV-1a, then a finalizer so that short texts spread over all bits
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdull;
  return h ^ (h >> 33);
}

std::string hex(uint64_t word) {
  char buffer[17];
  std::snprintf(buffer, sizeof buffer, "%016lx", word);
  return buffer;
}
std::string hex(const Digest& digest) {
  return hex(digest.hi) + hex(digest.lo);
}

}  // namespace lockstep::suites
