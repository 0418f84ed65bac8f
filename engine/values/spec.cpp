// SPDX-License-Identifier: Apache-2.0
#include "engine/values/spec.h"

#include <c10/util/hash.h>

#include <algorithm>
#include <numeric>
#include <ostream>
#include <span>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/ragged.h"
#include "engine/values/refused.h"
#include "engine/values/text.h"

namespace lockstep {
namespace {

struct DtypeName {
  c10::ScalarType dtype;
  const char* name;
};
constexpr DtypeName kDtypes[] = {{c10::ScalarType::Double, "f64"},    {c10::ScalarType::Float, "f32"},
                                 {c10::ScalarType::BFloat16, "bf16"}, {c10::ScalarType::Half, "f16"},
                                 {c10::ScalarType::Long, "i64"},      {c10::ScalarType::Int, "i32"},
                                 {c10::ScalarType::Short, "i16"},     {c10::ScalarType::Char, "i8"},
                                 {c10::ScalarType::Byte, "u8"},       {c10::ScalarType::Bool, "bool"}};

// @post the bytes of a tensor of this shape can be counted.
void check_sizes(const std::vector<int64_t>& shape) {
  int64_t bytes = 16;
  for (const auto n : shape) {
    LOCKSTEP_CHECK(n >= 0, "[spec] negative size ", n, " in a shape");
    LOCKSTEP_CHECK(!__builtin_mul_overflow(bytes, std::max<int64_t>(n, 1), &bytes), "[spec] ",
                   shape_text(shape), " has more elements than memory has addresses; use smaller sizes");
  }
}

int64_t normalised_dim(int64_t dim, int64_t ndim, const Placement& p) {
  LOCKSTEP_CHECK(dim >= -ndim && dim < ndim, "[spec] ", p, " names dimension ", dim, " of a tensor with ",
                 ndim, " dimensions; use 0 to ", ndim - 1);
  return dim < 0 ? dim + ndim : dim;
}

// Divides the units of a list by their greatest common divisor.
void normalise_list(std::span<int64_t> units, const Placement& shown) {
  int64_t divisor = 0, sum = 0;
  for (const auto unit : units) {
    LOCKSTEP_CHECK(unit >= 0, "[spec] ", shown, " has a negative unit");
    LOCKSTEP_CHECK(!__builtin_add_overflow(sum, unit, &sum), "[spec] ", shown, " has too many units");
    divisor = std::gcd(divisor, unit);
  }
  LOCKSTEP_CHECK(divisor > 0, "[spec] ", shown, " has no units; at least one rank must hold a block");
  for (auto& unit : units) unit /= divisor;
}

// Lists that are alike are one.
void normalise_ragged(RaggedShard& ragged, const std::vector<int64_t>& shape, const DeviceMesh& mesh,
                      int64_t mesh_dim) {
  const Placement shown = ragged;
  const auto ranks = mesh.size(mesh_dim), others = mesh.size() / ranks;
  for (size_t i = 0; i < ragged.dims.size(); ++i) {
    ragged.dims[i] = normalised_dim(ragged.dims[i], static_cast<int64_t>(shape.size()), shown);
    LOCKSTEP_CHECK(ragged.dims[i] == static_cast<int64_t>(i), "[spec] ", shown,
                   " must name the leading dimensions 0, 1, … in order");
  }
  LOCKSTEP_CHECK(ragged.lists == 1 || ragged.lists == others, "[spec] ", shown, " has ", ragged.lists,
                 " lists of units; give one, or one for each of the ", others,
                 " coordinates of the other mesh dimensions");
  LOCKSTEP_CHECK(std::ssize(ragged.units) == ranks * ragged.lists, "[spec] ", shown, " has ",
                 std::ssize(ragged.units) / ragged.lists, " units; its mesh dimension has ", ranks, " ranks");
  const auto list = [&](int64_t k) {
    return std::span(ragged.units).subspan(static_cast<size_t>(k * ranks), static_cast<size_t>(ranks));
  };
  bool alike = true;
  for (int64_t k = 0; k < ragged.lists; ++k) {
    normalise_list(list(k), shown);
    alike = alike && std::equal(list(0).begin(), list(0).end(), list(k).begin());
  }
  if (alike) {
    ragged.lists = 1;
    ragged.units.resize(static_cast<size_t>(ranks));
  }
}

// Every rank's rows are a whole number of blocks.
void check_blocks(const Placements& placements, const std::vector<int64_t>& order, const DeviceMesh& mesh,
                  const std::vector<int64_t>& shape) {
  const int64_t dim = ragged_dim(placements);
  if (dim < 0) return;
  const auto& ragged = std::get<RaggedShard>(placements[static_cast<size_t>(dim)]);
  if (blocks_fit(placements, order, mesh, shape)) return;
  LOCKSTEP_CHECK(
      ragged.lists == 1, "[spec] ", placements, " cuts the rows of ", shape_text(shape),
      " into blocks that are not equal, or ranks with the same rows by different units; the sum of ",
      "each list of units must divide the rows that the other placements leave at its coordinate, and "
      "lists differ only along mesh dimensions that shard");
  throw Error(concat("[spec] ", placements, " cuts the rows of ", shape_text(shape), " into ",
                     block_count(ragged), " blocks that are not equal; the sum of the units must divide ",
                     common_rows(placements, order, mesh, shape, ragged.dims.size()),
                     ", the greatest number that divides the rows of every rank; where these differ, give a "
                     "list of units for each coordinate of the other mesh dimensions, as in G0:2/1|1/1"));
}

void normalise(Placements& placements, const DeviceMesh& mesh, const std::vector<int64_t>& shape) {
  LOCKSTEP_CHECK(static_cast<int64_t>(placements.size()) == mesh.ndim(), "[spec] ", placements.size(),
                 " placements ", placements, " on mesh ", mesh, "; give one for each of its ", mesh.ndim(),
                 " dimensions");
  const auto ndim = static_cast<int64_t>(shape.size());
  for (size_t d = 0; d < placements.size(); ++d) {
    auto& p = placements[d];
    LOCKSTEP_CHECK(parts(p) >= 1, "[spec] ", p, " has ", parts(p), " parts; at least 1");
    if (is_shard(p)) p = with_dim(p, normalised_dim(shard_dim(p), ndim, p));
    if (auto* s = std::get_if<RaggedShard>(&p)) normalise_ragged(*s, shape, mesh, static_cast<int64_t>(d));
  }
}

void check_partials(const Placements& placements, c10::ScalarType dtype) {
  const Partial* first = nullptr;
  for (const auto& p : placements)
    if (const auto* partial = std::get_if<Partial>(&p)) {
      if (!has_reduction(partial->op, dtype))
        throw Refused(
            Refusal::kNoReduction, "spec", to_string(placements),
            concat(p, " of ", dtype_name(dtype), " in ", placements, ": an average needs a floating dtype; "),
            "use P (sum), or convert the tensor first");
      if (first == nullptr) first = partial;
      if (!commute(partial->op, first->op))
        throw Refused(Refusal::kMixedPartial, "spec", to_string(placements),
                      concat(placements, " reduces by both ", name(first->op), " and ", name(partial->op),
                             ", whose result depends on which comes first; "),
                      "redistribute one of them");
    }
}

void check_permutation(const std::vector<int64_t>& order, size_t ndim) {
  auto sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool held = sorted.size() == ndim;
  for (size_t i = 0; held && i < ndim; ++i) held = sorted[i] == static_cast<int64_t>(i);
  LOCKSTEP_CHECK(held, "[spec] order ", join(order, '.'), " is not a permutation of the ", ndim,
                 " mesh dimensions");
}

// Mesh dimensions that shard one tensor dimension keep their relative order, in the places they have left to
// right; every other mesh dimension stands in its own place.
std::vector<int64_t> normalised_order(const std::vector<int64_t>& order, const Placements& placements) {
  auto result = up_to(static_cast<int64_t>(placements.size()));
  if (order.empty()) return result;
  check_permutation(order, placements.size());
  for (size_t place = 0; place < placements.size(); ++place) {
    const auto dim = shard_dim(placements[place]);
    if (dim < 0) continue;
    const auto shares = [&](int64_t m) { return shard_dim(placements[static_cast<size_t>(m)]) == dim; };
    const auto nth = std::count_if(placements.begin(), placements.begin() + static_cast<ptrdiff_t>(place),
                                   [&](const Placement& p) { return shard_dim(p) == dim; });
    auto found = std::find_if(order.begin(), order.end(), shares);
    for (ptrdiff_t i = 0; i < nth; ++i) found = std::find_if(found + 1, order.end(), shares);
    result[place] = *found;
  }
  return result;
}

size_t hash_of(const Placement& p) {
  const auto with_fields = [&p](const auto&... field) { return c10::get_hash(p.index(), field...); };
  return std::visit([&](const auto& kind) { return std::apply(with_fields, kind.fields()); }, p);
}

}  // namespace

Spec::Spec(DeviceMesh mesh, Placements placements, std::vector<int64_t> shape, std::vector<int64_t> stride,
           c10::ScalarType dtype, std::vector<int64_t> order)
    : mesh_(std::make_shared<const DeviceMesh>(std::move(mesh))),
      placements_(std::move(placements)),
      shape_(std::move(shape)),
      stride_(std::move(stride)),
      dtype_(dtype),
      order_(std::move(order)) {
  finish();
}

Spec::Spec(DeviceMesh mesh, Placements placements, std::vector<int64_t> shape, c10::ScalarType dtype)
    : Spec(std::move(mesh), std::move(placements), shape, contiguous_strides(shape), dtype) {}

void Spec::finish() {
  LOCKSTEP_CHECK(mesh_->size() > 0,
                 "[spec] the mesh has no ranks; make it with init_device_mesh or parse_mesh");
  LOCKSTEP_CHECK(stride_.size() == shape_.size(), "[spec] ", stride_.size(), " strides for shape ",
                 shape_text(shape_));
  check_sizes(shape_);
  normalise(placements_, *mesh_, shape_);
  check_partials(placements_, dtype_);
  LOCKSTEP_CHECK(std::count_if(placements_.begin(), placements_.end(), is_ragged) <= 1, "[spec] ",
                 placements_, " has two RaggedShards; each would have to be applied last");
  order_ = normalised_order(order_, placements_);
  check_blocks(placements_, order_, *mesh_, shape_);

  hash_ =
      c10::get_hash(mesh_->shape(), mesh_->ranks(), mesh_->device_type(), shape_, stride_, order_, dtype_);
  for (const auto& p : placements_) hash_ = c10::hash_combine(hash_, hash_of(p));
}

bool has_reduction(ReduceOp op, c10::ScalarType dtype) {
  return op != ReduceOp::kAvg || c10::isFloatingType(dtype);
}

bool commute(ReduceOp a, ReduceOp b) {
  const auto linear = [](ReduceOp op) { return op == ReduceOp::kSum || op == ReduceOp::kAvg; };
  return a == b || (linear(a) && linear(b));
}

bool Spec::default_order() const {
  return std::is_sorted(order_.begin(), order_.end());
}

int64_t Spec::numel() const {
  return std::accumulate(shape_.begin(), shape_.end(), int64_t{1}, std::multiplies<>());
}

bool Spec::has_partial() const {
  return std::any_of(placements_.begin(), placements_.end(),
                     [](const Placement& p) { return is_partial(p); });
}

bool Spec::all_replicate() const {
  return std::all_of(placements_.begin(), placements_.end(), is_replicate);
}

Spec Spec::with_placements(Placements placements, std::vector<int64_t> order) const {
  return with(std::move(placements), std::move(order), shape_, stride_, dtype_);
}

Spec Spec::with(Placements placements, std::vector<int64_t> order, std::vector<int64_t> shape,
                std::vector<int64_t> stride, c10::ScalarType dtype) const {
  Spec result = *this;
  result.placements_ = std::move(placements);
  result.order_ = std::move(order);
  result.shape_ = std::move(shape);
  result.stride_ = std::move(stride);
  result.dtype_ = dtype;
  result.finish();
  return result;
}

Spec Spec::with_tensor(std::vector<int64_t> shape, std::vector<int64_t> stride, c10::ScalarType dtype) const {
  return with(placements_, order_, std::move(shape), std::move(stride), dtype);
}

SpecPtr in_dtype(const SpecPtr& spec, c10::ScalarType dtype) {
  if (spec->dtype() == dtype) return spec;
  return std::make_shared<const Spec>(spec->with_tensor(spec->shape(), spec->stride(), dtype));
}

c10::TensorOptions local_options(const Spec& spec) {
  return c10::TensorOptions().dtype(spec.dtype()).device(spec.mesh().device_type());
}

bool Spec::operator==(const Spec& other) const {
  return this == &other ||
         (hash_ == other.hash_ && dtype_ == other.dtype_ && placements_ == other.placements_ &&
          shape_ == other.shape_ && stride_ == other.stride_ && order_ == other.order_ &&
          (mesh_ == other.mesh_ || *mesh_ == *other.mesh_));
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> stride(shape.size());
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    stride[d] = step;
    LOCKSTEP_CHECK(!__builtin_mul_overflow(step, std::max<int64_t>(shape[d], 1), &step), "[spec] shape ",
                   shape_text(shape), " has more elements than memory has addresses; use smaller sizes");
  }
  return stride;
}

std::string to_string(const Spec& spec) {
  return concat(dtype_name(spec.dtype()), "[", shape_text(spec.shape()), "]@", spec.placements(),
                spec.default_order() ? "" : "@" + join(spec.order(), '.'));
}

std::ostream& operator<<(std::ostream& out, const Spec& spec) {
  return out << to_string(spec);
}

std::string dtype_name(c10::ScalarType dtype) {
  for (const auto& known : kDtypes)
    if (known.dtype == dtype) return known.name;
  return c10::toString(dtype);
}

c10::ScalarType parse_dtype(std::string_view text) {
  for (const auto& known : kDtypes)
    if (text == known.name) return known.dtype;
  throw Error(concat("[dtype] '", text, "' is not one of f64 f32 bf16 f16 i64 i32 i16 i8 u8 bool"));
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return shape.empty() ? "-" : join(shape, 'x');
}

std::vector<int64_t> parse_shape(std::string_view text) {
  if (text == "-") return {};
  auto shape = parse_integers(text, 'x');
  const bool good = shape && std::all_of(shape->begin(), shape->end(), [](int64_t n) { return n >= 0; });
  LOCKSTEP_CHECK(good, "[shape] '", text, "' is not a shape; write sizes, 7x13, or - for no dimensions");
  return *shape;
}

std::pair<Placements, std::vector<int64_t>> parse_placements_and_order(std::string_view text) {
  const auto at = text.find('@');
  if (at == std::string_view::npos) return {parse_placements(text), {}};
  auto order = parse_integers(text.substr(at + 1), '.');
  LOCKSTEP_CHECK(order, "[placement] '", text,
                 "': after @ comes the order of mesh dimensions, joined by dots: @1.0");
  auto placements = parse_placements(text.substr(0, at));
  check_permutation(*order, placements.size());
  return {std::move(placements), std::move(*order)};
}

}  // namespace lockstep
