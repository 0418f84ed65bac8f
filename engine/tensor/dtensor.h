// SPDX-License-Identifier: Apache-2.0
// DTensor: an at::Tensor whose impl carries a Spec and one local tensor for each hosted rank. The public API,
// with PyTorch's names. A DTensor is passed around as a plain at::Tensor; every libtorch op on it reaches the
// engine.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "engine/stream/random_source.h"
#include "engine/values/per_rank.h"
#include "engine/values/spec.h"
#include "engine/world/worlds.h"

namespace lockstep {

struct Comm;

// A mesh in a World: what collectives run on. Worlds are compared by identity. Made by init_device_mesh.
struct MeshInWorld {
  DeviceMesh mesh;
  WorldPtr world;
  std::shared_ptr<const Comm> comm;
};

// torch.distributed.init_device_mesh. Without a world: a local_world(product of shape) of its own, so that
// DTensors of two such calls never meet: call it once, or pass the first one's world to the second.
MeshInWorld init_device_mesh(c10::DeviceType device_type, std::vector<int64_t> shape,
                             std::vector<std::string> names = {}, WorldPtr world = nullptr);
// On the CPU.
MeshInWorld init_device_mesh(std::vector<int64_t> shape, std::vector<std::string> names = {},
                             WorldPtr world = nullptr);

// Cuts a global tensor by placements. Every rank passes the same tensor, or, with src_data_rank set (the
// default is mesh coordinate 0), its bits are broadcast from there; std::nullopt: each rank cuts its own
// copy, no communication. Partial: by sum and product coordinate 0 keeps the value, the others the identity
// (-0.0 for sum); by avg, min and max every coordinate keeps the value. `order`: in which order mesh
// dimensions cut, where several cut one tensor dimension; empty: left to right ([S0,S0] with order {1,0}: the
// second mesh dimension makes the big pieces). Keeps requires_grad (a new leaf). Throws Error for a tensor
// that is not a dense real one on the CPU with values.
at::Tensor distribute_tensor(const at::Tensor& tensor, const MeshInWorld& mesh, const Placements& placements,
                             const std::vector<int64_t>& order = {},
                             std::optional<int64_t> src_data_rank = 0);

// Differentiable. One local tensor for each hosted rank, in mesh order; under RaggedShard flat ones, of one
// dimension. Without a shape, it is the first local's times the mesh dimensions that shard it (even shards,
// none ragged); without a stride, it lies in memory as the first local does; a local that lies otherwise is
// copied, the others are shared. Local shapes must be what Layout says, else Error naming the rank. run_check
// (torch's default is false): replicas must agree in bits, which is an all-gather; else Error naming the
// rank. `order`: as distribute_tensor's. `padded`: the locals are as to_local(…, padded) gives them, with
// anything in the padding, which is never read; the shape has to be told.
at::Tensor from_local(const PerRank<at::Tensor>& locals, const MeshInWorld& mesh,
                      const Placements& placements, std::optional<std::vector<int64_t>> shape = std::nullopt,
                      std::optional<std::vector<int64_t>> stride = std::nullopt, bool run_check = true,
                      const std::vector<int64_t>& order = {}, bool padded = false);

bool is_dtensor(const at::Tensor& tensor);
// All of these throw Error if `tensor` is not a DTensor.
const Spec& spec(const at::Tensor& tensor);
const Placements& placements(const at::Tensor& tensor);
MeshInWorld device_mesh(const at::Tensor& tensor);
const WorldPtr& world(const at::Tensor& tensor);

// Differentiable. The local tensors of the hosted ranks; they share storage with the DTensor. Their gradients
// are placed as the tensor is, Replicate where it pends, unless grad_placements says Partial for Replicate:
// then each rank's is a term of a sum. Where they are replicated they must agree in bits, else the backward
// pass throws Error naming the rank; torch's DTensor goes on with gradients that differ. `padded`: all in the
// shape of the largest, as collectives need them that know no others: with zeros at the end of each
// dimension, which have no gradient; those that are smaller are copies. Law: padded and back is unpadded.
PerRank<at::Tensor> to_local(const at::Tensor& tensor, const Placements& grad_placements = {},
                             bool padded = false);
// Differentiable. The global value, from the first hosted rank after redistributing to Replicate; what
// depends on it is computed once, so its gradient is that of every rank's copy.
at::Tensor full_tensor(const at::Tensor& tensor);
// Differentiable. The same values under other placements: always a new tensor, never an alias. async_op, as
// torch's: the last step of the way is begun, and whoever uses the result first waits for it; what is known
// of its Spec is no use. Until then an op that writes to `tensor` is Refused. A result that goes before
// anybody has used it is waited for, warned of and named (take_never_waited). The backward pass waits at
// once.
at::Tensor redistribute(const at::Tensor& tensor, const Placements& placements,
                        const std::vector<int64_t>& order = {}, bool async_op = false);
// Several of one mesh at once, each as redistribute() gives it: those whose routes have steps of one kind
// along the same mesh dimension share one exchange of the World, forward and backward. `placements`: one for
// each tensor, or one for all; `orders` as many, or none. Throws Error before anything moves.
std::vector<at::Tensor> redistribute(const std::vector<at::Tensor>& tensors,
                                     const std::vector<Placements>& placements,
                                     const std::vector<std::vector<int64_t>>& orders = {});
// To another mesh in the same World, of another shape, in another order, of some of its ranks or of others:
// all ranks of both meshes call it. What pends is reduced on the way. The result is of the Context in which
// that mesh was made. In a process that hosts no rank of a mesh a DTensor on it has no locals, and ops on it
// give such again; one whose result depends on values is Refused. Throws Error for another World.
at::Tensor redistribute(const at::Tensor& tensor, const MeshInWorld& mesh, const Placements& placements,
                        const std::vector<int64_t>& order = {}, bool async_op = false);
// torch.distributed._functional_collectives.wait_tensor: `tensor` itself, which has arrived. Of the operators
// of `_c10d_functional` (and _autograd), called through libtorch's dispatcher with a mesh dimension's name
// for the group, DTensors take those that make parts of the same tensor of a group's locals:
// all_gather_into_tensor of Shard(0), all_reduce and reduce_scatter_tensor (to Shard(0)) of a Partial of
// their reduction, the _coalesced of them as one list, and all_to_all_single with equal splits, between
// Shard(0) and InterleavedShard(0, ranks). Ranks hold as many rows each. Each is begun as with async_op. All
// else is Refused.
at::Tensor wait_tensor(const at::Tensor& tensor);
// "[redistribute] f32[4x3]@[S0] -> [R]", …: what was begun in the current Context and never used, since it
// was last asked.
std::vector<std::string> take_never_waited();

// The locals without autograd, as they are.
const PerRank<at::Tensor>& local_tensors(const at::Tensor& tensor);

// A leaf that requires grad and whose gradient arrives in its own placements (Partial becomes Replicate), as
// a Parameter of torch's distribute_module.
at::Tensor parameter(const at::Tensor& tensor);

// Factories; random ones draw the single device's values from generator(), which manual_seed seeds
// (engine/stream/random_source.h).
at::Tensor zeros(std::vector<int64_t> shape, const MeshInWorld& mesh, const Placements& placements,
                 c10::ScalarType dtype = c10::ScalarType::Float);
at::Tensor ones(std::vector<int64_t> shape, const MeshInWorld& mesh, const Placements& placements,
                c10::ScalarType dtype = c10::ScalarType::Float);
at::Tensor full(std::vector<int64_t> shape, const at::Scalar& value, const MeshInWorld& mesh,
                const Placements& placements, c10::ScalarType dtype = c10::ScalarType::Float);
at::Tensor empty(std::vector<int64_t> shape, const MeshInWorld& mesh, const Placements& placements,
                 c10::ScalarType dtype = c10::ScalarType::Float);
at::Tensor rand(std::vector<int64_t> shape, const MeshInWorld& mesh, const Placements& placements,
                c10::ScalarType dtype = c10::ScalarType::Float);
at::Tensor randn(std::vector<int64_t> shape, const MeshInWorld& mesh, const Placements& placements,
                 c10::ScalarType dtype = c10::ScalarType::Float);
// torch.normal(mean, std, size)
at::Tensor normal(double mean, double std, std::vector<int64_t> shape, const MeshInWorld& mesh,
                  const Placements& placements, c10::ScalarType dtype = c10::ScalarType::Float);
at::Tensor randint(int64_t low, int64_t high, std::vector<int64_t> shape, const MeshInWorld& mesh,
                   const Placements& placements, c10::ScalarType dtype = c10::ScalarType::Long);
// Every rank computes the whole permutation and keeps its part.
at::Tensor randperm(int64_t n, const MeshInWorld& mesh, const Placements& placements,
                    c10::ScalarType dtype = c10::ScalarType::Long);

// While alive, an implicit redistribution is an Error that names the op, the Specs and the remedy (torch:
// ExplicitRedistributionContext).
struct ExplicitRedistribution : Within<bool> {
  ExplicitRedistribution() : Within(&Context::explicit_redistribution, true) {}
};

// While alive, in forward and backward passes, an op that has no rule runs on whole tensors, on every rank
// alike; its results are Replicate, and the Context counts it (`fallbacks`). Views, random ops and what
// changes a tensor's shape in place refuse as before.
struct FallbackReplicate : Within<bool> {
  FallbackReplicate() : Within(&Context::fallback_replicate, true) {}
};

}  // namespace lockstep
