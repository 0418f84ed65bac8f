// SPDX-License-Identifier: Apache-2.0
// Where the parameters and buffers of a module go, by path. torch: distribute_module. What moves its inputs
// and outputs, too, is a plan (engine/plan).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/nn/module.h"
#include "engine/tensor/dtensor.h"

namespace lockstep::nn {

// `*` stands for any run of characters, dots included; the whole path must match.
bool matches(std::string_view pattern, std::string_view path);

struct ParameterPlacement {
  std::string pattern;  // of the path of a parameter or buffer
  Placements placements;
};

// Makes every parameter and buffer a DTensor: placed by the first pattern that matches its path, else
// replicated; what layers share, by the first that matches any of its paths, and two that differ are an
// Error. A parameter without values yet (on the meta device) becomes shards without values: see
// reset_parameters. A pattern that matches nothing is an Error that names it.
void distribute_module(Module& module, const MeshInWorld& mesh, const std::vector<ParameterPlacement>& table);

// torch's input_fn and output_fn, of each call of the module: may replace its inputs before it, its output
// afterwards; as with plain inputs that become DTensors, and an output that becomes plain.
struct ModuleEnds {
  std::function<void(Module& module, Tensors& inputs, const MeshInWorld& mesh)> input_fn = nullptr;
  std::function<at::Tensor(Module& module, at::Tensor output, const MeshInWorld& mesh)> output_fn = nullptr;
};
void distribute_module(Module& module, const MeshInWorld& mesh, const std::vector<ParameterPlacement>& table,
                       const ModuleEnds& ends);

// The same by a function: where each parameter and buffer goes, asked in the order of parameters_with_paths
// and then of buffers_with_paths; none: it stays as it is.
using PlacementsOf =
    std::function<std::optional<Placements>(const std::vector<std::string>& paths, bool is_parameter)>;
void distribute_each(Module& module, const MeshInWorld& mesh, const PlacementsOf& placements_of);

// What distribute_module makes of one plain buffer. One without values gets its first ones.
at::Tensor distributed_buffer(Module& module, std::string_view path, const MeshInWorld& mesh,
                              const Placements& placements);

}  // namespace lockstep::nn
