// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/dtensor.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/context/asking.h"
#include "engine/move/execute.h"
#include "engine/random/draw.h"
#include "engine/stream/random_checks.h"
#include "engine/tensor/gradients.h"
#include "engine/tensor/padded.h"
#include "engine/tensor/plain_guard.h"
#include "engine/tensor/redistribute.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/ragged.h"
#include "engine/world/bits.h"
#include "engine/world/collectives.h"
#include "engine/world/share.h"

namespace lockstep {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Why this tensor can neither be cut nor be a part; empty: it can.
std::string unfit(const at::Tensor& tensor, const DeviceMesh& mesh) {
  if (!tensor.defined()) return "is undefined; give it a value first";
  if (tensor.layout() != at::kStrided)
    return concat("has layout ", tensor.layout(), "; make it dense first, with to_dense()");
  if (tensor.is_meta() && mesh.device_type() != c10::kMeta)
    return "is on the meta device and has no values; make it with lockstep::empty, or see "
           "engine/nn/deferred.h";
  if (const auto type = mesh.device_type(); tensor.device().type() != type)
    return concat("is on device ", tensor.device(), ", and the mesh on ", c10::Device(type),
                  "; move it with to()");
  if (tensor.is_complex() || tensor.is_quantized())
    return concat("has dtype ", tensor.scalar_type(),
                  ", which no placement is defined for; use view_as_real() or dequantize()");
  return "";
}

// Local extents along each dimension add up to the global ones; exact for even shards, checked by
// check_shapes.
std::vector<int64_t> global_shape(const at::Tensor& local, const DeviceMesh& mesh,
                                  const Placements& placements) {
  auto shape = local.sizes().vec();
  LOCKSTEP_CHECK(!has_ragged(placements), "[from_local] ", placements,
                 " makes locals flat, which tells nothing of the global shape; pass it");
  for (int64_t d = 0; d < mesh.ndim(); ++d)
    if (const int64_t dim = shard_dim(placements[as_size(d)]); dim >= 0) {
      LOCKSTEP_CHECK(dim < static_cast<int64_t>(shape.size()), "[from_local] ", placements[as_size(d)],
                     " needs dimension ", dim, ", but the local tensor has shape ", local.sizes());
      shape[as_size(dim)] *= mesh.size(d);
    }
  return shape;
}

// Dense, in the memory order of the local tensor; flat locals have none to tell.
std::vector<int64_t> global_stride(const at::Tensor& local, const std::vector<int64_t>& shape) {
  const bool tells = as_size(local.dim()) == shape.size() && !local.is_contiguous();
  return tells ? at::infer_dense_strides(shape, local.strides()) : contiguous_strides(shape);
}

// @post the locals of the hosted ranks fit the global shape: what sizes() tells is what there is.
void check_shapes(const PerRank<at::Tensor>& locals, const Spec& spec, const Comm& comm) {
  for (size_t i = 0; i < locals.size(); ++i) {
    const auto expected = local_shape(spec, comm.positions[i]);
    LOCKSTEP_CHECK(locals[i].sizes() == at::IntArrayRef(expected) && locals[i].scalar_type() == spec.dtype(),
                   "[from_local] rank ", comm.ranks[i], " gave ", dtype_name(locals[i].scalar_type()),
                   locals[i].sizes(), ", but ", to_string(spec), " needs ", dtype_name(spec.dtype()),
                   at::IntArrayRef(expected), " there; pass the global shape of an uneven tensor");
  }
}

void check_replicas(const PerRank<at::Tensor>& locals, const Spec& spec, const Comm& comm, const char* who,
                    const char* remedy) {
  for (int64_t d = 0; d < spec.mesh().ndim(); ++d) {
    if (!is_replicate(spec.placements()[as_size(d)])) continue;
    all_gather(*comm.world, comm.along[as_size(d)], locals, [&](size_t i, const at::Tensor& copy) {
      LOCKSTEP_CHECK(same_bits(copy, locals[i]), "[", who, "] ", to_string(spec), " is replicated along ",
                     spec.mesh().names()[as_size(d)], ", but rank ", comm.ranks[i],
                     " holds other bits than its group; ", remedy);
    }).wait();
  }
}

// Of whole tensors; those that are the first one bit by bit share its copy's storage.
PerRank<at::Tensor> copies_of(const PerRank<at::Tensor>& wholes, const Spec& spec) {
  PerRank<at::Tensor> copies;
  const auto is_first = [&](const at::Tensor& whole) {
    return whole.is_same(wholes.front()) || (!whole.is_meta() && same_bits(whole, wholes.front()));
  };
  for (const auto& whole : wholes)
    if (!copies.empty() && is_first(whole))
      copies.push_back(shared_copy(copies.front()));
    else
      copies.push_back(conform(whole.clone(), spec));
  return copies;
}

// Each of the two pairs below is the other's way back, so that gradients have gradients.
struct FromLocal : torch::autograd::Function<FromLocal> {
  static at::Tensor forward(AutogradContext* ctx, at::TensorList locals, const SpecPtr& spec,
                            const CommPtr& comm);
  static variable_list backward(AutogradContext* ctx, const variable_list& grads);
};

struct ToLocal : torch::autograd::Function<ToLocal> {
  // @param grad how the gradients of the local tensors are placed.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& input, const SpecPtr& grad);
  static variable_list backward(AutogradContext* ctx, const variable_list& grads);
};

at::Tensor FromLocal::forward(AutogradContext* ctx, at::TensorList locals, const SpecPtr& spec,
                              const CommPtr& comm) {
  ctx->set_materialize_grads(false);
  ctx->saved_data["to"] = hold(spec, comm);
  PerRank<at::Tensor> plain;
  for (const auto& local : locals) plain.push_back(conform(local.detach(), *spec));
  return make_dtensor(spec, comm, std::move(plain));
}

// The gradient of what pends goes whole to each of its terms: what comes back for them is to be added up.
SpecPtr spec_of_terms(const Spec& value) {
  auto placements = value.placements();
  for (auto& p : placements)
    if (is_partial(p)) p = Partial{};
  return std::make_shared<const Spec>(value.with_placements(std::move(placements), value.order()));
}

variable_list FromLocal::backward(AutogradContext* ctx, const variable_list& grads) {
  const auto to = held_in(ctx->saved_data["to"]);
  variable_list result(to->comm->positions.size());
  if (grads[0].defined()) {
    // Whoever else waits for this gradient may make it his own, as a plain leaf will that of its rank.
    const bool is_awaited = grads[0].use_count() > 1;
    auto grad = for_leaf(settled(grads[0], to->spec, to->comm));
    if (is_awaited && grad.is_same(grads[0])) grad = grad.clone();
    log_read("lockstep::to_local", grad);
    result = ToLocal::apply(grad, spec_of_terms(*to->spec));
  }
  result.resize(result.size() + 2);
  return result;
}

variable_list ToLocal::forward(AutogradContext* ctx, const at::Tensor& input, const SpecPtr& grad) {
  ctx->set_materialize_grads(false);
  const auto& impl = require_dtensor(input, "to_local");
  ctx->saved_data["grad"] = hold(grad, impl.comm());
  variable_list result;
  for (const auto& local : impl.locals()) result.push_back(local.alias());
  return result;
}

// A local tensor that has no gradient has zeros, unless none has any.
variable_list ToLocal::backward(AutogradContext* ctx, const variable_list& grads) {
  if (std::none_of(grads.begin(), grads.end(), [](auto& g) { return g.defined(); })) return {{}, {}};
  const auto held = held_in(ctx->saved_data["grad"]);
  const auto& spec = *held->spec;
  for (const auto& grad : grads)
    if (grad.defined()) require_dense(grad, spec, "to_local");
  PerRank<at::Tensor> locals;
  for (size_t i = 0; i < grads.size(); ++i)
    locals.push_back(grads[i].defined()
                         ? grads[i]
                         : at::zeros(local_shape(spec, held->comm->positions[i]), local_options(spec)));
  if (spec.mesh().device_type() != c10::kMeta)
    check_replicas(locals, spec, *held->comm, "to_local",
                   "use full_tensor, or say with grad_placements that the gradients are terms of a sum");
  return {FromLocal::apply(at::TensorList(locals), held->spec, held->comm), at::Tensor()};
}

// A plain tensor, the same on every rank, as a replicated DTensor.
struct Spread : torch::autograd::Function<Spread> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& plain, const SpecPtr& spec,
                            const CommPtr& comm) {
    ctx->set_materialize_grads(false);
    ctx->saved_data["to"] = hold(spec, comm);
    auto copies = shared_copies(plain.detach(), comm->positions.size());
    conform_all(copies, *spec);
    return make_dtensor(spec, comm, std::move(copies));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!grads[0].defined()) return variable_list(3);
    const auto to = held_in(ctx->saved_data["to"]);
    return {full_tensor(settled(grads[0], to->spec, to->comm)), at::Tensor(), at::Tensor()};
  }
};

// The one value that every rank holds a copy of: its gradient is each copy's, and lies as it arrives.
struct FirstCopy : torch::autograd::Function<FirstCopy> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input) {
    ctx->set_materialize_grads(false);
    const auto& impl = require_dtensor(input, "full_tensor");
    ctx->saved_data["of"] = hold(impl.spec(), impl.comm());
    return impl.locals().front().variable_data();  // no view, which nobody could write to
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!grads[0].defined()) return variable_list(1);
    const auto of = held_in(ctx->saved_data["of"]);
    require_dense(grads[0], *of->spec, "full_tensor");
    const auto dense = grads[0].clone();
    const auto spec = std::make_shared<const Spec>(
        of->spec->with_tensor(of->spec->shape(), dense.strides().vec(), of->spec->dtype()));
    return {Spread::apply(dense, spec, of->comm)};
  }
};

// Every distribution as it is in the value; a term of a sum only where each rank has a whole.
SpecPtr spec_of_gradients(const Spec& value, const Placements& placements) {
  auto own = dual(value.placements());
  if (placements.empty()) return std::make_shared<const Spec>(value.with_placements(own, value.order()));
  LOCKSTEP_CHECK(placements.size() == own.size(), "[to_local] grad_placements ", placements, " for ", value,
                 "; one for each mesh dimension");
  for (size_t d = 0; d < own.size(); ++d)
    LOCKSTEP_CHECK(placements[d] == own[d] || (is_replicate(own[d]) && is_partial(placements[d])),
                   "[to_local] grad_placements ", placements, " for ", value,
                   ": the gradient of a rank's part is ", own[d], " there",
                   is_replicate(own[d]) ? ", or a Partial" : "");
  return std::make_shared<const Spec>(value.with_placements(placements, value.order()));
}

SpecPtr spec_for(const MeshInWorld& mesh, const Placements& placements, std::vector<int64_t> shape,
                 c10::ScalarType dtype) {
  return std::make_shared<const Spec>(mesh.mesh, placements, std::move(shape), dtype);
}

at::Tensor drawn(RandomCall call, const MeshInWorld& mesh, const Placements& placements) {
  const PlainGuard guard;
  const auto comm = comm_of(mesh);
  const ContextScope its(comm->context);
  const auto values = spec_for(mesh, dual(placements), call.shape, call.dtype);
  call.stride = values->stride();
  auto locals = draw(call, *values, *comm);
  return move_to(make_dtensor(values, comm, std::move(locals)), placements, {}, false);
}

}  // namespace

MeshInWorld init_device_mesh(std::vector<int64_t> shape, std::vector<std::string> names, WorldPtr world) {
  return init_device_mesh(c10::kCPU, std::move(shape), std::move(names), std::move(world));
}

MeshInWorld init_device_mesh(c10::DeviceType device_type, std::vector<int64_t> shape,
                             std::vector<std::string> names, WorldPtr world) {
  const auto mesh = DeviceMesh(std::move(shape), std::move(names)).on(device_type);
  if (world == nullptr) world = local_world(mesh.size(), device_type);
  auto comm = std::make_shared<const Comm>(mesh, world);
  return {mesh, std::move(world), std::move(comm)};
}

at::Tensor distribute_tensor(const at::Tensor& tensor, const MeshInWorld& mesh, const Placements& placements,
                             const std::vector<int64_t>& order, std::optional<int64_t> src_data_rank) {
  LOCKSTEP_CHECK(!is_dtensor(tensor),
                 "[distribute_tensor] the tensor is a DTensor already; use redistribute");
  const Asking asks("lockstep::distribute_tensor");
  const auto why = unfit(tensor, mesh.mesh);
  LOCKSTEP_CHECK(why.empty(), "[distribute_tensor] the tensor ", why);
  const auto comm = comm_of(mesh);
  const auto replicated = std::make_shared<const Spec>(
      Spec(mesh.mesh, Placements(as_size(mesh.mesh.ndim()), Replicate{}), tensor.sizes().vec(),
           tensor.scalar_type())
          .with_tensor(tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type()));
  PerRank<at::Tensor> locals(comm->ranks.size(), tensor.detach());
  if (src_data_rank.has_value()) {
    LOCKSTEP_CHECK(*src_data_rank >= 0 && *src_data_rank < mesh.mesh.size(),
                   "[distribute_tensor] src_data_rank ", *src_data_rank, " is not a position of mesh ",
                   to_string(mesh.mesh));
    const auto sent = locals;
    for (size_t i = 0; i < locals.size(); ++i)
      if (comm->positions[i] != *src_data_rank) locals[i] = at::empty_like(sent[i]);
    broadcast(*comm->world, comm->whole, *src_data_rank, sent, locals).wait();
  }
  at::Tensor result;
  {
    const PlainGuard guard;
    const auto whole = make_dtensor(replicated, comm, locals);
    result = move_to(whole, placements, order, false);
    if (result.is_same(whole)) {
      result = make_dtensor(replicated, comm, copies_of(locals, *replicated));
    }
  }
  return tensor.requires_grad() ? parameter(result) : result;
}

at::Tensor from_local(const PerRank<at::Tensor>& locals, const MeshInWorld& mesh,
                      const Placements& placements, std::optional<std::vector<int64_t>> shape,
                      std::optional<std::vector<int64_t>> stride, bool run_check,
                      const std::vector<int64_t>& order, bool padded) {
  const auto comm = comm_of(mesh);
  LOCKSTEP_CHECK(locals.size() == comm->ranks.size(), "[from_local] ", locals.size(), " local tensors for ",
                 comm->ranks.size(), " hosted ranks of mesh ", to_string(mesh.mesh));
  LOCKSTEP_CHECK(!locals.empty(), "[from_local] no rank of mesh ", to_string(mesh.mesh),
                 " is hosted here; make DTensors of it where some are");
  for (size_t i = 0; i < locals.size(); ++i) {
    const auto why =
        is_dtensor(locals[i]) ? "is a DTensor already; use redistribute" : unfit(locals[i], mesh.mesh);
    LOCKSTEP_CHECK(why.empty(), "[from_local] the tensor of rank ", comm->ranks[i], " ", why);
  }
  LOCKSTEP_CHECK(placements.size() == as_size(mesh.mesh.ndim()), "[from_local] ", placements, " has ",
                 placements.size(), " placements for the ", mesh.mesh.ndim(), " dimensions of mesh ",
                 to_string(mesh.mesh));
  LOCKSTEP_CHECK(!padded || shape.has_value(),
                 "[from_local] padded locals tell nothing of the global shape; pass it");
  auto sizes = shape.has_value() ? *shape : global_shape(locals.front(), mesh.mesh, placements);
  auto strides = stride.has_value() ? *stride
                 : padded           ? contiguous_strides(sizes)
                                    : global_stride(locals.front(), sizes);
  const auto dtype = locals.front().scalar_type();
  const auto spec =
      std::make_shared<const Spec>(mesh.mesh, placements, std::move(sizes), std::move(strides), dtype, order);
  const auto held = padded ? unpadded(locals, *spec, *comm) : locals;
  check_shapes(held, *spec, *comm);
  if (run_check && mesh.mesh.device_type() != c10::kMeta)
    check_replicas(held, *spec, *comm, "from_local", "broadcast first, or name the placement that is meant");
  return FromLocal::apply(at::TensorList(held), spec, comm);
}

bool is_dtensor(const at::Tensor& tensor) {
  return dtensor_impl(tensor) != nullptr;
}
const Spec& spec(const at::Tensor& tensor) {
  return *require_dtensor(tensor, "spec").spec();
}
const Placements& placements(const at::Tensor& tensor) {
  return spec(tensor).placements();
}
const WorldPtr& world(const at::Tensor& tensor) {
  return require_dtensor(tensor, "world").comm()->world;
}

MeshInWorld device_mesh(const at::Tensor& tensor) {
  const auto& comm = require_dtensor(tensor, "device_mesh").comm();
  return {comm->mesh, comm->world, comm};
}

PerRank<at::Tensor> to_local(const at::Tensor& tensor, const Placements& grad_placements, bool padded) {
  const auto gradients = spec_of_gradients(*require_dtensor(tensor, "to_local").spec(), grad_placements);
  dtensor_impl(tensor)->check_memory("to_local");
  if (dtensor_impl(tensor)->comm()->positions.empty()) return {};
  log_read("lockstep::to_local", tensor);
  note_read(tensor);
  auto locals = ToLocal::apply(tensor, gradients);
  return padded ? lockstep::padded(std::move(locals), spec(tensor)) : std::move(locals);
}

at::Tensor full_tensor(const at::Tensor& tensor) {
  const auto& impl = require_dtensor(tensor, "full_tensor");
  LOCKSTEP_CHECK(!impl.comm()->positions.empty(), "[full_tensor] no rank of mesh ", impl.comm()->mesh,
                 " is hosted here; redistribute it to a mesh that has some, or ask where some are");
  const auto ndim = impl.spec()->mesh().ndim();
  const auto whole = redistribute(tensor, Placements(as_size(ndim), Replicate{}));
  log_read("lockstep::full_tensor", whole);
  return FirstCopy::apply(whole);
}

std::vector<std::string> take_never_waited() {
  return std::exchange(current_context()->never_waited, {});
}

const PerRank<at::Tensor>& local_tensors(const at::Tensor& tensor) {
  if (is_dtensor(tensor)) note_read(tensor);
  return require_dtensor(tensor, "local_tensors").locals();
}

at::Tensor parameter(const at::Tensor& tensor) {
  const auto& impl = require_dtensor(tensor, "parameter");
  auto leaf = tensor.detach();
  leaf.requires_grad_();
  leaf.register_hook([spec = impl.spec(), comm = impl.comm()](const at::Tensor& grad) {
    return grad.defined() ? for_leaf(settled(grad, spec, comm)) : at::Tensor();
  });
  return leaf;
}

at::Tensor zeros(std::vector<int64_t> shape, const MeshInWorld& mesh, const Placements& p,
                 c10::ScalarType dtype) {
  return full(std::move(shape), 0, mesh, p, dtype);
}
at::Tensor ones(std::vector<int64_t> shape, const MeshInWorld& mesh, const Placements& p,
                c10::ScalarType dtype) {
  return full(std::move(shape), 1, mesh, p, dtype);
}
// The Partial convention included: the value on coordinate 0.
at::Tensor full(std::vector<int64_t> shape, const at::Scalar& value, const MeshInWorld& mesh,
                const Placements& p, c10::ScalarType dtype) {
  const PlainGuard guard;
  const auto comm = comm_of(mesh);
  const auto values = spec_for(mesh, dual(p), std::move(shape), dtype);
  PerRank<at::Tensor> locals;
  for (const int64_t position : comm->positions)
    locals.push_back(at::full(local_shape(*values, position), value, local_options(*values)));
  return move_to(make_dtensor(values, comm, std::move(locals)), p, {}, false);
}
at::Tensor empty(std::vector<int64_t> shape, const MeshInWorld& mesh, const Placements& p,
                 c10::ScalarType dtype) {
  const auto comm = comm_of(mesh);
  const auto spec = spec_for(mesh, p, std::move(shape), dtype);
  PerRank<at::Tensor> locals;
  for (const int64_t position : comm->positions)
    locals.push_back(empty_local(*spec, local_shape(*spec, position)));
  return make_dtensor(spec, comm, std::move(locals));
}

at::Tensor rand(std::vector<int64_t> shape, const MeshInWorld& mesh, const Placements& p,
                c10::ScalarType dtype) {
  return drawn({.dtype = dtype, .shape = std::move(shape)}, mesh, p);
}
at::Tensor randn(std::vector<int64_t> shape, const MeshInWorld& mesh, const Placements& p,
                 c10::ScalarType dtype) {
  return normal(0, 1, std::move(shape), mesh, p, dtype);
}
at::Tensor normal(double mean, double std, std::vector<int64_t> shape, const MeshInWorld& mesh,
                  const Placements& p, c10::ScalarType dtype) {
  check_std("normal", std);
  return drawn({.kind = RandomKind::kNormal, .a = mean, .b = std, .dtype = dtype, .shape = std::move(shape)},
               mesh, p);
}

at::Tensor randint(int64_t low, int64_t high, std::vector<int64_t> shape, const MeshInWorld& mesh,
                   const Placements& p, c10::ScalarType dtype) {
  const auto [kind, from, to] = drawing().integers(dtype, low, high);
  return drawn({.kind = kind, .low = from, .high = to, .dtype = dtype, .shape = std::move(shape)}, mesh, p);
}
at::Tensor randperm(int64_t n, const MeshInWorld& mesh, const Placements& p, c10::ScalarType dtype) {
  check_permutation(n);
  return drawn({.kind = RandomKind::kRandperm, .dtype = dtype, .shape = {n}}, mesh, p);
}

}  // namespace lockstep
