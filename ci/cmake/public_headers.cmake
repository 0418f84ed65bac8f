# SPDX-License-Identifier: Apache-2.0
# The public headers: what suites/lockstep.h includes, and what those need. Only these are installed, under lockstep/;
# program.example builds against them alone, so one that is missing here fails it.
set(_public
  engine/checkpoint/checkpoint.h
  engine/checkpoint/safetensors.h
  engine/context/activity.h
  engine/context/context.h
  engine/context/generator.h
  engine/debug/breakpoint.h
  engine/debug/chrome_trace.h
  engine/debug/comm_debug_mode.h
  engine/debug/console.h
  engine/fsdp/fully_shard.h
  engine/fsdp/held_memory.h
  engine/fsdp/mixed_precision.h
  engine/fsdp/planner.h
  engine/fsdp/reshard.h
  engine/lane/numerics.h
  engine/layout/layout.h
  engine/layout/sharding_table.h
  engine/nn/blocks.h
  engine/nn/checkpoint.h
  engine/nn/deferred.h
  engine/nn/distribute.h
  engine/nn/init.h
  engine/nn/layers.h
  engine/nn/module.h
  engine/ops/rules/local.h
  engine/ops/rules/record.h
  engine/ops/rules/row.h
  engine/ops/rules/table.h
  engine/optim/adamw8bit.h
  engine/optim/muon.h
  engine/optim/optimizer.h
  engine/plan/gradient_buckets.h
  engine/plan/optimize.h
  engine/plan/parallelize.h
  engine/plan/plan.h
  engine/plan/styles.h
  engine/plan/trace.h
  engine/random/random_policy.h
  engine/random/tensor_source.h
  engine/stream/random_call.h
  engine/stream/random_source.h
  engine/tensor/arriving.h
  engine/tensor/dtensor.h
  engine/tensor/dtensor_impl.h
  engine/tensor/timeline_log.h
  engine/values/device_mesh.h
  engine/values/per_rank.h
  engine/values/placement.h
  engine/values/reduction_order.h
  engine/values/spec.h
  engine/values/timeline.h
  engine/world/comm.h
  engine/world/slab.h
  engine/world/world.h
  engine/world/worlds.h
  oracle/judge/check.h
  oracle/judge/forgiveness.h
  oracle/judge/replay.h
  oracle/ownership/compare.h
  oracle/ownership/ownership.h
  oracle/ownership/share.h
  oracle/ownership/slicing.h
  oracle/plain/evaluate.h
  oracle/plain/recompute.h
  oracle/plain/recording.h
  oracle/program/program.h
  oracle/program/schema.h
  oracle/program/statements.h
)
foreach(header ${_public})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${CMAKE_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep/${folder})
endforeach()
install(FILES ${CMAKE_SOURCE_DIR}/suites/lockstep.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep)
