// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/checkpoint/boxes.h"
#include "engine/checkpoint/index.h"
#include "engine/checkpoint/together.h"
#include "engine/move/execute.h"
#include "engine/tensor/dtensor.h"
#include "engine/tensor/dtensor_impl.h"
#include "engine/values/error.h"
#include "engine/world/comm.h"

namespace lockstep::dcp {
namespace {

Box box_of(const SavedPiece& piece) {
  Box box;
  for (size_t d = 0; d < piece.start.size(); ++d) box.sides.push_back({piece.start[d], piece.shape[d]});
  return box;
}

// Reads pieces, each file's header once.
class Reader {
 public:
  at::Tensor read(const IndexPiece& p, at::ScalarType dtype) {
    const auto& [piece, said] = p;
    const auto [header, is_new] = headers_.try_emplace(piece.file);
    if (is_new)
      for (auto& tensor : read_header(piece.file).tensors) header->second.emplace(tensor.name, tensor);
    const auto found = header->second.find(piece.key);
    LOCKSTEP_CHECK(found != header->second.end(), "[checkpoint] ", piece.file, " has no ", piece.key);
    LOCKSTEP_CHECK(found->second.dtype == dtype && found->second.shape == piece.shape, "[checkpoint] ",
                   piece.key, " in ", piece.file, " is ", dtype_name(found->second.dtype),
                   at::IntArrayRef(found->second.shape), ", and the index says ", dtype_name(dtype),
                   at::IntArrayRef(piece.shape));
    auto value = read_tensor(piece.file, found->second);
    LOCKSTEP_CHECK(said.empty() || said == digest_of(value), "[checkpoint] ", piece.key, " in ", piece.file,
                   " is not what was saved: its digest is another");
    return value;
  }

 private:
  std::map<std::string, std::map<std::string, FileTensor>> headers_;
};

// Fills what a rank holds of one tensor from the pieces that have some of it. `read` keeps what was read.
void fill(const at::Tensor& into, const Box& box, const IndexTensor& saved, Reader& reader,
          std::map<size_t, at::Tensor>& read) {
  const auto missing = at::ones(box.shape(), at::kBool);
  for (size_t i = 0; i < saved.pieces.size(); ++i) {
    const auto from = box_of(saved.pieces[i].piece);
    const auto both = common(box, from);
    if (!both) continue;
    const auto [piece, is_new] = read.try_emplace(i);
    if (is_new) piece->second = reader.read(saved.pieces[i], saved.dtype);
    part(into, box, *both).copy_(part(piece->second, from, *both));
    part(missing, box, *both).fill_(false);
  }
  LOCKSTEP_CHECK(!missing.any().item<bool>(), "[checkpoint] ", saved.name, " is not whole: of a rank's ",
                 box.numel(), " elements ", missing.sum().item<int64_t>(), " are in no file");
}

// What the tensor will be, placed as it is.
at::Tensor loaded(const at::Tensor& target, const IndexTensor& saved, Reader& reader) {
  std::map<size_t, at::Tensor> read;
  if (!is_dtensor(target)) {
    auto all = at::empty(saved.shape, saved.dtype);
    fill(all, whole(saved.shape), saved, reader, read);
    return all;
  }
  PerRank<at::Tensor> all;
  const auto mesh = device_mesh(target);
  const auto& s = spec(target);
  for (const int64_t position : mesh.comm->positions) {
    auto& local = all.emplace_back(at::empty(local_shape(s, position), saved.dtype));
    const auto held = boxes(s, position);
    const auto into = views(local, s, position);
    for (size_t i = 0; i < held.size(); ++i) fill(into[i], held[i], saved, reader, read);
    local = conform(local.to(local_options(s).device()), s);
  }
  return make_dtensor(dtensor_impl(target)->spec(), mesh.comm, std::move(all));
}

void check_names(const std::string& path, const Index& index, const std::vector<NamedTensor>& state,
                 Extra extra) {
  std::set<std::string> wanted;
  for (const auto& [name, value] : state)
    LOCKSTEP_CHECK(wanted.insert(name).second, "[checkpoint] two tensors are called ", name);
  if (extra == Extra::kIgnored) return;
  for (const auto& tensor : index.tensors)
    LOCKSTEP_CHECK(wanted.contains(tensor.name), "[checkpoint] ", path, " has ", tensor.name,
                   ", which nothing asks for; load with Extra::kIgnored, or rename it");
}

const IndexTensor& found_in(const std::string& path, const Index& index, const NamedTensor& wanted) {
  const auto* found = find_tensor(index, wanted.name);
  LOCKSTEP_CHECK(found != nullptr, "[checkpoint] ", path, " has no ", wanted.name);
  const auto& value = wanted.value;
  LOCKSTEP_CHECK(value.sizes() == at::IntArrayRef(found->shape) && value.scalar_type() == found->dtype,
                 "[checkpoint] ", wanted.name, " in ", path, " is ", dtype_name(found->dtype),
                 at::IntArrayRef(found->shape), ", and is to be ", dtype_name(value.scalar_type()),
                 value.sizes());
  if (is_dtensor(value))
    LOCKSTEP_CHECK(!spec(value).has_partial(), "[checkpoint] ", wanted.name, " pends, ", spec(value),
                   "; what is loaded is whole");
  return *found;
}

// Throws where a value cannot be written to.
void check_target(const NamedTensor& wanted) {
  const auto& value = wanted.value;
  LOCKSTEP_CHECK(value.defined(), "[checkpoint] ", wanted.name,
                 " is undefined, and nothing can be loaded into it");
  LOCKSTEP_CHECK(value.layout() == at::kStrided && !value.is_quantized() &&
                     value.device().type() != at::kMeta && !value.is_inference() &&
                     at::has_internal_overlap(value) != at::MemOverlap::Yes,
                 "[checkpoint] ", wanted.name, " is no dense tensor that can be written to");
  if (const auto* impl = dtensor_impl(value)) impl->check_memory("load");
}

}  // namespace

Metadata load(const std::string& path, const std::vector<NamedTensor>& state, Extra extra,
              const WorldPtr& of) {
  const at::NoGradGuard no_grad;
  auto world = of;
  for (const auto& wanted : state)
    if (wanted.value.defined() && is_dtensor(wanted.value)) world = lockstep::world(wanted.value);
  Index index;
  together(world, [&] {
    for (const auto& wanted : state) check_target(wanted);
    index = read_index(path);
  });
  std::vector<at::Tensor> values;
  const bool is_one = is_same(world, index.digest);
  together(world, [&] {
    LOCKSTEP_CHECK(is_one, "[checkpoint] others save in ", path, " meanwhile; load again when they have");
    check_names(path, index, state, extra);
    std::vector<const IndexTensor*> saved;
    for (const auto& wanted : state) saved.push_back(&found_in(path, index, wanted));
    Reader reader;
    for (size_t i = 0; i < state.size(); ++i) values.push_back(loaded(state[i].value, *saved[i], reader));
  });
  // All of it is there and right, in every process: only now is anything written.
  for (size_t i = 0; i < state.size(); ++i) state[i].value.detach().copy_(values[i]);
  return index.metadata;
}

int64_t verify(const std::string& path) {
  Reader reader;
  int64_t digests = 0;
  for (const auto& tensor : read_index(path).tensors) {
    std::map<size_t, at::Tensor> read;
    fill(at::empty(tensor.shape, tensor.dtype), whole(tensor.shape), tensor, reader, read);
    for (const auto& piece : tensor.pieces) digests += piece.digest.empty() ? 0 : 1;
  }
  return digests;
}

Contents contents(const std::string& path) {
  const auto index = read_index(path);
  Contents all{{}, index.metadata};
  for (const auto& tensor : index.tensors) {
    auto& saved = all.tensors.emplace_back(SavedTensor{tensor.name, tensor.dtype, tensor.shape, {}});
    for (const auto& piece : tensor.pieces) saved.pieces.push_back(piece.piece);
  }
  return all;
}

}  // namespace lockstep::dcp
