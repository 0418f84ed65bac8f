// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/trace.h"

#include <c10/util/ScopeExit.h>

namespace lockstep {

PlanTrace trace(nn::Module& model, const std::function<void()>& step) {
  PlanTrace traced;
  struct Hooked {
    nn::Module* module;
    int64_t before, after;
  };
  std::vector<Hooked> all;
  std::vector<size_t> running;  // calls
  const auto unhook = c10::make_scope_exit([&] {
    for (const auto& each : all) {
      each.module->remove_hook(each.before);
      each.module->remove_hook(each.after);
    }
  });
  for (const auto& [module, paths] : model.modules_with_paths()) {
    traced.modules.push_back(paths);
    all.push_back(
        {module,
         module->register_forward_pre_hook([&, path = paths.front()](nn::Module&, nn::Tensors& inputs) {
           running.push_back(traced.calls.size());
           traced.calls.push_back({path, inputs, {traced.moves.size(), 0}, {traced.given.size(), 0}});
         }),
         module->register_forward_hook([&](nn::Module&, const nn::Tensors&, at::Tensor&) {
           auto& call = traced.calls[running.back()];
           call.moves.last = traced.moves.size();
           call.given.last = traced.given.size();
           running.pop_back();
         })});
  }
  const Within rows(&Context::plan_trace, &traced);
  const Within given(&Context::given, &traced.given);
  step();
  return traced;
}

}  // namespace lockstep
