// SPDX-License-Identifier: Apache-2.0
// Gradients of replicated parameters, which ranks have terms of: they pend until the end of a backward pass
// and are then added up, many in one exchange (DDP's reducer; veScale's annotate of a weight's gradient).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/nn/module.h"
#include "engine/plan/plan.h"
#include "engine/tensor/dtensor.h"

namespace lockstep {

struct BucketOptions {
  // Along which gradients pend. Ranks that differ in several of them are added up at once, in the row-major
  // order of the mesh.
  std::vector<std::string> mesh_dims;
  SumOrder order = SumOrder::kFold;
  int64_t bucket_bytes = 25 << 20;  // of gradients in one exchange, at least one (torch: bucket_cap_mb)
  std::vector<SumHop> hops = {};    // PlanRow's
};

class GradientBuckets {
 public:
  // The module's parameters of these paths become leaves whose gradients pend. What several layers share
  // stays one. Throws Error for a parameter that is cut along one of the mesh dimensions, or plain, and for
  // sums that its dtype cannot have (sum_path.h).
  GradientBuckets(nn::Module& module, const MeshInWorld& mesh, const std::vector<std::string>& paths,
                  BucketOptions options);

  // FSDP2's name. False: at the end of a backward pass gradients still pend, and each pass adds its terms;
  // the next pass with true in which some come adds up the ranks'. What had been added up before comes to it
  // last. Where the order tells passes apart, what they have left is in none of the gradients, as in FSDP2,
  // which are what they were before; a pass that fails loses it.
  void set_requires_gradient_sync(bool on);
  // Of passes that are told apart, what they have left: for a step that is given up, since zero_grad does not
  // see it.
  void forget();

  // Law: at the end of a backward pass that syncs each gradient is where its parameter is, as if it had been
  // reduced by itself, but for the order over several mesh dimensions, and of what several blocks share that
  // run again on the way back, which is one sum then; and the order that was asked for. Ranks have sent
  // 2 S (n - 1) / n bytes on average, of gradients of S bytes and n ranks, in two exchanges a bucket; where
  // ranks go first, or a sum of all is exact, the first of these is one a pass; where ranks are added up in a
  // wider dtype, it is of as many bytes more. A bucket is on its way as soon as its gradients are there, the
  // last parameters' first, and is waited for when the pass ends. A pass that fails leaves gradients that it
  // has not reached as they were. Where passes are told apart, a gradient that comes when its bucket has gone
  // is a term of one more pass, or, in the last one, added to the sum.
  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep
