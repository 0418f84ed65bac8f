// SPDX-License-Identifier: Apache-2.0
// StockOp: the random operators of libtorch by name, with arguments as text, run on whatever tensors a Maker
// makes: of a GPU, where they are stock; of the CPU within a RandomScope; of a mesh.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tensor/dtensor.h"

namespace lockstep::suites {

struct TensorForm {
  std::vector<int64_t> shape, stride;
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool operator==(const TensorForm&) const = default;
};

// Where operators run. Each function gives what lives there.
struct Maker {
  std::function<at::Tensor(const at::Tensor& plain)> place;  // the same values and strides
  std::function<at::Tensor(int64_t n, c10::ScalarType dtype)> randperm;
};

// Of plain CPU tensors: for use within a RandomScope.
Maker plain_maker();
// Of DTensors. What is cut is dense; a global tensor that is not, such as a view by steps, says so in its
// strides.
Maker mesh_maker(const MeshInWorld& mesh, const Placements& placements,
                 const std::vector<int64_t>& order = {});

// Arguments by PyTorch's names: {"p", "0.1"}.
using Arguments = std::map<std::string, std::string>;

struct StockOp {
  struct Argument {
    std::string_view name;   // "": none
    std::string_view value;  // by default; "": it is left out
  };
  const char* name;
  const char* dtype;  // the one that PyTorch takes by default
  std::array<Argument, 4> arguments;
  // Stock computes it with approximate functions of the GPU: kernels/README.md says how close ours are.
  bool approximate;
  // @pre `given` holds every argument.
  at::Tensor (*run)(const Maker& maker, const TensorForm& form, const Arguments& given);
};

std::span<const StockOp> stock_ops();
// Throws Error that lists the names.
const StockOp& find_stock_op(std::string_view name);

// What the operator makes of a tensor of this form: the tensor it fills; for native_dropout the mask. Inputs,
// where it has any: ones for dropout, -1 for rrelu, p everywhere for bernoulli, 1 to n along each row for
// multinomial. Throws Error for an argument that the operator does not have or that is not a number.
at::Tensor run_stock(const StockOp& op, const Maker& maker, const TensorForm& form, const Arguments& given);

// 64-bit FNV-1a over the little-endian bytes of the elements in logical order.
uint64_t fnv1a64(const at::Tensor& plain);
// The element's bits, as hex digits of its width: "0x3ecc4feb".
std::string element_bits(const at::Tensor& flat, int64_t i);

}  // namespace lockstep::suites
