// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/lockstep_engine.h"

#include "dashboard/store/rows.h"
#include "engine/nn/checkpoint.h"
#include "engine/stream/random_source.h"
#include "engine/tensor/dtensor.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/digest.h"
#include "engine/values/error.h"
#include "engine/world/comm.h"
#include "engine/world/library.h"
#include "oracle/ownership/in_host.h"
#include "oracle/plain/evaluate.h"
#include "oracle/program/options.h"
#include "oracle/program/values.h"
#include "suites/core/by_library.h"
#include "suites/core/suite.h"
#include "suites/engines/by_way.h"

namespace lockstep::suites {
namespace {

// Where the mesh has its tensors, as the engine is given them.
std::vector<oracle::InputTensors> on_device_of(const DeviceMesh& mesh,
                                               std::vector<oracle::InputTensors> inputs) {
  for (auto& [global, locals] : inputs) {
    global = oracle::on_mesh(mesh, global);
    locals = oracle::on_mesh(mesh, locals);
  }
  return inputs;
}

// A whole tensor is cut by the engine; the terms of a Partial are given to it rank by rank.
at::Tensor placed(const MeshInWorld& mesh, const oracle::InputTensors& input, const oracle::Target& target) {
  if (!has_partial(target)) return distribute_tensor(input.global, mesh, target.placements, target.order);
  PerRank<at::Tensor> hosted;
  for (const int64_t p : mesh.comm->positions) hosted.push_back(input.locals[static_cast<size_t>(p)]);
  return from_local(hosted, mesh, target.placements, input.global.sizes().vec(), input.global.strides().vec(),
                    true, target.order);
}

// One that requires a gradient is a parameter; a plain one stays.
at::Tensor input_on(const MeshInWorld& mesh, const oracle::InputTensors& input, const oracle::Target& target,
                    bool requires_grad) {
  if (is_plain(target)) return input.global;
  const auto tensor = placed(mesh, input, target);
  return requires_grad ? parameter(tensor) : tensor;
}

at::Tensor redistributed(const at::Tensor& t, const oracle::Target& target) {
  return redistribute(t, target.placements, target.order);
}

// An argument that is no tensor, as the recording of a plain run has it.
c10::IValue plain_value(const oracle::Arg& arg) {
  if (const auto* integer = std::get_if<int64_t>(&arg)) return *integer;
  if (const auto* number = std::get_if<double>(&arg)) return *number;
  if (const auto* list = std::get_if<std::vector<int64_t>>(&arg)) return *list;
  if (const auto* dtype = std::get_if<c10::ScalarType>(&arg)) return *dtype;
  return {};
}

c10::ScalarType dtype_of(const oracle::Arg& arg) {
  return std::holds_alternative<c10::ScalarType>(arg) ? std::get<c10::ScalarType>(arg)
                                                      : c10::ScalarType::Float;
}

// The public factories, by the ATen overloads that they stand for.
at::Tensor made(const MeshInWorld& mesh, const oracle::Call& call, const Placements& placements) {
  const auto integer = [&](size_t i) { return std::get<int64_t>(call.args[i]); };
  const auto shape = [&](size_t i) { return std::get<std::vector<int64_t>>(call.args[i]); };
  if (call.op == "aten::zeros") return zeros(shape(0), mesh, placements, dtype_of(call.args[1]));
  if (call.op == "aten::ones") return ones(shape(0), mesh, placements, dtype_of(call.args[1]));
  if (call.op == "aten::full")
    return full(shape(0), std::get<double>(call.args[1]), mesh, placements, dtype_of(call.args[2]));
  if (call.op == "aten::empty.memory_format")
    return empty(shape(0), mesh, placements, dtype_of(call.args[1]));
  if (call.op == "aten::rand") return rand(shape(0), mesh, placements, dtype_of(call.args[1]));
  if (call.op == "aten::randn") return randn(shape(0), mesh, placements, dtype_of(call.args[1]));
  if (call.op == "aten::normal.float_float")
    return normal(std::get<double>(call.args[0]), std::get<double>(call.args[1]), shape(2), mesh, placements,
                  dtype_of(call.args[4]));
  if (call.op == "aten::randint")
    return randint(0, integer(0), shape(1), mesh, placements, dtype_of(call.args[2]));
  if (call.op == "aten::randint.low")
    return randint(integer(0), integer(1), shape(2), mesh, placements, dtype_of(call.args[3]));
  if (call.op == "aten::randperm") return randperm(integer(0), mesh, placements, dtype_of(call.args[1]));
  throw Error(concat("[", call.op, "] is no factory of DTensors"));
}

// Units by coordinate, which may fit the rows in the order of their placements alone.
bool needs_order(const Placement& p) {
  const auto* ragged = std::get_if<RaggedShard>(&p);
  return ragged != nullptr && ragged->lists > 1;
}

// In the timeline as the op that it stands for. A Partial is drawn as Replicate, and then moved;
// so are units by coordinate beside an order.
at::Tensor logged(const MeshInWorld& mesh, const oracle::Call& call, const oracle::Target& target) {
  auto placements = target.placements;
  for (auto& p : placements)
    if (is_partial(p) || (!target.order.empty() && needs_order(p))) p = Replicate{};
  TimelineEntry entry;
  entry.op = call.op;
  entry.tensors_per_arg.assign(call.args.size(), -1);
  for (const auto& arg : call.args) entry.args.push_back(plain_value(arg));
  entry.random_offset = generator().state.offset;
  auto tensor = made(mesh, call, placements);
  if (current_timeline() != nullptr) {
    entry.outputs.push_back(record(tensor));
    entry.aliases = {-1};
    current_timeline()->push_back(std::move(entry));
  }
  return placements == target.placements && target.order.empty() ? tensor : redistributed(tensor, target);
}

// What ran on meshes that a mesh_map made is between it and them.
void strike_other_meshes(Timeline& timeline, const DeviceMesh& mesh) {
  const auto elsewhere = [&](const std::vector<TensorRecord>& records) {
    return std::any_of(records.begin(), records.end(),
                       [&](const TensorRecord& r) { return r.spec != nullptr && r.spec->mesh() != mesh; });
  };
  std::erase_if(timeline,
                [&](const TimelineEntry& e) { return elsewhere(e.inputs) || elsewhere(e.outputs); });
}

// A plain tensor is what every rank holds.
EngineValue value_of(const at::Tensor& tensor, const MeshInWorld& mesh) {
  if (!tensor.defined() || is_dtensor(tensor)) return suites::value_of(tensor);
  EngineValue value;
  const Placements everywhere(static_cast<size_t>(mesh.mesh.ndim()), Replicate{});
  value.spec = std::make_shared<const Spec>(mesh.mesh, everywhere, tensor.sizes().vec(),
                                            tensor.strides().vec(), tensor.scalar_type());
  value.locals.assign(mesh.comm->positions.size(), tensor.detach());
  return value;
}

bool is_copied(const oracle::Target& target) {
  return !is_plain(target) && !has_partial(target);
}

// Of what distribute_tensor is given, which the DTensor made of it shares no memory with.
std::vector<Digest> digests_of_given(const oracle::Case& c, const std::vector<oracle::InputTensors>& given) {
  std::vector<Digest> digests;
  for (size_t i = 0; i < c.program.inputs.size(); ++i)
    digests.push_back(is_copied(c.placements[i]) ? digest(given[i].global) : Digest{});
  return digests;
}

// Throws where the engine has written to what it was given.
void check_given(const std::vector<Digest>& before, const std::vector<Digest>& after) {
  for (size_t i = 0; i < before.size(); ++i)
    if (before[i] != after[i])
      throw std::logic_error(concat("what was written to x", i, " shows in the tensor that it was made of"));
}

// What a Case may say of how the engine treats its ops; afterwards all is as it was before.
class Modes {
 public:
  Modes(const oracle::Case& c, const Timeline& timeline) : timeline_(timeline) {
    if (oracle::allows_fallback(c)) whole_.emplace();
  }
  // Throws where something moved by itself while that was forbidden.
  void set_explicit(bool flag) {
    if (moves_) check_moves();
    moves_.reset();
    from_ = timeline_.size();
    if (flag) moves_.emplace();
  }
  // Ops that ran whole since it began.
  int64_t fallbacks() const { return current_context()->counters.fallbacks - before_; }

 private:
  void check_moves() const {
    const auto begin = timeline_.begin() + static_cast<ptrdiff_t>(from_);
    const auto moved = std::find_if(begin, timeline_.end(), [](auto& entry) { return entry.implicit; });
    if (moved != timeline_.end())
      throw std::logic_error(concat(*moved->inputs.at(0).spec, " moved by itself to ",
                                    *moved->outputs.at(0).spec, ", which ExplicitRedistribution forbids"));
  }

  const Timeline& timeline_;
  size_t from_ = 0;  // where the timeline was when it was last said what is forbidden
  const int64_t before_ = current_context()->counters.fallbacks;
  std::optional<FallbackReplicate> whole_;
  std::optional<ExplicitRedistribution> moves_;
};

// Throws where a value came out on the other side.
void check_sides(const oracle::Case& c, const std::vector<at::Tensor>& values) {
  const auto plain = oracle::plain_values(c);
  for (size_t v = 0; v < values.size(); ++v)
    if (plain[v] && values[v].defined() && is_dtensor(values[v]))
      throw std::logic_error(concat("the plain value ", value_name(c.program, static_cast<int64_t>(v)),
                                    " came out as a DTensor"));
}

}  // namespace

EngineValue value_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  EngineValue value{std::make_shared<const Spec>(spec(tensor)), {}};
  for (const auto& local : local_tensors(tensor)) value.locals.push_back(local.detach());
  return value;
}

const EngineProfile& own_profile() {
  static const EngineProfile profile = {
      .name = dashboard::kOwnEngine,
      .version = LOCKSTEP_VERSION,
      .flags = Flag::kTimeline | Flag::kRules | Flag::kClosedForm | Flag::kTraining | Flag::kFaults |
               Flag::kOverlap | Flag::kSomeRanks | Flag::kMemory | Flag::kGradients | Flag::kAcross,
      .random_policies = {"forged-words", "single-device"},
      .program = 2,
  };
  return profile;
}

const EngineProfile& device_profile() {
  static const EngineProfile profile = [] {
    auto there = own_profile();
    there.flags &= ~static_cast<unsigned>(Flag::kFaults);
    return there;
  }();
  return profile;
}

const EngineProfile& world_profile() {
  static const EngineProfile profile = [] {
    auto there = own_profile();
    there.flags &= ~(Flag::kFaults | Flag::kMemory);
    return there;
  }();
  return profile;
}

EngineResult LockstepEngine::run(const oracle::Case& c, bool want_timeline) {
  if (run_in_world(c) == nullptr) return run_on(c, oracle::make_inputs(c), want_timeline);
  Traffic traffic;
  auto world = local_world(c.mesh.size(), c.mesh.device_type());
  return run_hosted(decorate_ ? decorate_(std::move(world)) : std::move(world), c, want_timeline, traffic);
}

EngineResult LockstepEngine::run_on(const oracle::Case& c, const std::vector<oracle::InputTensors>& inputs,
                                    bool want_timeline) {
  auto world = local_world(least_world(c.mesh), c.mesh.device_type());
  if (is_by_library(c)) world = reducing_by_gloo(std::move(world));
  Traffic traffic;
  return run_in(decorate_ ? decorate_(std::move(world)) : std::move(world), c, inputs, want_timeline, traffic,
                spoil_, remade_, forms_);
}

EngineResult run_in(const WorldPtr& world, const oracle::Case& c,
                    const std::vector<oracle::InputTensors>& made, bool want_timeline, Traffic& traffic,
                    const LockstepEngine::Spoil& spoil, const Remade& remade, const SpoilForms& forms) {
  const auto given = on_device_of(c.mesh, made);
  const auto counted = counting(world, traffic);
  const MeshInWorld mesh{c.mesh, counted, std::make_shared<const Comm>(c.mesh, counted)};
  generator() = {{c.program.seed, 0, c.words}, c.device};
  const auto before = digests_of_given(c, given);
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < c.program.inputs.size(); ++i)
    inputs.push_back(input_on(mesh, given[i], c.placements[i], c.program.inputs[i].requires_grad));

  EngineResult result;
  traffic = {};
  take_never_waited();
  Overlapped moves(c, spoil);
  std::optional<ByWay> ways;
  if (const auto seed = across_of(c)) ways.emplace(mesh, *seed, result.timeline, remade, forms);
  Modes modes(c, result.timeline);
  std::optional<TimelineScope> scope;
  if (want_timeline) scope.emplace(result.timeline);
  const auto values = oracle::run(
      c.program, std::move(inputs),
      {[&](const at::Tensor& t, const oracle::Target& target) {
         return ways ? ways->move(t, target) : moves.move(t, target);
       },
       full_tensor, oracle::read_number,
       [&](const oracle::LocalMap& map, const std::vector<at::Tensor>& of) {
         return mapped(mesh, map, of, remade);
       },
       [&](const oracle::Call& call, const oracle::Target& target) { return logged(mesh, call, target); },
       [](const oracle::RunBlock& block, const std::vector<at::Tensor>& operands, bool preserves_rng_state) {
         return checkpoint(block, operands, {preserves_rng_state});
       },
       [&](bool flag) { modes.set_explicit(flag); }});
  moves.finish();
  modes.set_explicit(false);
  scope.reset();
  if (ways) {
    ways->tidy();
    join_gradients(result.timeline, c.mesh);
  }
  strike_other_meshes(result.timeline, c.mesh);
  result.never_waited = take_never_waited();
  result.has_timeline = want_timeline;
  check_sides(c, values);
  check_given(before, digests_of_given(c, given));
  for (const auto& v : values) result.values.push_back(value_of(v, mesh));
  result.random_after = generator().state;
  result.bytes_moved = traffic.bytes;
  result.fallbacks = modes.fallbacks();
  return result;
}

EngineResult run_hosted(const WorldPtr& world, const oracle::Case& c, bool want_timeline, Traffic& traffic) {
  const auto run = run_in_world(c);
  if (run == nullptr) return run_in(world, c, oracle::make_inputs(c), want_timeline, traffic);
  traffic = {};
  generator() = {{c.program.seed, 0, c.words}, c.device};
  auto result = run(counting(world, traffic), c);
  result.random_after = generator().state;
  result.bytes_moved = traffic.bytes;
  return result;
}

}  // namespace lockstep::suites
