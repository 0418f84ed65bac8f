// SPDX-License-Identifier: Apache-2.0
// All faults, by number. The suites and the numbers of cases in their rows are promises that the suite
// `faults` keeps.
#include <algorithm>

#include "engine/values/error.h"
#include "suites/faults/tables.h"

namespace lockstep::suites {
namespace {

std::vector<Fault> all_faults() {
  std::vector<Fault> all;
  for (const auto& part :
       {plant::world_faults(), plant::overlap_faults(), plant::rule_faults(), plant::random_faults(),
        plant::operator_faults(), plant::program_faults(), plant::result_faults(), plant::order_faults(),
        plant::storage_faults(), plant::training_faults(), plant::sharding_faults(), plant::asking_faults(),
        plant::buffer_faults(), plant::optim_faults(), plant::checkpoint_faults(), plant::expert_faults(),
        plant::plan_faults(), plant::bypass_faults(), plant::form_faults()})
    all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end(), [](const Fault& a, const Fault& b) { return a.number < b.number; });
  return all;
}

}  // namespace

std::span<const Fault> process_faults() {
  static const auto all = plant::process_faults();
  return all;
}

std::span<const Fault> faults() {
  static const auto all = all_faults();
  return all;
}

const Fault& find_fault(std::string_view name) {
  std::string names;
  for (const auto list : {faults(), process_faults()})
    for (const auto& f : list) {
      if (f.name == name) return f;
      names += concat(names.empty() ? "" : ", ", f.name);
    }
  throw Error(concat("[faults] no fault is called '", name, "'; there are: ", names));
}

}  // namespace lockstep::suites
