// SPDX-License-Identifier: Apache-2.0
// lockstep show random
#include <ATen/ATen.h>

#include <cstdio>

#include "ci/program/show.h"
#include "engine/stream/random_source.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/digest.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "suites/golden/stock_op.h"

namespace lockstep::program {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostPrinted = 1 << 24, kMostDrawn = 1 << 27;

// The parts of the request that say which elements are printed: all, the first ones, or chosen ones.
struct Printed {
  std::vector<int64_t> elements;
  bool chosen = false;  // with their numbers, one a line
};

Printed printed_of(const ShowRequest& r, int64_t numel) {
  Printed printed;
  if (r.at.empty()) {
    const int64_t count = r.first < 0 ? numel : std::min(r.first, numel);
    LOCKSTEP_CHECK(count <= kMostPrinted, "[show random] ", r.shape, " has more than ", kMostPrinted,
                   " elements, and each is printed; use smaller sizes, --first N or --at I,J");
    for (int64_t i = 0; i < count; ++i) printed.elements.push_back(i);
    return printed;
  }
  const auto elements = parse_integers(r.at, ',');
  LOCKSTEP_CHECK(elements, "[show random] --at ", r.at, ": write numbers of elements, for example 0,270336");
  for (const int64_t i : *elements)
    LOCKSTEP_CHECK(i >= 0 && i < numel, "[show random] --at ", i, ": the elements are 0 to ", numel - 1);
  return {*elements, true};
}

suites::TensorForm form_of(const ShowRequest& r, const suites::StockOp& op) {
  suites::TensorForm form;
  form.shape = parse_shape(r.shape);
  form.stride = contiguous_strides(form.shape);
  form.dtype = parse_dtype(r.dtype.empty() ? op.dtype : r.dtype);
  if (r.stride.empty()) return form;
  const auto stride = parse_integers(r.stride, 'x');
  LOCKSTEP_CHECK(stride && stride->size() == form.shape.size(), "[show random] --stride ", r.stride,
                 ": write one for each dimension of ", r.shape, ", for example 1x4");
  for (const int64_t s : *stride)
    LOCKSTEP_CHECK(s > 0, "[show random] --stride ", r.stride, ": strides are at least 1");
  form.stride = *stride;
  return form;
}

// The elements as numbers: integers are exact, others as doubles.
struct Numbers {
  explicit Numbers(const at::Tensor& flat)
      : whole(!at::isFloatingType(flat.scalar_type())),
        wide(flat.to(whole ? at::kLong : at::kDouble).contiguous()) {}
  Json value(int64_t i) const {
    return whole ? Json(wide.const_data_ptr<int64_t>()[i]) : Json(wide.const_data_ptr<double>()[i]);
  }
  std::string text(int64_t i, const char* format) const {
    if (whole) return std::to_string(wide.const_data_ptr<int64_t>()[i]);
    char digits[400];
    std::snprintf(digits, sizeof digits, format, wide.const_data_ptr<double>()[i]);
    return digits;
  }
  bool whole;
  at::Tensor wide;
};

void print_values(const at::Tensor& full, const Printed& printed, Shown& shown) {
  const auto flat = full.reshape({-1});
  const Numbers numbers(flat);
  const int64_t columns = full.dim() == 0 ? 1 : std::max<int64_t>(1, full.size(-1));
  const auto last = printed.elements.empty() ? -1 : printed.elements.back();
  for (const int64_t i : printed.elements) {
    const auto bits = suites::element_bits(flat, i);
    if (printed.chosen)
      shown.text += concat("[", i, "] ", numbers.text(i, "%.9g"), " ", bits, "\n");
    else
      shown.text += numbers.text(i, "%.8f") + (i % columns == columns - 1 || i == last ? "\n" : " ");
    shown.json["values"].push_back(numbers.value(i));
    shown.json["bits"].push_back(bits);
  }
}

}  // namespace

Shown show_random(const ShowRequest& request) {
  const auto& op = suites::find_stock_op(request.op);
  const auto mesh_value = parse_mesh(request.mesh);
  auto placements = Placements(static_cast<size_t>(mesh_value.ndim()), Replicate{});
  std::vector<int64_t> order;
  if (!request.placements.empty())
    std::tie(placements, order) = parse_placements_and_order(request.placements);
  const auto form = form_of(request, op);
  const int64_t numel = Spec(mesh_value, placements, form.shape, form.dtype).numel();
  LOCKSTEP_CHECK(numel <= kMostDrawn, "[show random] ", request.shape, " has more than ", kMostDrawn,
                 " elements; use smaller sizes");
  LOCKSTEP_CHECK(request.offset % 4 == 0, "[show random] --offset ", request.offset,
                 " must be a multiple of 4");
  const auto mesh = init_device_mesh(mesh_value.shape(), mesh_value.names());
  generator() = {{request.seed, request.offset}, parse_device_model(request.device)};
  const auto drawn =
      suites::run_stock(op, suites::mesh_maker(mesh, placements, order), form, request.arguments);
  const auto full = full_tensor(drawn).contiguous();
  const auto bits = digest(full);
  const auto digest_text = concat(std::hex, bits.hi, "-", bits.lo);
  char fnv[17];
  std::snprintf(fnv, sizeof fnv, "%016lx", suites::fnv1a64(full));
  Shown shown{"",
              {{"op", request.op},
               {"arguments", request.arguments},
               {"shape", full.sizes().vec()},
               {"dtype", dtype_name(full.scalar_type())},
               {"mesh", request.mesh},
               {"placements", to_string(placements)},
               {"device_model", request.device},
               {"seed", std::to_string(request.seed)},
               {"offset", std::to_string(request.offset)},
               {"offset_after", std::to_string(generator().state.offset)},
               {"digest", digest_text},
               {"fnv1a64", fnv},
               {"values", Json::array()},
               {"bits", Json::array()}}};
  print_values(full, printed_of(request, full.numel()), shown);
  shown.text +=
      concat("digest ", digest_text, "\nfnv1a64 ", fnv, "\noffset after ", generator().state.offset);
  return shown;
}

}  // namespace lockstep::program
