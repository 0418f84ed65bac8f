// SPDX-License-Identifier: Apache-2.0
#include "suites/faults/sharded_cases.h"

#include "engine/values/as_size.h"
#include "suites/faults/tables.h"
#include "suites/fsdp/predicted_step.h"

namespace lockstep::suites::plant {
namespace {

std::string dtype(const oracle::Case& c, const char* name, const std::string& usual) {
  const auto found = c.options.find(name);
  return found == c.options.end() ? usual : found->second;
}

std::string computed_in(const oracle::Case& c) {
  return dtype(c, "param_dtype", dtype(c, "dtype", "f32"));
}

bool is_many(const Sharding& s) {
  return s.mesh.size(s.mesh.dim_index("fsdp")) > 1;
}

}  // namespace

int64_t option(const oracle::Case& c, const char* name, int64_t usual) {
  const auto found = c.options.find(name);
  return found == c.options.end() ? usual : std::stoll(found->second);
}

bool computes_in_half(const oracle::Case& c) {
  return dtype(c, "param_dtype", "").ends_with("f16");
}
bool computes_in_another(const oracle::Case& c) {
  return computed_in(c) != dtype(c, "dtype", "f32");
}
bool reduces_in_another(const oracle::Case& c) {
  return many_ranks(c) && dtype(c, "reduce_dtype", computed_in(c)) != computed_in(c);
}
bool returns_another(const oracle::Case& c) {
  return dtype(c, "output_dtype", computed_in(c)) != computed_in(c);
}
bool reduces_in_f32(const oracle::Case& c) {
  return many_ranks(c) && computed_in(c) == "f32" && dtype(c, "reduce_dtype", "f32") == "f32";
}
bool waits_for_last(const oracle::Case& c) {
  return option(c, "passes", 1) > 1 && option(c, "each") == 0;
}
bool is_counted(const oracle::Case& c) {
  const auto sharding = sharding_of(c);
  return is_many(sharding) && gathers_of_a_pass(sharding).has_value();
}
// The outermost module alone is not cut, and has parameters.
bool keeps_outermost(const oracle::Case& c) {
  const auto sharding = sharding_of(c);
  const bool has_own = sharding.wrap + 1 < int64_t{1} << sharding.blocks.size();
  return sharding.gathered == 2 && has_own && is_many(sharding) && is_predicted(sharding);
}
bool keeps_among(const oracle::Case& c) {
  const auto sharding = sharding_of(c);
  return sharding.among > 0 && is_predicted(sharding);
}
bool keeps_gathered(const oracle::Case& c) {
  return is_counted(c) && sharding_of(c).gathered == 1;
}
// A unit but the outermost has another to prefetch, which is cut until then.
bool prefetches_next(const oracle::Case& c) {
  const auto sharding = sharding_of(c);
  return sharding.prefetch > 0 && unit_paths(sharding).size() > 2 && sharding.kept == 0 &&
         sharding.by_hand == 0 && sharding.unused == 0 && sharding.nested == 0;
}
// Gathered by hand, and still so after a backward pass.
bool stays_by_hand(const oracle::Case& c) {
  const auto sharding = sharding_of(c);
  return sharding.by_hand > 0 && sharding.gathered == 1 && sharding.kept == 0 && sharding.frozen == 0;
}
bool runs_list(const oracle::Case& c) {
  const auto sharding = sharding_of(c);
  const auto units = unit_paths(sharding);
  return is_counted(c) && sharding.gathered == 0 && sharding.nested == 0 && units.size() > 1 &&
         units[1].size() > 1;
}
// All gradients come as terms.
bool has_terms(const oracle::Case& c) {
  return !comes_in_parts(sharding_of(c));
}
bool prefetches_steps(const oracle::Case& c) {
  return option(c, "prefetch") > 0 && option(c, "gathered") == 0 && option(c, "wrap") > 0 &&
         option(c, "steps", 1) > 1 && option(c, "kept") == 0 && option(c, "by_hand") == 0 &&
         !computes_in_another(c);
}
bool waits_for_replicas(const oracle::Case& c) {
  return option(c, "each") == 2 && has_replicas(c);
}
bool has_replicas(const oracle::Case& c) {
  bool any = false;
  for (int64_t d = 0; d < c.mesh.ndim(); ++d)
    any |= c.mesh.names()[as_size(d)].starts_with("dp") && c.mesh.size(d) > 1;
  return any && !has_tp(c.mesh);
}
bool steps_on(const oracle::Case& c) {
  return option(c, "steps", 1) > 1;
}
bool drops(const oracle::Case& c) {
  const auto found = c.options.find("model");
  return found != c.options.end() && found->second.find('d') != std::string::npos;
}
bool drops_again(const oracle::Case& c) {
  return drops(c) && option(c, "recompute") > 0;
}

}  // namespace lockstep::suites::plant
