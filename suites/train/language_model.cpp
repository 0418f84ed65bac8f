// SPDX-License-Identifier: Apache-2.0
#include "suites/train/language_model.h"

#include <ATen/ATen.h>

#include "suites/train/gpt2.h"
#include "suites/train/llama.h"

namespace lockstep::suites {

at::Tensor LanguageModel::loss_of(nn::Module& loss, const at::Tensor& logits, const at::Tensor& targets) {
  const bool half = logits.scalar_type() == at::kHalf || logits.scalar_type() == at::kBFloat16;
  return loss(half ? logits.to(at::kFloat) : logits, targets);
}

std::shared_ptr<LanguageModel> make_model(const ModelOptions& options) {
  if (options.architecture == Architecture::kGpt2) return std::make_shared<Gpt2>(options);
  return std::make_shared<Llama>(options);
}

const char* layers_path(const ModelOptions& options) {
  return options.architecture == Architecture::kGpt2 ? "h" : "layers";
}

}  // namespace lockstep::suites
