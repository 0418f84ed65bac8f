// SPDX-License-Identifier: Apache-2.0
// DBuffer against redistribute, tensor by tensor and bit by bit, on every hosted rank; and whose memory it
// is.
#include "engine/fsdp/dbuffer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/fsdp/reduce.h"
#include "engine/layout/layout.h"
#include "engine/values/error.h"
#include "engine/world/bits.h"

namespace lockstep::fsdp {
namespace {

struct Setting {
  const char *mesh, *whole;  // placements of every tensor of two dimensions; others are replicated
  int64_t mesh_dim;
};
constexpr Setting kSettings[] = {{"1", "[R]", 0},         {"2", "[R]", 0},      {"3", "[R]", 0},
                                 {"5", "[R]", 0},         {"8", "[R]", 0},      {"2x3", "[R,R]", 1},
                                 {"2x2", "[R,S0]", 0},    {"2x2", "[S1,R]", 1}, {"2x4", "[R,S0]", 0},
                                 {"2x2x2", "[R,R,S0]", 1}};

const std::vector<std::vector<int64_t>> kShapes = {{6, 10}, {4}, {1}, {0}, {12, 2}, {30}};

std::vector<SpecPtr> specs(const Setting& s, const DeviceMesh& mesh, c10::ScalarType dtype) {
  std::vector<SpecPtr> all;
  for (const auto& shape : kShapes) {
    auto placements = parse_placements(s.whole);
    if (shape.size() != 2) placements.assign(placements.size(), Replicate{});
    all.push_back(std::make_shared<const Spec>(mesh, placements, shape, dtype));
  }
  return all;
}

at::Tensor values(at::IntArrayRef shape, c10::ScalarType dtype, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat).to(dtype);
}

void expect_same(const at::Tensor& actual, const at::Tensor& expected) {
  ASSERT_EQ(to_string(spec(actual)), to_string(spec(expected)));
  for (size_t r = 0; r < local_tensors(actual).size(); ++r) {
    const auto &a = local_tensors(actual)[r], &b = local_tensors(expected)[r];
    ASSERT_EQ(a.sizes(), b.sizes());
    EXPECT_TRUE(same_bits(a, b)) << "rank " << r << " of " << spec(actual) << "\n" << a << "\n" << b;
  }
}

struct Group {
  Group(const Setting& s, c10::ScalarType dtype, c10::ScalarType gathered_dtype)
      : setting(s),
        mesh(init_device_mesh(parse_mesh(s.mesh).shape())),
        wholes(specs(s, mesh.mesh, dtype)),
        gathered(gathered_dtype) {
    std::vector<GroupTensor> tensors;
    for (const auto& whole : wholes) tensors.push_back({whole, 1});
    buffer =
        std::make_unique<DBuffer>(mesh.comm, GroupLayout(tensors, s.mesh_dim, Order::kDefault, {gathered}));
  }
  const Setting& setting;
  MeshInWorld mesh;
  std::vector<SpecPtr> wholes;
  c10::ScalarType gathered;
  std::unique_ptr<DBuffer> buffer;
};

template <class F>
void each_group(F&& f) {
  for (const auto& setting : kSettings)
    for (const auto& [dtype, gathered] :
         {std::pair(at::kFloat, at::kFloat), std::pair(at::kDouble, at::kDouble),
          std::pair(at::kBFloat16, at::kBFloat16), std::pair(at::kFloat, at::kBFloat16),
          std::pair(at::kHalf, at::kDouble)}) {
      SCOPED_TRACE(
          concat(setting.mesh, " ", setting.whole, " ", dtype_name(dtype), " ", dtype_name(gathered)));
      const Group group(setting, dtype, gathered);
      f(group);
    }
}

// Catches: a tensor gathered from another place, a view of another size, a part taken for another rank's,
// padding taken for values; a cast of values that were written since.
TEST(DBuffer, GathersWhatRedistributeGathers) {
  each_group([](const Group& g) {
    auto& buffer = *g.buffer;
    for (int round = 0; round < 2; ++round) {
      for (size_t i = 0; i < g.wholes.size(); ++i)
        at::Tensor(buffer.sharded(i))
            .copy_(distribute_tensor(values(kShapes[i], g.wholes[i]->dtype(), 10 * i + round), g.mesh,
                                     buffer.layout().sharded(i)->placements()));
      buffer.gather().wait();
      for (size_t i = 0; i < g.wholes.size(); ++i)
        expect_same(buffer.whole(i),
                    redistribute(buffer.sharded(i).to(g.gathered), g.wholes[i]->placements()));
      buffer.release();
    }
  });
}

// No copy: a cut tensor is part of the shard, a gathered one of the one memory of its rank; and that is given
// back.
TEST(DBuffer, TensorsArePartsOfOneMemory) {
  const Group g(kSettings[3], at::kFloat, at::kFloat);
  auto& buffer = *g.buffer;
  const auto& layout = buffer.layout();
  buffer.gather().wait();
  for (size_t r = 0; r < 5; ++r)
    for (size_t i = 0; i < g.wholes.size(); ++i) {
      const auto& part = local_tensors(buffer.sharded(i))[r];
      EXPECT_TRUE(part.is_alias_of(buffer.shards()[r]));
      EXPECT_EQ(part.storage_offset(), layout.in_shard(i, static_cast<int64_t>(r)).start);
      const auto& whole = local_tensors(buffer.whole(i))[r];
      EXPECT_TRUE(whole.is_alias_of(local_tensors(buffer.whole(0))[r]));
      EXPECT_EQ(whole.storage_offset(), layout.plan().intervals[i].start);
      EXPECT_EQ(whole.storage().nbytes(), static_cast<size_t>(5 * layout.plan().shard_size * 4));
    }
  // What a rank writes no other sees, though what they gathered lies in memory once.
  local_tensors(buffer.whole(0))[1].fill_(7);
  EXPECT_FALSE(local_tensors(buffer.whole(0))[2].eq(7).any().item<bool>());
  buffer.release();
  EXPECT_EQ(local_tensors(buffer.whole(0))[1].storage().nbytes(), 0u);
}

// Catches: parts of another rank, parts of shards where those of what was gathered are asked for, parts that
// stay after the next gather.
TEST(DBuffer, WhatNeighboursKeepIsGatheredFromThem) {
  each_group([](const Group& g) {
    auto& buffer = *g.buffer;
    const int64_t ranks = g.mesh.mesh.size(g.setting.mesh_dim);
    for (int64_t among = 2; among < ranks; ++among) {
      if (ranks % among != 0) continue;
      std::vector<at::Tensor> before;
      for (size_t i = 0; i < g.wholes.size(); ++i)
        at::Tensor(buffer.sharded(i))
            .copy_(distribute_tensor(values(kShapes[i], g.wholes[i]->dtype(), 10 * i), g.mesh,
                                     buffer.layout().sharded(i)->placements()));
      buffer.gather().wait();
      for (size_t i = 0; i < g.wholes.size(); ++i) before.push_back(buffer.whole(i).clone());
      buffer.release(among);
      EXPECT_EQ(local_tensors(buffer.whole(0))[0].storage().nbytes(), 0u);
      for (size_t i = 0; i < g.wholes.size(); ++i) at::Tensor(buffer.sharded(i)).zero_();
      buffer.gather().wait();
      for (size_t i = 0; i < g.wholes.size(); ++i) expect_same(buffer.whole(i), before[i]);
      buffer.release();
      buffer.gather().wait();
      EXPECT_TRUE(full_tensor(buffer.whole(0)).eq(0).all().item<bool>());
      buffer.release(among);
      buffer.release();
      buffer.gather().wait();
      EXPECT_TRUE(full_tensor(buffer.whole(0)).eq(0).all().item<bool>());
      buffer.release();
    }
  });
}

// Catches: padding written by whoever writes tensors.
TEST(DBuffer, PaddingStaysAsItWas) {
  each_group([](const Group& g) {
    auto& buffer = *g.buffer;
    for (size_t i = 0; i < g.wholes.size(); ++i) at::Tensor(buffer.sharded(i)).fill_(1);
    for (size_t r = 0; r < buffer.shards().size(); ++r) {
      int64_t held = 0;
      for (size_t i = 0; i < g.wholes.size(); ++i) {
        const auto part = buffer.layout().in_shard(i, buffer.comm()->positions[r]);
        held += part.end - part.start;
      }
      EXPECT_EQ(buffer.shards()[r].isnan().sum().item<int64_t>(), buffer.layout().plan().shard_size - held);
    }
  });
}

// A term for each rank; those that the placements call replicas have the same one.
at::Tensor gradient(const Group& g, size_t i, const Placements& placements, uint64_t seed) {
  const auto dtype = g.gathered;
  const Spec like(g.mesh.mesh, placements, kShapes[i], dtype);
  PerRank<at::Tensor> locals;
  for (int64_t p = 0; p < g.mesh.mesh.size(); ++p) {
    uint64_t own = seed * 10 + i;
    const auto coordinate = g.mesh.mesh.coordinate(p);
    for (size_t d = 0; d < placements.size(); ++d)
      own = own * 8 + (is_replicate(placements[d]) ? 0 : static_cast<uint64_t>(coordinate[d]));
    locals.push_back(values(local_shape(like, p), dtype, own));
  }
  return from_local(locals, g.mesh, placements, kShapes[i]);
}

// What redistribute makes of it: over the buffer's mesh dimension first.
at::Tensor one_by_one(const Group& g, size_t i, const at::Tensor& grad) {
  const auto& target = g.buffer->layout().sharded(i)->placements();
  auto first = placements(grad);
  first[static_cast<size_t>(g.setting.mesh_dim)] = target[static_cast<size_t>(g.setting.mesh_dim)];
  return redistribute(redistribute(grad, first), target);
}

std::vector<at::Tensor> reduced(const Group& g, const std::vector<at::Tensor>& gradients) {
  auto reducing = reduce(*g.buffer, gradients);
  reducing.finish();
  return reducing.gradients();
}

// Catches: terms in another order or of another tensor, a rank's part that comes to another, a mesh dimension
// that is not reduced, or reduced first; a gradient that does not pend taken for a term.
TEST(Reduce, BringsWhatRedistributeBrings) {
  each_group([](const Group& g) {
    const auto d = static_cast<size_t>(g.setting.mesh_dim);
    for (uint64_t round = 0; round < 3; ++round) {
      std::vector<at::Tensor> gradients, expected;
      for (size_t i = 0; i < g.wholes.size(); ++i) {
        auto pending = g.wholes[i]->placements();
        if (round == 2 && i == 1) {
          gradients.emplace_back();  // unused in this pass
          expected.emplace_back();
          continue;
        }
        pending[d] = Partial{};
        for (size_t e = 0; e < pending.size(); ++e)  // HSDP
          if (is_replicate(pending[e]) && round > 0) pending[e] = Partial{};
        if (round == 2 && i == 0) pending[d] = Replicate{};
        gradients.push_back(gradient(g, i, pending, round));
        expected.push_back(one_by_one(g, i, gradients.back()));
      }
      const auto actual = reduced(g, gradients);
      for (size_t i = 0; i < actual.size(); ++i) {
        ASSERT_EQ(actual[i].defined(), expected[i].defined());
        if (actual[i].defined()) expect_same(actual[i], expected[i]);
      }
    }
  });
}

// Catches: a gradient in memory of its own, or of another's part; padding written by a fold.
TEST(Reduce, GradientsArePartsOfOneMemory) {
  each_group([](const Group& g) {
    const bool is_alike = std::string_view(g.setting.whole).find('S') == std::string_view::npos;
    for (const bool replicas_too : {false, true}) {
      if (replicas_too && !is_alike) continue;  // then those that are not added up once more lie elsewhere
      std::vector<at::Tensor> gradients;
      for (size_t i = 0; i < g.wholes.size(); ++i) {
        auto pending = g.wholes[i]->placements();
        for (size_t e = 0; e < pending.size(); ++e)
          if (e == static_cast<size_t>(g.setting.mesh_dim) || (replicas_too && is_replicate(pending[e])))
            pending[e] = Partial{};
        gradients.push_back(gradient(g, i, pending, 1));
      }
      const auto all = reduced(g, gradients);
      const auto& layout = g.buffer->layout();
      for (size_t r = 0; r < local_tensors(all[0]).size(); ++r) {
        int64_t held = 0;
        for (size_t i = 0; i < all.size(); ++i) {
          const auto& part = local_tensors(all[i])[r];
          const auto mine = layout.in_shard(i, g.buffer->comm()->positions[r]);
          EXPECT_TRUE(part.is_alias_of(local_tensors(all[0])[r]));
          EXPECT_EQ(part.storage_offset(), mine.start);
          held += mine.end - mine.start;
        }
        const auto& first = local_tensors(all[0])[r];
        const auto memory = first.as_strided({layout.plan().shard_size}, {1}, 0);
        EXPECT_EQ(memory.isnan().sum().item<int64_t>(), layout.plan().shard_size - held);
      }
    }
  });
}

// Catches: a cast of another tensor's gradient, one that is left out, and one of what is not there.
TEST(Reduce, CastsWhatCameIntoOneMemory) {
  each_group([](const Group& g) {
    std::vector<at::Tensor> gradients;
    for (size_t i = 0; i < g.wholes.size(); ++i) {
      auto pending = g.wholes[i]->placements();
      pending[static_cast<size_t>(g.setting.mesh_dim)] = Partial{};
      gradients.push_back(i == 1 ? at::Tensor() : gradient(g, i, pending, 1));
    }
    const auto came = reduced(g, gradients), cast = cast_reduced(*g.buffer, came, at::kHalf);
    EXPECT_FALSE(cast[1].defined());
    for (size_t i = 0; i < cast.size(); ++i) {
      if (i == 1) continue;
      expect_same(cast[i], came[i].to(at::kHalf));
      for (size_t r = 0; r < local_tensors(cast[i]).size(); ++r)
        EXPECT_TRUE(local_tensors(cast[i])[r].is_alias_of(local_tensors(cast[0])[r]));
    }
  });
}

// Catches: an average or a maximum that is added up.
TEST(Reduce, WhatPendsOtherwiseGoesItsOwnWay) {
  const Group g(kSettings[2], at::kFloat, at::kFloat);
  for (const auto* text : {"[Pavg]", "[Pmax]", "[S0]", "[S1]"}) {
    std::vector<at::Tensor> gradients(kShapes.size());
    gradients[0] = gradient(g, 0, parse_placements(text), 3);
    expect_same(reduced(g, gradients)[0],
                redistribute(gradients[0], g.buffer->layout().sharded(0)->placements()));
  }
}

// In 16 bits the terms of many elements add up to another number than in 64. Catches: terms that are added up
// before they are cast, or in the dtype in which they came.
TEST(Reduce, CastsTermsBeforeTheyAreAdded) {
  const Group g(kSettings[4], at::kFloat, at::kBFloat16);
  const auto terms = gradient(g, 0, parse_placements("[P]"), 5);
  const auto cast = cast_terms(terms, at::kDouble);
  EXPECT_EQ(to_string(spec(cast).placements()), "[P]");
  auto sum = at::zeros(kShapes[0], at::kDouble);
  for (const auto& term : local_tensors(terms)) sum += term.to(at::kDouble);
  std::vector<at::Tensor> gradients(kShapes.size());
  gradients[0] = cast;
  const auto whole = full_tensor(reduced(g, gradients)[0]);
  EXPECT_TRUE(same_bits(whole, sum)) << whole << "\n" << sum;
  EXPECT_FALSE(same_bits(full_tensor(terms).to(at::kDouble), sum)) << "the dtype makes no difference";
}

}  // namespace
}  // namespace lockstep::fsdp
