// SPDX-License-Identifier: Apache-2.0
#include "suites/bench/check_bits.h"

#include "engine/values/digest.h"
#include "engine/values/error.h"
#include "suites/bench/body.h"

namespace lockstep::suites {

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

}  // namespace lockstep::suites
