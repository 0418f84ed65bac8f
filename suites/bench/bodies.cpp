// SPDX-License-Identifier: Apache-2.0
#include "suites/bench/body.h"

#include "engine/values/digest.h"
#include "engine/values/error.h"

namespace lockstep::suites {

const Bodies& bodies() {
  static const Bodies all = [] {
    Bodies list;
    for (const auto add :
         {add_dispatch, add_rungs, add_redistribute, add_reductions, add_random, add_cases, add_small_cases,
          add_training, add_training_rungs, add_formats, add_padding, add_scaling, add_store})
      add(list);
    return list;
  }();
  return all;
}

void check_bits(const std::string& who, const std::vector<at::Tensor>& expected,
                const std::vector<at::Tensor>& actual) {
  if (expected.size() != actual.size())
    throw WrongBits(
        concat("[", who, "] gives ", actual.size(), " tensors where ", expected.size(), " are right"));
  for (size_t i = 0; i < expected.size(); ++i)
    if (digest(expected[i]) != digest(actual[i]))
      throw WrongBits(
          concat("[", who, "] result ", i, " of ", expected.size(), " has wrong bits, shape or dtype"));
}

dashboard::Series instructions_of(const dashboard::Series& timed) {
  return {timed.name + ": instructions", timed.area, true, false, "instructions"};
}

}  // namespace lockstep::suites
