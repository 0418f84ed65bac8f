// SPDX-License-Identifier: Apache-2.0
// `lockstep engine serve` for tests that stand below the program.
#include <unistd.h>

#include "engine/lane/numerics.h"
#include "suites/engines/serve.h"

int main(int, char** argv) {
  lockstep::enter_lane(lockstep::Lane::kExact, argv);
  return lockstep::suites::serve_engine(STDIN_FILENO, STDOUT_FILENO);
}
