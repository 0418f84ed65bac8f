// SPDX-License-Identifier: Apache-2.0
#include "suites/checkpoint/saved.h"

#include <ATen/ATen.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "engine/tensor/dtensor.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/collectives.h"
#include "engine/world/comm.h"
#include "oracle/ownership/in_host.h"
#include "oracle/ownership/ownership.h"
#include "oracle/reference/saved_tensors.h"
#include "suites/engines/counting_world.h"

namespace lockstep::suites {
namespace {

using at::Tensor;
using dcp::NamedTensor;
namespace fs = std::filesystem;

// What rank 0 says, in every process; and nobody goes on before it has said so.
int64_t told(const WorldPtr& world, int64_t mine) {
  Groups groups;
  PerRank<Tensor> sent, into;
  for (const int64_t rank : world->hosted()) {
    groups.push_back({up_to(world->size()), rank});
    sent.push_back(at::full({1}, mine, at::kLong));
    into.push_back(at::zeros({1}, at::kLong));
  }
  broadcast(*world, groups, 0, sent, into).wait();
  return world->hosted().front() == 0 ? mine : into[0].item<int64_t>();
}

// One that all processes see, while this lives.
class Folder {
 public:
  explicit Folder(const WorldPtr& world) : leads_(world->hosted().front() == 0) {
    std::random_device random;
    const int64_t number = told(world, leads_ ? static_cast<int64_t>(random()) << 31 | random() >> 1 : 0);
    path_ = (fs::temp_directory_path() / concat("lockstep-checkpoint-", number)).string();
  }
  ~Folder() {
    std::error_code ignored;
    if (leads_) fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  bool leads_;
  std::string path_;
};

MeshInWorld placed_in(const DeviceMesh& mesh, const WorldPtr& world) {
  return {mesh, world, std::make_shared<const Comm>(mesh, world)};
}

// Each rank cuts its part out of the whole: nothing moves.
Tensor placed(const Tensor& whole, const MeshInWorld& mesh, const Placements& placements) {
  const Spec spec(mesh.mesh, placements, whole.sizes().vec(), whole.scalar_type());
  PerRank<Tensor> locals;
  for (const int64_t position : mesh.comm->positions)
    locals.push_back(oracle::on_mesh(mesh.mesh, oracle::slice(whole, spec, position)));
  return from_local(locals, mesh, placements, spec.shape(), std::nullopt, /*run_check=*/false);
}

class Ranks {
 public:
  Ranks(const WorldPtr& world, const Saving& s, const SavingFault& fault)
      : s_(s),
        fault_(fault),
        world_(counting(world, traffic_)),
        leads_(world->hosted().front() == 0),
        all_(placed_in(DeviceMesh({world->size()}).on(s.mesh.device_type()), world_)),
        folder_(world) {}

  std::vector<Tensor> report() {
    const auto mesh = placed_in(s_.mesh, world_);
    if (s_.older != 0) save(mesh, 1, {});
    traffic_ = {};
    save(mesh, 0, fault_);
    auto sent = traffic_.sent;
    sent.resize(as_size(world_->size()));
    if (leads_ && fault_.after_save != nullptr) {
      std::vector<NamedTensor> none;
      SavingScene scene{s_, folder_.path(), none};
      fault_.after_save(scene);
    }
    if (leads_) harm();
    told(world_, 0);
    auto files = what_files_say();
    auto loaded = what_ranks_hold();
    loaded.insert(loaded.end(), files.begin(), files.end());
    loaded.push_back(on_every_rank(at::tensor(facts_)));
    loaded.push_back(placed(at::tensor(sent), all_, {Shard{0}}));
    return loaded;
  }

 private:
  int64_t& fact(SavingFact which) { return facts_[static_cast<size_t>(which)]; }

  // Undefined: no rank of the mesh is hosted here.
  std::vector<NamedTensor> state(const MeshInWorld& mesh, const std::vector<Placements>& cuts, uint64_t age) {
    std::vector<NamedTensor> all;
    for (size_t i = 0; i < s_.shapes.size(); ++i) {
      auto& value = all.emplace_back(NamedTensor{s_.name(i), s_.value(i, age)}).value;
      if (!s_.is_plain(i)) value = mesh.comm->positions.empty() ? Tensor() : placed(value, mesh, cuts[i]);
    }
    return all;
  }

  void save(const MeshInWorld& mesh, uint64_t age, const SavingFault& fault) {
    auto saved = state(mesh, s_.from, age);
    SavingScene scene{s_, folder_.path(), saved};
    if (fault.before_save != nullptr) fault.before_save(scene);
    dcp::save(folder_.path(), saved, {{"age", std::to_string(age)}}, world_);
  }

  // By name, so that what happens hangs on the case alone.
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& file : fs::directory_iterator(folder_.path())) all.push_back(file.path());
    std::sort(all.begin(), all.end());
    return all;
  }

  void harm() {
    if (s_.harm == Harm::kNone) return;
    const auto all = files();
    const auto& file = all[as_size(s_.at) % all.size()];
    const auto size = fs::file_size(file), place = as_size(s_.at / std::ssize(all)) % size;
    if (s_.harm == Harm::kByte) {
      std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
      bytes.seekg(static_cast<std::streamoff>(place));
      const auto was = bytes.get();
      bytes.seekp(static_cast<std::streamoff>(place));
      bytes.put(static_cast<char>(was ^ static_cast<int>(1 + s_.at % 255)));
    }
    if (s_.harm == Harm::kCut) fs::resize_file(file, place);
    if (s_.harm == Harm::kLonger) fs::resize_file(file, size + 1);
    if (s_.harm == Harm::kGone) fs::remove(file);
    if (s_.harm == Harm::kExchanged) {
      const auto& other = all[as_size(s_.at + 1) % all.size()];
      fs::rename(file, folder_.path() + "/kept");
      if (other != file) fs::rename(other, file);
      fs::rename(folder_.path() + "/kept", other);
    }
  }

  std::vector<Tensor> what_files_say() {
    std::vector<Tensor> said(s_.shapes.size());
    if (s_.harm != Harm::kNone) return said;
    const auto saved = oracle::read_saved(folder_.path());
    fact(SavingFact::kUnlisted) = saved.unlisted;
    fact(SavingFact::kFiles) = std::ssize(files()) - 1;
    for (size_t i = 0; i < said.size(); ++i) {
      const auto name = s_.name(i);
      fact(SavingFact::kRepeated) += saved.times.at(name).ne(1).sum().item<int64_t>();
      const auto& value = saved.values.at(name);
      // Of no element there is no piece, and so no dtype.
      said[i] = on_every_rank(value.defined() ? value : at::empty(s_.shapes[i], s_.dtypes[i]));
    }
    return said;
  }

  std::vector<Tensor> what_ranks_hold() {
    auto into = state(placed_in(s_.onto, world_), s_.into, 2);
    try {
      load(into);
    } catch (const Error& e) {
      const std::string text = e.what();
      fact(SavingFact::kRefused) = 1;
      const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
      const bool is_named = has(".safetensors") || has("the process of rank ");
      fact(SavingFact::kNamed) = is_named ? 1 : 0;
    }
    SavingScene scene{s_, folder_.path(), into};
    if (fault_.after_load != nullptr) fault_.after_load(scene);
    std::vector<Tensor> held;
    for (size_t i = 0; i < into.size(); ++i) held.push_back(in_a_row(i, into[i].value));
    return held;
  }

  void load(const std::vector<NamedTensor>& into) {
    std::vector<NamedTensor> here;
    for (const auto& one : into)
      if (one.value.defined()) here.push_back(one);
    const auto extra = here.size() == into.size() ? dcp::Extra::kRefused : dcp::Extra::kIgnored;
    if (s_.one_by_one == 0) {
      dcp::load(folder_.path(), here, extra, world_);
      return;
    }
    for (size_t i = into.size(); i-- > 0;) {
      here.clear();
      if (into[i].value.defined()) here.push_back(into[i]);
      dcp::load(folder_.path(), here, dcp::Extra::kIgnored, world_);
    }
  }

  // The locals of all ranks, one behind the other, a zero before each.
  Tensor in_a_row(size_t tensor, const Tensor& value) {
    const Spec spec(s_.onto, s_.into[tensor], s_.shapes[tensor], s_.dtypes[tensor]);
    const auto held_by = [&](int64_t rank) {
      if (s_.is_plain(tensor)) return s_.shapes[tensor];
      return rank < s_.onto.size() ? oracle::local_shape(spec, rank) : std::vector<int64_t>{0};
    };
    const auto bytes = static_cast<int64_t>(c10::elementSize(s_.dtypes[tensor]));
    std::vector<int64_t> lengths;
    int64_t sum = 0;
    for (int64_t rank = 0; rank < world_->size(); ++rank)
      sum += lengths.emplace_back(1 + c10::multiply_integers(held_by(rank)) * bytes);
    PerRank<Tensor> locals;
    for (const auto rank : world_->hosted()) {
      auto local = at::empty({0}, at::kByte);
      if (s_.is_plain(tensor) || rank < s_.onto.size())
        local = s_.is_plain(tensor) ? value : local_tensors(value).at(locals.size());
      locals.push_back(
          at::cat({at::zeros({1}, at::kByte), local.detach().contiguous().flatten().view(at::kByte)}));
    }
    return from_local(locals, all_, {RaggedShard{{0}, lengths, 1}}, std::vector<int64_t>{sum}, std::nullopt,
                      false);
  }

  Tensor on_every_rank(const Tensor& value) { return placed(value, all_, {Replicate{}}); }

  const Saving& s_;
  const SavingFault& fault_;
  Traffic traffic_;
  const WorldPtr world_;
  const bool leads_;
  const MeshInWorld all_;
  const Folder folder_;
  std::vector<int64_t> facts_ = std::vector<int64_t>(static_cast<size_t>(SavingFact::kCount));
};

}  // namespace

std::vector<Tensor> saved_and_loaded(const WorldPtr& world, const Saving& saving, const SavingFault& fault) {
  return Ranks(world, saving, fault).report();
}

}  // namespace lockstep::suites
