// SPDX-License-Identifier: Apache-2.0
// lockstep show random
#include <ATen/ATen.h>

#include <cstdio>

#include "ci/program/show.h"
#include "engine/dtensor.h"
#include "engine/values/digest.h"
#include "engine/values/error.h"
#include "engine/values/random_source.h"

namespace lockstep::program {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostPrinted = 1 << 24;

// An empty DTensor, and the operator run on it.
at::Tensor drawn(const ShowRequest& r, const MeshInWorld& mesh, const Placements& placements,
                 c10::ScalarType dtype) {
  const auto shape = parse_shape(r.shape);
  LOCKSTEP_CHECK(Spec(mesh.mesh, placements, shape, dtype).numel() <= kMostPrinted, "[show random] ", r.shape,
                 " has more than ", kMostPrinted, " elements, and each is printed; use smaller sizes");
  const auto t = lockstep::zeros(shape, mesh, placements, dtype);
  if (r.op == "uniform_" || r.op == "rand") return at::Tensor(t).uniform_(0, 1);
  if (r.op == "normal_" || r.op == "randn") return at::Tensor(t).normal_(0, 1);
  if (r.op == "bernoulli_") return at::Tensor(t).bernoulli_(r.p);
  if (r.op == "randint") return at::randint_like(t, r.low, r.high);
  if (r.op == "dropout") return at::dropout(lockstep::ones(shape, mesh, placements, dtype), r.p, true);
  throw Error(concat("[show random] ", r.op,
                     ": write uniform_, normal_, bernoulli_, randint, dropout, rand or randn"));
}

// The element's bits in its own dtype, as hex digits of its width.
std::string bits_text(const at::Tensor& flat, int64_t i) {
  const auto* bytes = static_cast<const unsigned char*>(flat.const_data_ptr()) + i * flat.element_size();
  std::string text = "0x";
  for (int64_t k = flat.element_size() - 1; k >= 0; --k) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", bytes[k]);
    text += two;
  }
  return text;
}

std::string value_text(const at::Tensor& flat, int64_t i) {
  char text[40];
  std::snprintf(text, sizeof text, at::isFloatingType(flat.scalar_type()) ? "%.8f" : "%.0f",
                flat[i].to(at::kDouble).item<double>());
  return text;
}

}  // namespace

Shown show_random(const ShowRequest& request) {
  const auto mesh_value = parse_mesh(request.mesh);
  const auto mesh = init_device_mesh(mesh_value.shape(), mesh_value.names());
  auto placements = Placements(static_cast<size_t>(mesh_value.ndim()), Replicate{});
  if (!request.placements.empty()) placements = parse_placements_and_order(request.placements).first;
  const auto dtype = parse_dtype(request.dtype);
  generator().device = parse_device_model(request.device);
  LOCKSTEP_CHECK(request.offset % 4 == 0, "[show random] --offset ", request.offset,
                 " must be a multiple of 4");
  generator().state = {request.seed, request.offset};
  const auto full = full_tensor(drawn(request, mesh, placements, dtype)).contiguous();
  const auto flat = full.reshape({-1});
  const auto bits = digest(full);
  const auto digest_text = concat(std::hex, bits.hi, "-", bits.lo);
  Shown shown{"",
              {{"op", request.op},
               {"shape", full.sizes().vec()},
               {"dtype", dtype_name(full.scalar_type())},
               {"mesh", request.mesh},
               {"placements", to_string(placements)},
               {"device_model", request.device},
               {"seed", std::to_string(request.seed)},
               {"offset", std::to_string(request.offset)},
               {"offset_after", std::to_string(generator().state.offset)},
               {"digest", digest_text},
               {"values", Json::array()},
               {"bits", Json::array()}}};
  const int64_t columns = full.dim() == 0 ? 1 : std::max<int64_t>(1, full.size(-1));
  for (int64_t i = 0; i < flat.numel(); ++i) {
    shown.text += value_text(flat, i) + (i % columns == columns - 1 ? "\n" : " ");
    shown.json["values"].push_back(flat[i].to(at::kDouble).item<double>());
    shown.json["bits"].push_back(bits_text(flat, i));
  }
  shown.text += concat("digest ", digest_text, "\noffset after ", generator().state.offset);
  return shown;
}

}  // namespace lockstep::program
