// SPDX-License-Identifier: Apache-2.0
// The cost of dispatch: with one rank, what an op on a DTensor takes above the same op on a plain tensor;
// with more, above the kernels on each hosted local, past autograd, which a DTensor passes but once. What
// one rank takes with parts of the engine switched off is in rungs.cpp.
#include <ATen/core/LegacyTypeDispatch.h>

#include <memory>

#include "engine/ops/rules/table.h"
#include "engine/values/error.h"
#include "suites/bench/dispatch_ops.h"
#include "suites/bench/measure.h"

namespace lockstep::suites {
namespace {

void run_kernels(const Op& op, const Operands& on) {
  const at::AutoDispatchBelowADInplaceOrView below;
  run_plain(op, on);
}

Prepared cached(const Op& op, int64_t ranks) {
  auto on = std::make_shared<const Operands>(operands(op, ranks, 16));
  const auto plain = ranks == 1 ? run_plain : run_kernels;
  return {[&op, on] { check(op, *on); },
          [&op, on, plain](double least) {
            return 1e6 * seconds_above([&] { op.run(on->distributed); }, [&] { plain(op, *on); }, least);
          },
          [&op, on] { op.run(on->distributed); }};
}

// Storages that one call allocates, the op's own results included.
Prepared allocations(const Op& op) {
  auto on = std::make_shared<const Operands>(operands(op, 2, 16));
  return {[&op, on] { check(op, *on); },
          [&op, on](double) {
            op.run(on->distributed);
            return tensor_allocations([&] { op.run(on->distributed); });
          }};
}

void forget_decisions() {
  register_sharding("lockstep::none", [](const OpCall&) { return Rows{}; });
  unregister_sharding("lockstep::none");
}

constexpr int64_t kShapes = 32;

std::shared_ptr<std::vector<Operands>> operands_of_many_shapes(const Op& op) {
  auto shapes = std::make_shared<std::vector<Operands>>();
  for (int64_t i = 0; i < kShapes; ++i) shapes->push_back(operands(op, 1, 8 + i));
  return shapes;
}

// Two passes over the shapes: each is decided once.
Prepared misses(const Op& op) {
  auto shapes = operands_of_many_shapes(op);
  return {[&op, shapes] { check(op, shapes->front()); },
          [&op, shapes](double) {
            const BypassScope decides({});
            forget_decisions();
            return decisions([&] {
              for (int pass = 0; pass < 2; ++pass)
                for (const auto& on : *shapes) op.run(on.distributed);
            });
          }};
}

// Each call meets shapes that it has not seen.
Prepared missed(const Op& op) {
  auto shapes = operands_of_many_shapes(op);
  auto warm = std::make_shared<const Operands>(operands(op, 1, 4));
  return {[&op, shapes] { check(op, shapes->front()); },
          [&op, shapes, warm](double least) {
            double spent = 0;
            int64_t calls = 0;
            while (spent < least) {
              forget_decisions();
              op.run(warm->distributed);  // what is known of the op itself is not what a new shape costs
              const double start = thread_seconds();
              for (const auto& on : *shapes) op.run(on.distributed);
              const double middle = thread_seconds();
              for (const auto& on : *shapes) run_plain(op, on);
              spent += (middle - start) - (thread_seconds() - middle);
              calls += kShapes;
            }
            return 1e6 * spent / static_cast<double>(calls);
          }};
}

dashboard::Series counted(const Op& op, const std::string& what) {
  return {concat("dispatch ", op.name, ", ", what), "dispatch", true, false, "1"};
}

}  // namespace

void add_dispatch(Bodies& bodies) {
  for (const auto& op : dispatch_ops()) {
    for (const int64_t ranks : {1, 2, 8})
      bodies.push_back({dispatch_series(op, concat("cached, ", ranks, ranks == 1 ? " rank" : " ranks")),
                        [&op, ranks] { return cached(op, ranks); }});
    bodies.push_back({dispatch_series(op, "new shape, 1 rank"), [&op] { return missed(op); }});
    bodies.push_back({counted(op, "2 ranks: tensor allocations"), [&op] { return allocations(op); }});
    bodies.push_back(
        {counted(op, concat(kShapes, " shapes twice: decisions")), [&op] { return misses(op); }});
  }
}

}  // namespace lockstep::suites
