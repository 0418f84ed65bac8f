// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/arriving.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "engine/context/context.h"

namespace lockstep {

Arriving::Arriving(std::string what, CommPtr comm, PerRank<at::Tensor> sent,
                   std::function<PerRank<at::Tensor>()> take)
    : what_(std::move(what)), comm_(std::move(comm)), sent_(std::move(sent)), take_(std::move(take)) {
  comm_->context->arriving.push_back(this);
}

// Where a program ends by an error, that is what is to be told. What goes wrong in a wait that nobody asked
// for, the ranks that do ask say.
Arriving::~Arriving() {
  if (take_ == nullptr) return;
  try {
    locals();
  } catch (const std::exception&) {
  }
  if (std::uncaught_exceptions() > 0) return;
  comm_->context->never_waited.push_back(what_);
  TORCH_WARN(what_,
             " was begun with async_op, and nobody used its result; leave it out, or wait_tensor() it");
}

const PerRank<at::Tensor>& Arriving::locals() {
  if (failed_ != nullptr) std::rethrow_exception(failed_);
  if (take_ == nullptr) return locals_;
  std::erase(comm_->context->arriving, this);
  const auto take = std::exchange(take_, nullptr);
  try {
    locals_ = take();
  } catch (...) {
    failed_ = std::current_exception();
    throw;
  }
  sent_.clear();
  return locals_;
}

bool Arriving::sends(const PerRank<at::Tensor>& written) const {
  return std::any_of(sent_.begin(), sent_.end(), [&](const at::Tensor& sent) {
    return std::any_of(written.begin(), written.end(),
                       [&](const at::Tensor& local) { return sent.is_alias_of(local); });
  });
}

}  // namespace lockstep
