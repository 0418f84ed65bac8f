// SPDX-License-Identifier: Apache-2.0
// Faults that a search within one process cannot look for: they take it along, stop it, or come and go.
#include <ATen/ATen.h>
#include <unistd.h>

#include <cstdlib>

#include "suites/faults/planters.h"
#include "suites/faults/touches.h"

namespace lockstep::suites::plant {
namespace {

bool many_rank_relu(const oracle::Case& c) {
  return c.mesh.size() > 1 && calls(c, "aten::relu");
}

}  // namespace

EnginePtr crashes() {
  return with_result([](const oracle::Case& c, EngineResult&) {
    if (many_rank_relu(c)) std::abort();
  });
}

EnginePtr hangs() {
  return with_result([](const oracle::Case& c, EngineResult&) {
    while (many_rank_relu(c)) sleep(1);
  });
}

EnginePtr comes_and_goes() {
  return with_result([](const oracle::Case& c, EngineResult& result) {
    static int64_t runs = 0;
    if (!many_rank_relu(c) || ++runs % 2 == 0) return;
    for (auto& value : result.values)
      for (auto& local : value.locals)
        if (local.numel() > 0 && local.is_floating_point())
          local = at::where(local == local, local + 1, local);
  });
}

}  // namespace lockstep::suites::plant
