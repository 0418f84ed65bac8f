// SPDX-License-Identifier: Apache-2.0
#include "generators/program/vary.h"

#include <algorithm>
#include <array>

#include "oracle/program/schema.h"

namespace lockstep::generators {
namespace {

using oracle::Arg;
using oracle::ArgInfo;
using oracle::ArgKind;
using oracle::Call;
using oracle::None;
using oracle::Ref;

// Of these one value alone is of use on a CPU, or to dense tensors, or the value is the harness's.
constexpr std::array kFixed = {"layout",    "device",   "pin_memory", "non_blocking",
                               "generator", "implicit", "sparse"};
constexpr std::array kDims = {"dim", "dims", "dim0", "dim1", "dim2", "start_dim", "end_dim"};

// Strings are chosen from what the schema of libtorch does not say.
struct Words {
  std::string_view arg;
  std::vector<Arg> words;
};
const std::vector<Words>& words() {
  static const std::vector<Words> all = {
      {"rounding_mode", {None{}, std::string("floor"), std::string("trunc")}},
      {"approximate", {std::string("none"), std::string("tanh")}},
  };
  return all;
}

bool is_fixed(const ArgInfo& info) {
  return std::find(kFixed.begin(), kFixed.end(), info.name) != kFixed.end() || info.kind == ArgKind::kOther ||
         info.kind == ArgKind::kTensorList || info.written;
}

bool is_dim(const ArgInfo& info) {
  return std::find(kDims.begin(), kDims.end(), info.name) != kDims.end();
}

// The first tensor of the call; null if it has none.
const at::Tensor* first_tensor(const Call& call, const Lookup& lookup) {
  for (const auto ref : references(call))
    if (lookup(ref).defined()) return &lookup(ref);
  return nullptr;
}

// Asks for a sparse gradient, which no DTensor has; where none is taken any value is of use.
bool is_sparse_gradient(const ArgInfo& info, const Call& call, const Lookup& lookup) {
  const auto* tensor = first_tensor(call, lookup);
  return info.name == "sparse_grad" && tensor != nullptr && tensor->requires_grad();
}

// A dimension, counted from the other end.
std::optional<Arg> other_end(const Arg& arg, int64_t ndim) {
  const auto turned = [&](int64_t d) { return d < 0 ? d + ndim : d - ndim; };
  if (const auto* dim = std::get_if<int64_t>(&arg)) return turned(*dim);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&arg); list != nullptr && !list->empty()) {
    auto dims = *list;
    for (auto& d : dims) d = turned(d);
    return dims;
  }
  return std::nullopt;
}

// What an operand that may be left out could be: as large as another, as one dimension of it, or one number.
std::optional<Variation::Given> given_tensor(Random& random, const Call& call, size_t i,
                                             const Lookup& lookup) {
  const auto refs = references(call);
  if (refs.empty()) return std::nullopt;
  const auto& like = lookup(random.pick(refs));
  if (!like.defined()) return std::nullopt;
  Shape shape = like.sizes().vec();
  if (!shape.empty() && random.chance(75)) shape = {random.pick(shape)};
  if (random.chance(10)) shape.clear();
  const bool mask = oracle::find_operator(call.op).args[i].name.find("mask") != std::string::npos;
  return Variation::Given{
      i, mask && random.chance(50) ? c10::ScalarType::Bool : lookup(refs[0]).scalar_type(), shape};
}

int64_t other_format(Random& random, const at::Tensor* of) {
  using enum c10::MemoryFormat;
  const bool of_images = of != nullptr && of->dim() == 4;
  return static_cast<int64_t>(of_images && random.chance(50) ? ChannelsLast
                                                             : random.pick({Contiguous, Preserve}));
}

// Not from what may be NaN to an integer, which no kernel promises anything of. Ops in place take their
// own.
std::optional<Arg> other_dtype(Random& random, const at::Tensor* of) {
  if (of != nullptr && random.chance(15)) return of->scalar_type();
  if (of != nullptr && !c10::isFloatingType(of->scalar_type()) && random.chance(30))
    return c10::ScalarType::Long;
  return random.pick(
      {c10::ScalarType::Double, c10::ScalarType::Float, c10::ScalarType::BFloat16, c10::ScalarType::Half});
}

// An integer at an edge, or next to the one that stands there.
int64_t other_integer(Random& random, const Arg& arg) {
  const auto* now = std::get_if<int64_t>(&arg);
  if (now != nullptr && random.chance(50)) return *now + random.pick<int64_t>({-1, 1});
  return random.pick<int64_t>({-2, -1, 0, 1, 2, 3});
}

double other_real(Random& random, const Arg& arg) {
  const auto* now = std::get_if<double>(&arg);
  if (now != nullptr && random.chance(30)) return -*now;
  return random.pick({0.0, 0.5, 1.0, -1.0, 2.0, 1e-3, -0.5});
}

std::vector<int64_t> other_integers(Random& random, std::vector<int64_t> list) {
  if (!list.empty()) {
    auto& one = list[static_cast<size_t>(random.below(std::ssize(list)))];
    one += random.pick<int64_t>({-1, 1});
  }
  return list;
}

// Numbers of an op on integers are integers.
Arg other_scalar(Random& random, const Call& call, const Lookup& lookup, const Arg& arg) {
  const auto* tensor = first_tensor(call, lookup);
  const bool floating = tensor == nullptr || c10::isFloatingType(tensor->scalar_type());
  return floating ? Arg(other_real(random, arg)) : Arg(other_integer(random, arg));
}

const c10::Argument& schema_of(const std::string& op, size_t i) {
  return oracle::find_operator(op).handle.schema().arguments()[i];
}

}  // namespace

bool is_value(const std::string& op, size_t i) {
  const auto& info = oracle::find_operator(op).args[i];
  return !is_fixed(info) && info.kind != ArgKind::kTensor;
}

std::optional<Arg> other_value(Random& random, const Call& call, size_t i, const Lookup& lookup) {
  const auto& info = oracle::find_operator(call.op).args[i];
  const auto& arg = call.args[i];
  if (info.optional && !std::holds_alternative<None>(arg) && random.chance(30)) return None{};
  switch (info.kind) {
    case ArgKind::kBool:
      return std::holds_alternative<bool>(arg) ? !std::get<bool>(arg) : random.chance(50);
    case ArgKind::kInt:
      if (info.name == "memory_format") return other_format(random, first_tensor(call, lookup));
      return other_integer(random, arg);
    case ArgKind::kIntList:
      if (const auto* list = std::get_if<std::vector<int64_t>>(&arg)) return other_integers(random, *list);
      return std::vector<int64_t>{random.between(0, 1)};
    case ArgKind::kFloat:
      return other_real(random, arg);
    case ArgKind::kScalar:
      return other_scalar(random, call, lookup, arg);
    case ArgKind::kDtype:
      return other_dtype(random, first_tensor(call, lookup));
    case ArgKind::kString:
      for (const auto& [name, choices] : words())
        if (name == info.name) return random.pick(choices);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::vector<size_t> variable_arguments(const std::string& op) {
  const auto& known = oracle::find_operator(op);
  std::vector<size_t> places;
  for (size_t i = 0; i < known.args.size(); ++i) {
    const auto& info = known.args[i];
    if (!is_fixed(info) && (may_stay_default(op, i) || is_dim(info))) places.push_back(i);
  }
  return places;
}

bool may_stay_default(const std::string& op, size_t i) {
  return schema_of(op, i).default_value().has_value() || oracle::find_operator(op).args[i].optional;
}

bool is_dimension(const std::string& op, size_t i) {
  return is_dim(oracle::find_operator(op).args[i]);
}

bool differs_from_default(const Call& call, size_t i) {
  if (!schema_of(call.op, i).default_value()) return !std::holds_alternative<None>(call.args[i]);
  const auto until = call.args.begin() + static_cast<int64_t>(i);
  return with_defaults(call.op, {call.args.begin(), until})[i] != call.args[i];
}

std::optional<Variation> vary(Random& random, const Call& call, const Lookup& lookup, bool exact) {
  const auto& known = oracle::find_operator(call.op);
  auto places = variable_arguments(call.op);
  if (exact) std::erase_if(places, [&](size_t i) { return !is_dim(known.args[i]); });
  if (places.empty()) return std::nullopt;
  const auto i = random.pick(places);
  if (is_sparse_gradient(known.args[i], call, lookup)) return std::nullopt;
  Variation varied{call};
  std::optional<Arg> other;
  if (is_dim(known.args[i])) {
    const auto* tensor = first_tensor(call, lookup);
    if (tensor != nullptr) other = other_end(call.args[i], tensor->dim());
  } else if (known.args[i].kind == ArgKind::kTensor) {
    if (std::holds_alternative<None>(call.args[i])) {
      varied.given = given_tensor(random, call, i, lookup);
      return varied.given ? std::optional(std::move(varied)) : std::nullopt;
    }
    other = None{};
  } else {
    other = other_value(random, call, i, lookup);
  }
  if (!other || *other == call.args[i]) return std::nullopt;
  varied.call.args[i] = *other;
  return varied;
}

}  // namespace lockstep::generators
