// SPDX-License-Identifier: Apache-2.0
// Rows that change places and ranks: what comes is what index_select gives, each row is sent once, and the
// gradient goes back the same way.
#include "engine/tensor/exchange_rows.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/layout/layout.h"
#include "engine/tensor/testing.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

struct Case {
  std::vector<int64_t> mesh, shape;
  const char *from, *to;
  int64_t mesh_dim;
  std::vector<int64_t> order;
  std::vector<int64_t> leading = {};  // of the result; empty: as it is
};

at::Tensor places(const std::vector<int64_t>& order) {
  return at::tensor(order, at::kLong);
}

at::Tensor inverse_of(const std::vector<int64_t>& order) {
  return places(order).argsort();
}

at::Tensor replicated_places(const at::Tensor& t, const MeshInWorld& mesh, const Placements& like,
                             int64_t but) {
  auto placed = like;
  for (int64_t d = 0; d < std::ssize(placed); ++d)
    if (d == but || placed[as_size(d)] != Placement(Shard{0})) placed[as_size(d)] = Replicate{};
  return distribute_tensor(t, mesh, placed);
}

// Also of NaNs and of -0.0, which a sum with zeros would not keep.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() &&
         at::equal(a.detach().contiguous().view(at::kInt), b.detach().contiguous().view(at::kInt));
}

const Case kCases[] = {
    {{2}, {4, 3}, "[S0]", "[G0:1/3]", 0, {2, 0, 3, 1}},
    {{3}, {7, 2}, "[S0]", "[G0:0/7/0]", 0, {6, 5, 4, 3, 2, 1, 0}},
    {{3}, {7, 2}, "[G0:2/5/0]", "[S0]", 0, {3, 0, 6, 1, 5, 2, 4}},
    {{4}, {3, 2}, "[S0]", "[R]", 0, {1, 2, 0}},
    {{4}, {3, 2}, "[R]", "[G0:1/0/1/1]", 0, {1, 2, 0}},
    {{2}, {5, 0}, "[S0]", "[G0:2/3]", 0, {4, 3, 2, 1, 0}},
    {{2}, {3, 2, 2}, "[S0]", "[G0:5/1]", 0, {0, 3, 1, 2, 5, 4}, {6}},
    {{2}, {6, 2}, "[G0:5/1]", "[S0]", 0, {0, 3, 1, 2, 5, 4}, {3, 2}},
    {{2, 2}, {4, 2, 3}, "[S0,S0]", "[S0,G0:1/3|4/0]", 1, {3, 1, 0, 2, 5, 4, 7, 6}, {8}},
    {{2, 2}, {8, 3}, "[S1,G0:3/5]", "[S2,S0]", 1, {3, 1, 0, 2, 5, 4, 7, 6}, {4, 2}},
    {{2, 2}, {8, 3}, "[S0,S0]", "[S0,G0:1/3|4/0]", 1, {3, 1, 0, 2, 5, 4, 7, 6}},
    {{2, 2}, {8, 3}, "[S0,S0]", "[S0,R]", 1, {3, 1, 0, 2, 5, 4, 7, 6}},
    {{2, 3}, {6, 4}, "[S1,S0]", "[S1,G0:1/5/0]", 1, {5, 0, 4, 1, 3, 2}},
    {{2, 2}, {6, 4}, "[G0:2/4,R]", "[S0,R]", 0, {5, 0, 4, 1, 3, 2}},
    {{2}, {6, 2}, "[S0]", "[S0]", -1, {2, 0, 1, 5, 4, 3}},
};

// Counts what is sent to others.
class Counting : public World {
 public:
  explicit Counting(WorldPtr inner)
      : World("counting", inner->size(), inner->hosted(), inner->device()), inner_(std::move(inner)) {}
  Work exchange(Exchange asked) override {
    for (const auto& part : asked.parts)
      for (const auto& parcel : part.sent)
        if (parcel.place != part.group->place) bytes += parcel.slab.nbytes();
    return inner_->exchange(std::move(asked));
  }
  int64_t bytes = 0;

 private:
  WorldPtr inner_;
};

// Rows that ranks have after and had not before, of f32.
int64_t lacking(const Case& c, const Spec& from, const Spec& to) {
  int64_t bytes = 0;
  for (int64_t position = 0; position < from.mesh().size(); ++position) {
    const auto rows = [&](const Spec& spec) {
      std::set<int64_t> list;
      const auto owned = owned_by(spec, position);
      int64_t width = 1;
      for (size_t d = 1; d < owned.lists.size(); ++d) width *= length(owned.lists[d]);
      for (int64_t i = 0; i < numel(owned); ++i) {
        const int64_t element = i + (owned.flat ? owned.flat->start : 0);
        const int64_t inner = c10::multiply_integers(spec.shape()) / spec.shape()[0] / spec.shape().back();
        const int64_t features = length(owned.lists.back());
        list.insert(owned.lists[0][0].start * inner + element / std::max<int64_t>(features, 1));
      }
      return list;
    };
    const auto before = rows(from), after = rows(to);
    const auto features = length(owned_by(from, position).lists.back());
    for (const int64_t row : after) bytes += before.contains(c.order[as_size(row)]) ? 0 : features * 4;
  }
  return bytes;
}

// Catches: a row that lands on another's place or rank, rows of a peer in the order of their arrival, a
// gradient that goes the way of the values.
TEST(ExchangeRows, IsIndexSelectAndItsGradientGoesBack) {
  for (const auto& c : kCases) {
    SCOPED_TRACE(concat(c.from, " -> ", c.to, " of ", at::IntArrayRef(c.shape)));
    const auto world = std::make_shared<Counting>(local_world(c10::multiply_integers(c.mesh)));
    const auto mesh = init_device_mesh(c.mesh, {}, world);
    const auto from = parse_placements(c.from), to = parse_placements(c.to);
    auto plain = ramp(c.shape).requires_grad_();
    const auto rows = parameter(distribute_tensor(plain.detach(), mesh, from));
    const auto order = replicated_places(places(c.order), mesh, from, c.mesh_dim);
    const auto inverse = replicated_places(inverse_of(c.order), mesh, from, c.mesh_dim);
    const auto placement = c.mesh_dim < 0 ? Placement(Replicate{}) : to[as_size(c.mesh_dim)];
    auto shape = c.leading.empty() ? std::vector<int64_t>(c.shape.begin(), c.shape.end() - 1) : c.leading;
    world->bytes = 0;
    const auto result = exchange_rows(rows, order, inverse, c.mesh_dim, placement, shape);
    const auto expected = exchange_rows(plain, places(c.order), inverse_of(c.order), -1, Replicate{}, shape);
    shape.push_back(c.shape.back());
    const std::vector<int64_t> flat{std::ssize(c.order), c.shape.back()};
    EXPECT_EQ(world->bytes, lacking(c, spec(rows), spec(result)));
    EXPECT_EQ(placements(result), Spec(mesh.mesh, to, shape, at::kFloat).placements());
    EXPECT_TRUE(same_bits(full_tensor(result), expected));
    EXPECT_TRUE(same_bits(expected, plain.reshape(flat).index_select(0, places(c.order)).view(shape)));
    const auto grad = at::where(ramp(shape).remainder(3).eq(0), at::full({}, -0.0f), ramp(shape) + 1);
    result.backward(distribute_tensor(grad, mesh, placements(result)));
    expected.backward(grad);
    EXPECT_EQ(placements(rows.grad()), placements(rows));
    EXPECT_TRUE(same_bits(full_tensor(rows.grad()), plain.grad()));
    EXPECT_TRUE(same_bits(plain.grad(), grad.view(flat).index_select(0, inverse_of(c.order)).view(c.shape)));
  }
}

// Catches: a remedy that nobody is told, rows that come from nowhere as zeros.
TEST(ExchangeRows, SaysWhatItCannotDo) {
  const auto mesh = init_device_mesh({2, 2});
  const auto of = [&](const char* from, const char* order, std::vector<int64_t> list, int64_t mesh_dim,
                      const char* to) {
    return error_of([&] {
      const auto by = distribute_tensor(places(list), mesh, parse_placements(order));
      exchange_rows(distribute_tensor(ramp({4, 2}), mesh, parse_placements(from)), by, by, mesh_dim,
                    parse_placement(to), {4});
    });
  };
  EXPECT_TRUE(says(of("[S0,P]", "[S0,R]", {0, 1, 2, 3}, 1, "R"), {"pends", "redistribute"}));
  EXPECT_TRUE(says(of("[R,G0.1:1/7]", "[R,R]", {0, 1, 2, 3}, 1, "R"), {"within rows", "RaggedShard"}));
  EXPECT_TRUE(says(of("[R,S0]", "[I0x2,R]", {0, 1, 2, 3}, 1, "R"), {"more than one run", "Shard(0)"}));
  EXPECT_TRUE(says(of("[I0x2,R]", "[R,R]", {0, 1, 2, 3}, 1, "R"), {"dimension 0", "I0x2", "redistribute"}));
  EXPECT_TRUE(says(of("[S0,S0]", "[S0,R]", {2, 1, 0, 3}, 1, "R"), {"row 2", "on no rank", "dimension 1"}));
  EXPECT_TRUE(says(of("[R,S0]", "[R,S0]", {3, 2, 1, 0}, 1, "R"), {"lacks", "place of row", "replicate"}));
  EXPECT_TRUE(says(of("[R,S0]", "[R,R]", {0, 1, 2, 4}, 1, "R"), {"4 at place 3", "4 rows"}));
  EXPECT_TRUE(says(of("[R,S0]", "[R,R]", {0, 1, 2}, 1, "R"), {"int64", "each row"}));
  EXPECT_TRUE(says(of("[R,S0]", "[R,R]", {0, 1, 2, 3}, 2, "R"), {"mesh dimension 2"}));
  EXPECT_TRUE(says(of("[R,S0]", "[R,R]", {0, 1, 2, 3}, 1, "G0:1/2"), {"G0"}));
  EXPECT_TRUE(says(of("[R,S0]", "[R,R]", {0, 1, 2, 3}, 1, "P"), {"to P", "from and to"}));
  EXPECT_TRUE(says(of("[R,S1]", "[R,R]", {0, 1, 2, 3}, 1, "S0"), {"S1", "from and to"}));
}

}  // namespace
}  // namespace lockstep
