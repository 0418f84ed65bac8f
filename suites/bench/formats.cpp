// SPDX-License-Identifier: Apache-2.0
// What a format of shards costs beside the collectives (veScale-FSDP, Table 1): out of what an all-gather
// gives into parameters, out of gradients into what a reduce-scatter takes, and the memory of the first. Of
// one rank of eight and a layer of 3.2 million elements. In a DBuffer parameters are views of what was
// gathered, and the exchange names the parts of gradients where they lie. Element-wise shards (ZeRO,
// FSDP1) are parts of one flat parameter, into which gradients are joined; FSDP2's even ones are interleaved
// by rank.
#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <memory>

#include "engine/fsdp/group_layout.h"
#include "engine/values/as_size.h"
#include "suites/bench/body.h"
#include "suites/bench/measure.h"
#include "suites/train/memory.h"

namespace lockstep::suites {
namespace {

using Tensors = std::vector<at::Tensor>;
constexpr int64_t kRanks = 8;

Tensors layer() {
  Tensors all;
  for (const auto& shape : std::vector<std::vector<int64_t>>{{512},
                                                             {512, 512},
                                                             {512, 512},
                                                             {512, 512},
                                                             {512, 512},
                                                             {512},
                                                             {1376, 512},
                                                             {1376, 512},
                                                             {512, 1376}})
    all.push_back(at::arange(c10::multiply_integers(shape), at::kFloat).remainder(251).view(shape));
  return all;
}

// The way from what eight ranks gather to parameters, and from gradients to what eight ranks reduce.
struct Format {
  const char* name;
  at::Tensor (*gathered)(const Tensors& parameters);
  Tensors (*copy_out)(const at::Tensor& gathered, const Tensors& like);
  at::Tensor (*copy_in)(const Tensors& gradients);
};

// ---- DBuffer ----

fsdp::BufferPlan plan_of(const Tensors& like) {
  std::vector<fsdp::BlockTensor> blocks;
  for (const auto& t : like) blocks.push_back({t.numel(), 1});
  return fsdp::plan(blocks, fsdp::buffer_options(kRanks, fsdp::Order::kDefault, {at::kFloat}));
}
Tensors views(const at::Tensor& gathered, const Tensors& like) {
  static const auto plan = plan_of(like);
  Tensors all;
  for (size_t i = 0; i < like.size(); ++i)
    all.push_back(gathered.narrow(0, plan.intervals[i].start, like[i].numel()).view(like[i].sizes()));
  return all;
}
at::Tensor in_buffer(const Tensors& parameters) {
  const auto plan = plan_of(parameters);
  const auto gathered = at::zeros({plan.shards * plan.shard_size}, at::kFloat);
  at::_foreach_copy_(views(gathered, parameters), parameters);
  return gathered;
}

// ---- element-wise (ZeRO, FSDP1): all elements one behind the other, wherever ranks begin ----

at::Tensor flattened(const Tensors& tensors) {
  Tensors flat;
  for (const auto& t : tensors) flat.push_back(t.flatten());
  return at::cat(flat);
}
Tensors flat_views(const at::Tensor& gathered, const Tensors& like) {
  Tensors all;
  int64_t start = 0;
  for (const auto& t : like) {
    all.push_back(gathered.narrow(0, start, t.numel()).view(t.sizes()));
    start += t.numel();
  }
  return all;
}

at::Tensor in_flat(const Tensors& parameters) {
  int64_t elements = 0;
  for (const auto& t : parameters) elements += t.numel();
  const auto gathered = at::empty({elements}, at::kFloat);
  at::_foreach_copy_(flat_views(gathered, parameters), parameters);
  return gathered;
}

// ---- even shards, of rows or of columns: those of a rank one behind the other, and then the next rank's
// ----

int64_t sharded_dim(const at::Tensor& t, int64_t dim) {
  return std::min(dim, t.dim() - 1);
}
// [rank, elements]
at::Tensor by_rank(const at::Tensor& t, int64_t dim) {
  return at::stack(t.chunk(kRanks, sharded_dim(t, dim))).reshape({kRanks, -1});
}
template <int64_t dim>
at::Tensor interleaved(const Tensors& tensors) {
  if (dim == 0) return at::_chunk_cat(tensors, 0, kRanks);
  Tensors rows;
  for (const auto& t : tensors) rows.push_back(t.dim() > dim ? at::cat(t.chunk(kRanks, dim)) : t);
  return at::_chunk_cat(rows, 0, kRanks);
}
template <int64_t dim>
Tensors parted(const at::Tensor& gathered, const Tensors& like) {
  std::vector<int64_t> sizes;
  for (const auto& t : like) sizes.push_back(t.numel() / kRanks);
  auto parts = at::split_with_sizes_copy(gathered.view({kRanks, -1}), sizes, 1);
  for (size_t i = 0; i < parts.size(); ++i) {
    auto shape = like[i].sizes().vec();
    const auto d = sharded_dim(like[i], dim);
    if (d == 0) {
      parts[i] = parts[i].view(shape);
      continue;
    }
    shape[as_size(d)] /= kRanks;
    shape.insert(shape.begin(), kRanks);
    parts[i] = at::cat(parts[i].view(shape).unbind(), d);
  }
  return parts;
}
template <int64_t dim>
at::Tensor gathered_even(const Tensors& parameters) {
  Tensors all;
  for (const auto& t : parameters) all.push_back(by_rank(t, dim));
  return at::cat(all, 1).contiguous();
}

const Format kFormats[] = {
    {"DBuffer", in_buffer, views, nullptr},
    {"element-wise", in_flat, flat_views, flattened},
    {"even Shard(0)", gathered_even<0>, parted<0>, interleaved<0>},
    {"even Shard(1)", gathered_even<1>, parted<1>, interleaved<1>},
};

// ---- bodies ----

struct Scene {
  explicit Scene(const Format& f) : format(f), gathered(f.gathered(parameters)) {}
  const Format& format;
  const Tensors parameters = layer();
  const at::Tensor gathered;

  void out() const { format.copy_out(gathered, parameters); }
  void in() const {
    if (format.copy_in != nullptr) format.copy_in(parameters);
  }
  void check() const {
    check_bits(std::string("copy-out of ") + format.name, parameters, format.copy_out(gathered, parameters));
    if (format.copy_in == nullptr) return;
    check_bits(std::string("copy-in of ") + format.name, {gathered.flatten()},
               {format.copy_in(parameters).flatten()});
  }
};

using Way = void (Scene::*)() const;

template <Way way>
Prepared timed(const Format& format) {
  const auto s = std::make_shared<const Scene>(format);
  return {[s] { s->check(); },
          [s](double least) { return 1e3 * seconds_per_call([&] { ((*s).*way)(); }, least); },
          [s] { ((*s).*way)(); }};
}

// Bytes at once, beside what was gathered.
Prepared held(const Format& format) {
  const auto s = std::make_shared<const Scene>(format);
  return {[s] { s->check(); },
          [s](double) {
            PeakMemory memory;
            memory.take_peak_bytes();
            const auto parameters = s->format.copy_out(s->gathered, s->parameters);
            return static_cast<double>(memory.take_peak_bytes());
          }};
}

}  // namespace

void add_formats(Bodies& bodies) {
  for (const auto& format : kFormats) {
    const std::string name = format.name;
    bodies.push_back({{"copy-out of a layer, " + name, "fsdp", false, false, "ms"},
                      [&format] { return timed<&Scene::out>(format); }});
    if (format.copy_in != nullptr)
      bodies.push_back({{"copy-in of a layer, " + name, "fsdp", false, false, "ms"},
                        [&format] { return timed<&Scene::in>(format); }});
    bodies.push_back({{"copy-out of a layer, " + name + ": bytes", "fsdp", true, false, "B"},
                      [&format] { return held(format); }});
  }
}

}  // namespace lockstep::suites
