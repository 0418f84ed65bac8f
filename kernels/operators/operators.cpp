// SPDX-License-Identifier: Apache-2.0
#include "kernels/operators/operators.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>

#include "kernels/operators/experts.h"
#include "kernels/operators/newton_schulz.h"
#include "kernels/operators/tiles.h"

namespace lockstep {
namespace {

struct Tiled {
  Tiling tiling;
  int64_t matrices = 0;
  std::vector<int64_t> scales;  // their shape
};

Tiled tiled(const at::Tensor& all, int64_t tile_rows, int64_t tile_columns) {
  TORCH_CHECK(all.dim() >= 2, "[optim::tiles] they are of matrices, not of ", all.sizes());
  TORCH_CHECK(tile_rows > 0 && tile_columns > 0, "[optim::tiles] one has a row and a column at least, not ",
              tile_rows, "x", tile_columns);
  const auto d = static_cast<size_t>(all.dim());
  // A tile ends where the matrix does.
  const auto within = [](int64_t tile, int64_t extent) {
    return std::min(tile, std::max<int64_t>(extent, 1));
  };
  Tiled t{{all.size(-2), all.size(-1), within(tile_rows, all.size(-2)), within(tile_columns, all.size(-1))},
          c10::multiply_integers(all.sizes().slice(0, d - 2)),
          all.sizes().vec()};
  t.scales[d - 2] = t.tiling.down();
  t.scales[d - 1] = t.tiling.across();
  return t;
}

std::tuple<at::Tensor, at::Tensor> codes_like(const at::Tensor& self, bool, int64_t rows, int64_t columns) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()), "[optim::quantize_tiles] of floating point, not of ",
              self.scalar_type());
  return {at::empty(self.sizes(), self.options().dtype(at::kByte)),
          at::empty(tiled(self, rows, columns).scales, self.options().dtype(at::kFloat))};
}

at::Tensor values_like(const at::Tensor& codes, const at::Tensor& scales, bool, int64_t rows,
                       int64_t columns) {
  TORCH_CHECK(codes.scalar_type() == at::kByte && at::isFloatingType(scales.scalar_type()) &&
                  scales.sizes() == at::IntArrayRef(tiled(codes, rows, columns).scales),
              "[optim::dequantize_tiles] codes ", codes.scalar_type(), codes.sizes(), " and scales ",
              scales.scalar_type(), scales.sizes(), " are not those of tiles of ", rows, "x", columns);
  return at::empty(codes.sizes(), scales.options());
}

std::tuple<at::Tensor, at::Tensor> quantize(const at::Tensor& self, bool is_signed, int64_t rows,
                                            int64_t columns) {
  auto [codes, scales] = codes_like(self, is_signed, rows, columns);
  const auto values = self.to(at::kFloat).contiguous();
  const auto [t, matrices, shape] = tiled(self, rows, columns);
  for (int64_t i = 0; i < matrices; ++i)
    quantize_tiles(values.const_data_ptr<float>() + i * t.numel(), t, dynamic_map(is_signed),
                   codes.mutable_data_ptr<uint8_t>() + i * t.numel(),
                   scales.mutable_data_ptr<float>() + i * t.count());
  return {codes, scales};
}

at::Tensor dequantize(const at::Tensor& codes, const at::Tensor& scales, bool is_signed, int64_t rows,
                      int64_t columns) {
  const auto dense_codes = codes.contiguous(), dense_scales = scales.to(at::kFloat).contiguous();
  auto values = values_like(codes, dense_scales, is_signed, rows, columns);
  const auto [t, matrices, shape] = tiled(codes, rows, columns);
  for (int64_t i = 0; i < matrices; ++i)
    dequantize_tiles(dense_codes.const_data_ptr<uint8_t>() + i * t.numel(),
                     dense_scales.const_data_ptr<float>() + i * t.count(), t, dynamic_map(is_signed),
                     values.mutable_data_ptr<float>() + i * t.numel());
  return values.to(scales.scalar_type());
}

std::tuple<at::Tensor, at::Tensor> int8_like(const at::Tensor& self, int64_t rows, int64_t columns) {
  auto [codes, scales] = codes_like(self, true, rows, columns);
  return {at::empty(self.sizes(), self.options().dtype(at::kChar)), scales};
}

std::tuple<at::Tensor, at::Tensor> in_int8(const at::Tensor& self, int64_t rows, int64_t columns) {
  auto [codes, scales] = int8_like(self, rows, columns);
  const auto values = self.to(at::kFloat).contiguous();
  const auto [t, matrices, shape] = tiled(self, rows, columns);
  for (int64_t i = 0; i < matrices; ++i)
    quantize_int8(values.const_data_ptr<float>() + i * t.numel(), t,
                  codes.mutable_data_ptr<int8_t>() + i * t.numel(),
                  scales.mutable_data_ptr<float>() + i * t.count());
  return {codes, scales};
}

at::Tensor of_int8_like(const at::Tensor& codes, const at::Tensor& scales, int64_t rows, int64_t columns) {
  TORCH_CHECK(codes.scalar_type() == at::kChar && at::isFloatingType(scales.scalar_type()) &&
                  scales.sizes() == at::IntArrayRef(tiled(codes, rows, columns).scales),
              "[optim::dequantize_int8] codes ", codes.scalar_type(), codes.sizes(), " and scales ",
              scales.scalar_type(), scales.sizes(), " are not those of tiles of ", rows, "x", columns);
  return at::empty(codes.sizes(), scales.options());
}

at::Tensor of_int8(const at::Tensor& codes, const at::Tensor& scales, int64_t rows, int64_t columns) {
  const auto dense_codes = codes.contiguous(), dense_scales = scales.to(at::kFloat).contiguous();
  auto values = of_int8_like(codes, dense_scales, rows, columns);
  const auto [t, matrices, shape] = tiled(codes, rows, columns);
  for (int64_t i = 0; i < matrices; ++i)
    dequantize_int8(dense_codes.const_data_ptr<int8_t>() + i * t.numel(),
                    dense_scales.const_data_ptr<float>() + i * t.count(), t,
                    values.mutable_data_ptr<float>() + i * t.numel());
  return values.to(scales.scalar_type());
}

at::ScalarType dtype_of(bool single_precision) {
  return single_precision ? at::kFloat : at::kBFloat16;
}

at::Tensor orthogonal_like(const at::Tensor& self, at::ArrayRef<double> coefficients, int64_t steps, double,
                           bool single_precision) {
  TORCH_CHECK(self.dim() == 2 && at::isFloatingType(self.scalar_type()),
              "[optim::newton_schulz] of a matrix in floating point, not of ", self.scalar_type(),
              self.sizes());
  TORCH_CHECK(coefficients.size() == 3, "[optim::newton_schulz] three coefficients, not ",
              coefficients.size());
  TORCH_CHECK(steps >= 0 && steps < 100, "[optim::newton_schulz] from 0 to 99 steps, not ", steps);
  return at::empty(self.sizes(), self.options().dtype(dtype_of(single_precision)));
}

at::Tensor orthogonalized(const at::Tensor& self, at::ArrayRef<double> coefficients, int64_t steps,
                          double eps, bool single_precision) {
  auto like = orthogonal_like(self, coefficients, steps, eps, single_precision);
  if (self.numel() == 0) return like;
  const at::NoGradGuard no_grad;
  return newton_schulz(self, {coefficients[0], coefficients[1], coefficients[2]}, steps, eps,
                       dtype_of(single_precision))
      .contiguous();
}

}  // namespace

void define_operators() {
  static const auto library = [] {
    torch::Library optim(torch::Library::FRAGMENT, "optim", std::nullopt, __FILE__, __LINE__);
    optim.def(
        "quantize_tiles(Tensor self, bool is_signed, int tile_rows, int tile_columns) -> (Tensor, Tensor)");
    optim.def(
        "dequantize_tiles(Tensor codes, Tensor scales, bool is_signed, int tile_rows, int tile_columns) -> "
        "Tensor");
    optim.def("quantize_int8(Tensor self, int tile_rows=128, int tile_columns=128) -> (Tensor, Tensor)");
    optim.def(
        "dequantize_int8(Tensor codes, Tensor scales, int tile_rows=128, int tile_columns=128) -> Tensor");
    optim.def(
        "newton_schulz(Tensor self, float[] coefficients, int steps, float eps, bool single_precision) -> "
        "Tensor");
    const auto impl = [&](const char* name, auto* on_cpu, auto* on_meta) {
      optim.impl(name, c10::DispatchKey::CPU, on_cpu);
      optim.impl(name, c10::DispatchKey::Meta, on_meta);
    };
    impl("quantize_tiles", quantize, codes_like);
    impl("dequantize_tiles", dequantize, values_like);
    impl("quantize_int8", in_int8, int8_like);
    impl("dequantize_int8", of_int8, of_int8_like);
    impl("newton_schulz", orthogonalized, orthogonal_like);
    return optim;
  }();
  define_expert_operators();
}

}  // namespace lockstep
