// SPDX-License-Identifier: Apache-2.0
#include "engine/world/testing_conformance.h"

#include <ATen/ATen.h>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/bits.h"
#include "engine/world/collectives.h"
#include "engine/world/comm.h"
#include "engine/world/fold.h"

namespace lockstep {
namespace {

constexpr c10::ScalarType kTypes[] = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf, at::kLong,
                                      at::kInt,    at::kShort, at::kChar,     at::kByte, at::kBool};

// A NaN with a payload that arithmetic would make quiet, and -0.0, as bits; any two other numbers where there
// are none.
std::pair<int64_t, int64_t> special(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
    case at::kLong:
      return {0x7ff0000000000001, std::numeric_limits<int64_t>::min()};
    case at::kFloat:
    case at::kInt:
      return {0x7f800001, std::numeric_limits<int32_t>::min()};
    case at::kBFloat16:
      return {0x7f81, std::numeric_limits<int16_t>::min()};
    case at::kHalf:
    case at::kShort:
      return {0x7c01, std::numeric_limits<int16_t>::min()};
    default:
      return {1, 0};
  }
}

c10::ScalarType integer_of(c10::ScalarType dtype) {
  switch (c10::elementSize(dtype)) {
    case 8:
      return at::kLong;
    case 4:
      return at::kInt;
    case 2:
      return at::kShort;
    default:
      return at::kByte;
  }
}

// A tensor that nobody but rank `from` sends to place `to`. How many elements it has, none to three, depends
// on both.
at::Tensor sample(c10::ScalarType dtype, int64_t from, int64_t to) {
  const auto [nan, minus_zero] = special(dtype);
  const int64_t own = (from * 5 + to) % (dtype == at::kBool ? 2 : 100);
  const auto bits = at::tensor({nan, minus_zero, own}, at::kLong).to(integer_of(dtype));
  const auto n = (from + 2 * to + 1) % 4;
  return (dtype == at::kBool ? bits.to(at::kBool) : bits.view(dtype)).narrow(0, 0, n).clone();
}

// A term of a reduction: what is added in another order rounds to another sum.
at::Tensor term(c10::ScalarType dtype, int64_t from, int64_t to) {
  if (!c10::isFloatingType(dtype)) return at::tensor({from + 1, 2 * to - from, int64_t{0}}).to(dtype);
  const double large = dtype == at::kHalf ? 1e4 : 1e8;
  return at::tensor(
             {0.1 * static_cast<double>(from + 1), large / static_cast<double>(from * from + to + 1), -0.0},
             at::kDouble)
      .to(dtype);
}

constexpr ReduceOp kReductions[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax,
                                    ReduceOp::kProduct};
constexpr int64_t kWhole = 2;  // the "place" of what is sent to all

// One process's view of one World, along one list of groups.
class Conformance {
 public:
  Conformance(World& world, const Groups& groups, std::string along)
      : world_(world), groups_(groups), along_(std::move(along)) {}

  // Every rank goes through all of it, whatever it finds, so that nobody waits in vain.
  std::string run() {
    for (const auto dtype : kTypes) {
      gathers(dtype);
      gathers_in_turn(dtype);
      exchanges(dtype);
      for (int64_t root = 0; root < members(0); ++root) broadcasts(dtype, root);
      for (const auto op : kReductions)
        if (has_reduction(op, dtype)) reduces(op, dtype);
    }
    waits_in_another_order();
    receives_from_the_last();
    barrier(world_, groups_);
    tells_mismatches();
    return found_;
  }

 private:
  int64_t members(size_t i) const { return static_cast<int64_t>(groups_[i].ranks.size()); }
  int64_t rank(size_t i) const { return groups_[i].self(); }
  int64_t rank(size_t i, int64_t place) const { return groups_[i].ranks[as_size(place)]; }

  template <class... Text>
  void expect(bool holds, const char* collective, size_t i, const Text&... text) {
    if (holds || !found_.empty()) return;
    found_ = concat("[world] ", collective, " ", along_, ": rank ", rank(i), " ", text...);
  }
  void expect_bits(const char* collective, size_t i, int64_t place, const at::Tensor& got,
                   const at::Tensor& sent) {
    expect(same_bits(got, sent), collective, i, "received ", got, " from place ", place,
           " of its group, which sent ", sent);
  }

  // For each hosted rank and place what `make(i, place)` gives.
  template <class F>
  PerRank<Buffers> by_place(F&& make) const {
    PerRank<Buffers> all(groups_.size());
    for (size_t i = 0; i < groups_.size(); ++i)
      for (int64_t place = 0; place < members(i); ++place) all[i].push_back(make(i, place));
    return all;
  }
  template <class F>
  PerRank<at::Tensor> by_rank(F&& make) const {
    PerRank<at::Tensor> all;
    for (size_t i = 0; i < groups_.size(); ++i) all.push_back(make(i));
    return all;
  }
  static at::Tensor room_for(const at::Tensor& tensor) { return at::zeros_like(tensor); }

  void gathers(c10::ScalarType dtype) {
    const auto expected = by_place([&](size_t i, int64_t k) { return sample(dtype, rank(i, k), kWhole); });
    const auto into = by_place([&](size_t i, int64_t k) { return room_for(expected[i][as_size(k)].of); });
    const auto sent = by_rank([&](size_t i) { return sample(dtype, rank(i), kWhole); });
    all_gather(world_, groups_, sent, into).wait();
    by_place([&](size_t i, int64_t k) {
      expect_bits("all_gather", i, k, into[i][as_size(k)].of, expected[i][as_size(k)].of);
      return at::Tensor();
    });
  }

  // Tensors of one form, by who sends them.
  at::Tensor of_one_form(c10::ScalarType dtype, int64_t from) const {
    return at::cat({sample(dtype, 1, 1), sample(dtype, 3 + 4 * from, 1)});
  }
  void gathers_in_turn(c10::ScalarType dtype) {
    std::vector<int64_t> next(groups_.size());
    const auto sent = by_rank([&](size_t i) { return of_one_form(dtype, rank(i)); });
    all_gather(world_, groups_, sent, [&](size_t i, const at::Tensor& got) {
      const int64_t place = next[i]++;
      expect_bits("all_gather in turn", i, place, got, of_one_form(dtype, rank(i, place)));
    }).wait();
    for (size_t i = 0; i < groups_.size(); ++i)
      expect(next[i] == members(i), "all_gather in turn", i, "received ", next[i], " tensors in a group of ",
             members(i));
  }

  void exchanges(c10::ScalarType dtype) {
    const auto sent = by_place([&](size_t i, int64_t k) { return sample(dtype, rank(i), k); });
    const auto expected =
        by_place([&](size_t i, int64_t k) { return sample(dtype, rank(i, k), groups_[i].place); });
    const auto into = by_place([&](size_t i, int64_t k) { return room_for(expected[i][as_size(k)].of); });
    all_to_all(world_, groups_, sent, into).wait();
    by_place([&](size_t i, int64_t k) {
      expect_bits("all_to_all", i, k, into[i][as_size(k)].of, expected[i][as_size(k)].of);
      return at::Tensor();
    });
  }

  void broadcasts(c10::ScalarType dtype, int64_t root) {
    const auto from_root = [&](size_t i) { return sample(dtype, rank(i, root), kWhole); };
    const auto sent = by_rank([&](size_t i) { return sample(dtype, rank(i), kWhole); });
    const auto into =
        by_rank([&](size_t i) { return groups_[i].place == root ? sent[i] : room_for(from_root(i)); });
    broadcast(world_, groups_, root, sent, into).wait();
    for (size_t i = 0; i < groups_.size(); ++i) expect_bits("broadcast", i, root, into[i], from_root(i));
  }

  at::Tensor folded(size_t i, ReduceOp op, c10::ScalarType dtype, int64_t to) const {
    Fold fold(op);
    for (const int64_t from : groups_[i].ranks) fold.add(term(dtype, from, to));
    return fold.result();
  }
  void reduces(ReduceOp op, c10::ScalarType dtype) {
    PerRank<at::Tensor> whole(groups_.size());
    const auto terms = by_rank([&](size_t i) { return term(dtype, rank(i), kWhole); });
    all_reduce(world_, groups_, op, terms, whole).wait();
    auto part = by_rank([&](size_t) { return at::zeros({3}, dtype); });
    const auto pieces = by_place([&](size_t i, int64_t k) { return term(dtype, rank(i), k); });
    reduce_scatter(world_, groups_, op, pieces, part).wait();
    for (size_t i = 0; i < groups_.size(); ++i) {
      const auto all = folded(i, op, dtype, kWhole), own = folded(i, op, dtype, groups_[i].place);
      expect(same_bits(whole[i], all), "all_reduce", i, "has ", whole[i], ", but in rank order it is ", all);
      expect(same_bits(part[i], own), "reduce_scatter", i, "has ", part[i], ", but in rank order it is ",
             own);
    }
  }

  void waits_in_another_order() {
    const auto make = [&](int64_t number) {
      return by_rank([&](size_t i) { return at::full({2}, 10 * rank(i) + number, at::kLong); });
    };
    const auto first = make(1), second = make(2);
    const auto room = [&](size_t, int64_t) { return at::zeros({2}, at::kLong); };
    const auto into_first = by_place(room), into_second = by_place(room);
    auto one = all_gather(world_, groups_, first, into_first);
    auto two = all_gather(world_, groups_, second, into_second);
    two.wait();
    one.wait();
    by_place([&](size_t i, int64_t k) {
      expect_bits("the first of two all_gathers", i, k, into_first[i][as_size(k)].of,
                  at::full({2}, 10 * rank(i, k) + 1, at::kLong));
      expect_bits("the second of two all_gathers", i, k, into_second[i][as_size(k)].of,
                  at::full({2}, 10 * rank(i, k) + 2, at::kLong));
      return at::Tensor();
    });
  }

  // Whom it receives from, a rank may list in any order: in one order are the parcels of two ranks alone.
  void receives_from_the_last() {
    const auto number = [](int64_t from, int64_t to) { return at::full({2}, 100 * from + to, at::kLong); };
    const auto sent = by_place([&](size_t i, int64_t k) { return number(rank(i), k); });
    const auto into = by_place([](size_t, int64_t) { return at::zeros({2}, at::kLong); });
    Exchange asked{.op = "exchange", .parts = {}, .arrived = {}};
    for (size_t i = 0; i < groups_.size(); ++i) {
      Part part{.group = &groups_[i], .sent = {}, .received = {}};
      for (int64_t k = 0; k < members(i); ++k) part.sent.push_back({k, sent[i][as_size(k)]});
      for (int64_t k = members(i) - 1; k >= 0; --k) part.received.push_back({k, into[i][as_size(k)]});
      asked.parts.push_back(std::move(part));
    }
    world_.exchange(std::move(asked)).wait();
    by_place([&](size_t i, int64_t k) {
      expect_bits("an exchange from the last", i, k, into[i][as_size(k)].of,
                  number(rank(i, k), groups_[i].place));
      return at::Tensor();
    });
  }

  // Place 0 sends one element more than the others expect.
  void tells_mismatches() {
    if (members(0) < 2) return;
    const auto sent = by_rank([&](size_t i) { return at::zeros({groups_[i].place == 0 ? 3 : 2}); });
    const auto into =
        by_place([&](size_t i, int64_t k) { return at::zeros({groups_[i].place == 0 && k == 0 ? 3 : 2}); });
    try {
      all_gather(world_, groups_, sent, into).wait();
      expect(false, "all_gather", 0,
             "sees no error, though place 0 of its group sends more than is expected");
    } catch (const Error& e) {
      const std::string text = e.what();
      for (const auto* word : {"all_gather", "f32[3]", "f32[2]", "rank"})
        expect(text.find(word) != text.npos, "all_gather", 0, "is told of a mismatch without '", word,
               "': ", text);
    }
  }

  World& world_;
  const Groups& groups_;
  std::string along_;
  std::string found_;
};

}  // namespace

std::string world_conformance(const WorldPtr& world, const DeviceMesh& mesh) {
  const Comm comm(mesh, world);
  std::string found;
  const auto check = [&](const Groups& groups, const std::string& along) {
    const auto violation = Conformance(*world, groups, along).run();
    if (found.empty()) found = violation;
  };
  if (comm.ranks.empty()) return "";
  for (size_t d = 0; d < comm.along.size(); ++d)
    check(comm.along[d], concat("along dimension ", d, " of ", to_string(mesh)));
  check(comm.whole, concat("over ", to_string(mesh)));
  return found;
}

}  // namespace lockstep
