// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "engine/checkpoint/boxes.h"
#include "engine/checkpoint/index.h"
#include "engine/checkpoint/strict_json.h"
#include "engine/checkpoint/together.h"
#include "engine/tensor/dtensor.h"
#include "engine/tensor/dtensor_impl.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/comm.h"

namespace lockstep::dcp {
namespace {

// Where a tensor is, and who writes which piece of it.
struct Placed {
  std::string name;
  at::Tensor value;
  std::optional<Spec> spec;  // none: a plain tensor, which rank 0 writes

  std::vector<int64_t> shape() const { return value.sizes().vec(); }
  // A tensor in one piece has its own name.
  std::string key(const Box& box, int64_t number) const {
    return box == whole(shape()) ? name : concat(name, "#", number);
  }
  // visit(rank, mesh position or -1, box, key), piece after piece: what all processes agree in.
  template <class F>
  void each_piece(const F& visit) const {
    if (!spec) return visit(int64_t{0}, int64_t{-1}, whole(shape()), name);
    int64_t number = 0;
    for (int64_t position = 0; position < spec->mesh().size(); ++position) {
      if (!is_first(*spec, position)) continue;
      for (const auto& box : boxes(*spec, position))
        visit(spec->mesh().ranks()[as_size(position)], position, box, key(box, number++));
    }
  }
};

// Throws what every process can say by itself.
void check(const Placed& one, std::set<std::string>& keys) {
  const auto& value = one.value;
  require_text(one.name, "the name of a tensor");
  LOCKSTEP_CHECK(one.name != "__metadata__", "[checkpoint] no tensor is called __metadata__");
  LOCKSTEP_CHECK(!one.spec || !one.spec->has_partial(), "[checkpoint] ", one.name, " pends, ", *one.spec,
                 "; redistribute it first");
  LOCKSTEP_CHECK(has_name(value.scalar_type()), "[checkpoint] safetensors has no name for ",
                 value.scalar_type(), ", the dtype of ", one.name);
  LOCKSTEP_CHECK(
      value.layout() == at::kStrided && !value.is_quantized() && value.device().type() != at::kMeta,
      "[checkpoint] ", one.name, " is no dense tensor with values");
  if (const auto* impl = dtensor_impl(value)) impl->check_memory("save");
  one.each_piece([&](int64_t, int64_t, const Box&, const std::string& key) {
    LOCKSTEP_CHECK(keys.insert(key).second, "[checkpoint] a piece of ", one.name, " would be called ", key,
                   " as another is; rename one of the tensors");
  });
}

std::vector<Placed> placed(const std::vector<NamedTensor>& state) {
  std::vector<Placed> all;
  std::set<std::string> names, keys;
  for (const auto& [name, value] : state) {
    LOCKSTEP_CHECK(value.defined(), "[checkpoint] ", name, " is undefined, and has nothing to save");
    LOCKSTEP_CHECK(names.insert(name).second, "[checkpoint] two tensors are called ", name);
    auto& one = all.emplace_back(Placed{name, value.detach(), std::nullopt});
    if (is_dtensor(value)) one.spec = spec(value);
    check(one, keys);
  }
  return all;
}

WorldPtr world_of(const std::vector<Placed>& state, WorldPtr found) {
  for (const auto& one : state) {
    if (!one.spec) continue;
    const auto& its = world(one.value);
    LOCKSTEP_CHECK(found == nullptr || found == its, "[checkpoint] ", one.name,
                   " is in another World than those before it");
    found = its;
  }
  return found;
}

// What the ranks that are hosted here write; by rank.
std::map<int64_t, std::vector<NamedTensor>> hosted_pieces(const std::vector<Placed>& state,
                                                          const WorldPtr& world) {
  std::map<int64_t, std::vector<NamedTensor>> files;
  for (const auto& one : state) {
    if (!one.spec) {
      if (world == nullptr || world->hosted().front() == 0) files[0].push_back({one.name, one.value.cpu()});
      continue;
    }
    std::map<int64_t, std::vector<at::Tensor>> here;  // by position, the views in the order of its boxes
    const auto mesh = device_mesh(one.value);
    const auto& locals = local_tensors(one.value);
    for (size_t r = 0; r < locals.size(); ++r) {
      const int64_t position = mesh.comm->positions[r];
      here[position] = views(locals[r], *one.spec, position);
    }
    std::map<int64_t, size_t> next;
    one.each_piece([&](int64_t rank, int64_t position, const Box&, const std::string& key) {
      if (const auto found = here.find(position); found != here.end())
        files[rank].push_back({key, found->second.at(next[position]++).cpu()});
    });
  }
  return files;
}

Index index_of(const std::string& folder, const std::vector<Placed>& state, int64_t generation,
               int64_t ranks) {
  Index index{.generation = generation, .digest = "", .metadata = {}, .tensors = {}};
  std::map<std::string, Metadata> headers;
  for (const auto& one : state) {
    auto& tensor =
        index.tensors.emplace_back(IndexTensor{one.name, one.value.scalar_type(), one.shape(), {}});
    one.each_piece([&](int64_t rank, int64_t, const Box& box, const std::string& key) {
      const auto file = file_of(generation, rank, ranks);
      const auto [header, is_new] = headers.try_emplace(file);
      if (is_new) header->second = read_header((std::filesystem::path(folder) / file).string()).metadata;
      std::vector<int64_t> start;
      for (const auto& side : box.sides) start.push_back(side.start);
      tensor.pieces.push_back(
          {{file, key, std::move(start), box.shape()}, header->second.at(kDigestOf + key)});
    });
  }
  return index;
}

// The folder is one process' to save in, while this lives.
class Lock {
 public:
  explicit Lock(const std::string& folder)
      : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    const bool is_ours = descriptor_ >= 0 && flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
    if (!is_ours && descriptor_ >= 0) close(descriptor_);
    LOCKSTEP_CHECK(is_ours, "[checkpoint] others save in ", folder, " at this moment; name another folder");
  }
  ~Lock() { close(descriptor_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int descriptor_;
};

}  // namespace

void prepare(const std::string& folder, const WorldPtr& world) {
  together(world, [&] {
    make_folder(folder);
    LOCKSTEP_CHECK(access(folder.c_str(), W_OK) == 0, "[checkpoint] nothing can be written in ", folder,
                   "; name another folder");
  });
}

void save(const std::string& folder, const std::vector<NamedTensor>& state, const Metadata& metadata,
          const WorldPtr& of) {
  const at::NoGradGuard no_grad;
  for (const auto& [key, word] : metadata) require_text(key + word, "metadata");
  const auto all = placed(state);
  const auto world = world_of(all, of);
  const int64_t ranks = world == nullptr ? 1 : world->size();
  const bool leads = world == nullptr || world->hosted().front() == 0;
  const auto in_folder = [&](const std::string& name) {
    return (std::filesystem::path(folder) / name).string();
  };
  std::optional<Lock> lock;
  together(world, [&] {
    make_folder(folder);
    if (leads) lock.emplace(folder);
  });
  const int64_t generation = greatest(world, last_generation(folder)) + 1;
  std::vector<std::string> written;
  try {
    together(world, [&] {
      for (const auto& [rank, tensors] : hosted_pieces(all, world)) {
        Metadata said = {{"format", "pt"}};  // what readers of Hugging Face's ask for
        for (const auto& [key, value] : tensors) said[kDigestOf + key] = digest_of(value);
        write_file(written.emplace_back(in_folder(file_of(generation, rank, ranks))), tensors, said,
                   Existing::kRefused);
      }
    });
  } catch (const Error&) {
    for (const auto& file : written) unlink(file.c_str());
    throw;
  }
  together(world, [&] {
    if (!leads) return;
    auto index = index_of(folder, all, generation, ranks);
    index.metadata = metadata;
    write_index(folder, index);
    keep_generation(folder, generation);
  });
}

}  // namespace lockstep::dcp
