// SPDX-License-Identifier: Apache-2.0
#include "engine/world/world.h"

#include <exception>

#include "engine/values/error.h"
#include "engine/values/spec.h"

namespace lockstep {

void Work::wait() {
  LOCKSTEP_CHECK(finish_ != nullptr, "[", op_, "] has been waited for already");
  std::exchange(finish_, nullptr)();
}

Work Work::then(std::function<void()> next) && {
  return Work(op_, [first = std::exchange(finish_, nullptr), next = std::move(next)]() mutable {
    std::exchange(first, nullptr)();
    next();
  });
}

Work Work::around(std::function<void(const std::function<void()>& finish)> run) && {
  return Work(op_, [run = std::move(run), finish = std::exchange(finish_, nullptr)] { run(finish); });
}

Work::~Work() noexcept(false) {
  if (std::exchange(finish_, nullptr) != nullptr && std::uncaught_exceptions() == 0)
    throw Error(concat("[", op_, "] was begun and never waited for; call wait() on its Work"));
}

std::string form(const at::Tensor& tensor) {
  return concat(dtype_name(tensor.scalar_type()), tensor.sizes());
}

}  // namespace lockstep
