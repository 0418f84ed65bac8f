// SPDX-License-Identifier: Apache-2.0
#include "engine/world/world_conformance.h"

#include <ATen/ATen.h>

#include <limits>

#include "engine/values/error.h"
#include "engine/world/comm.h"

namespace lockstep {
namespace {

// A tensor that nobody but rank `from` sends to place `to`: numbers that arithmetic would change. One element
// is a NaN with a payload, one is -0.0; how many there are, none to three, depends on both.
at::Tensor sample(int64_t from, int64_t to) {
  constexpr int64_t kNaN = 0x7ff0000000000001, kMinusZero = std::numeric_limits<int64_t>::min();
  const auto bits = at::tensor({kNaN + from * 4096 + to, kMinusZero, from * 4096 + to}, at::kLong);
  return bits.view(at::kDouble).narrow(0, 0, (from + 2 * to + 1) % 4);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.view(at::kLong).equal(b.view(at::kLong));
}

// What one collective gave, against what the groups sent.
class Check {
 public:
  Check(const char* collective, const Comm& comm, size_t dim)
      : collective_(collective), comm_(comm), dim_(dim) {}

  void expect(size_t rank, size_t from, const at::Tensor& got, const at::Tensor& sent) {
    if (!found_.empty() || same_bits(got, sent)) return;
    found_ = concat("[world] ", collective_, " along dimension ", dim_, " of ", to_string(comm_.mesh),
                    ": rank ", comm_.ranks[rank], " received ", got, " from place ", from,
                    " of its group, which sent ", sent);
  }
  void expect_count(size_t rank, size_t got) {
    const auto expected = comm_.along[dim_][rank].ranks.size();
    if (!found_.empty() || got == expected) return;
    found_ = concat("[world] ", collective_, ": rank ", comm_.ranks[rank], " received ", got,
                    " tensors in a group of ", expected);
  }
  const std::string& found() const { return found_; }

 private:
  const char* collective_;
  const Comm& comm_;
  size_t dim_;
  std::string found_;
};

constexpr int64_t kWhole = 2;  // the "place" of what is sent to all

std::string gathers(World& world, const Comm& comm, size_t dim) {
  PerRank<at::Tensor> sent;
  for (const int64_t r : comm.ranks) sent.push_back(sample(r, kWhole));
  const auto got = world.all_gather(comm.ranks, comm.along[dim], sent);
  Check check("all_gather", comm, dim);
  for (size_t i = 0; i < got.size(); ++i) {
    const auto& group = comm.along[dim][i];
    check.expect_count(i, got[i].size());
    for (size_t k = 0; check.found().empty() && k < got[i].size(); ++k)
      check.expect(i, k, got[i][k], sample(group.ranks[k], kWhole));
  }
  return check.found();
}

std::string exchanges(World& world, const Comm& comm, size_t dim) {
  PerRank<std::vector<at::Tensor>> sent;
  for (size_t i = 0; i < comm.ranks.size(); ++i) {
    auto& mine = sent.emplace_back();
    for (size_t k = 0; k < comm.along[dim][i].ranks.size(); ++k)
      mine.push_back(sample(comm.ranks[i], static_cast<int64_t>(k)));
  }
  const auto got = world.all_to_all(comm.ranks, comm.along[dim], sent);
  Check check("all_to_all", comm, dim);
  for (size_t i = 0; i < got.size(); ++i) {
    const auto& group = comm.along[dim][i];
    check.expect_count(i, got[i].size());
    for (size_t k = 0; check.found().empty() && k < got[i].size(); ++k)
      check.expect(i, k, got[i][k], sample(group.ranks[k], group.place));
  }
  return check.found();
}

std::string broadcasts(World& world, const Comm& comm, size_t dim, int64_t root) {
  PerRank<at::Tensor> sent;
  for (const int64_t r : comm.ranks) sent.push_back(sample(r, kWhole));
  const auto got = world.broadcast(comm.ranks, comm.along[dim], root, sent);
  Check check("broadcast", comm, dim);
  const auto from = static_cast<size_t>(root);
  for (size_t i = 0; i < got.size(); ++i)
    check.expect(i, from, got[i], sample(comm.along[dim][i].ranks[from], kWhole));
  return check.found();
}

}  // namespace

std::string world_conformance(const WorldPtr& world, const DeviceMesh& mesh) {
  const Comm comm(mesh, world);
  if (comm.ranks.size() != static_cast<size_t>(mesh.size()))
    return concat("[world] ", world->name(), " hosts ", comm.ranks.size(), " of the ", mesh.size(),
                  " ranks of ", to_string(mesh), "; this check needs all of them in one process");
  for (size_t d = 0; d < comm.along.size(); ++d) {
    auto found = gathers(*world, comm, d);
    if (found.empty()) found = exchanges(*world, comm, d);
    for (int64_t root = 0; found.empty() && root < mesh.size(static_cast<int64_t>(d)); ++root)
      found = broadcasts(*world, comm, d, root);
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace lockstep
