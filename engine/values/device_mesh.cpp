// SPDX-License-Identifier: Apache-2.0
#include "engine/values/device_mesh.h"

#include <algorithm>
#include <cctype>
#include <ostream>
#include <set>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxDims = 4;
constexpr int64_t kMaxRanks = int64_t{1} << 20;

int64_t checked_size(const std::vector<int64_t>& shape) {
  const auto text = join(shape, 'x');
  LOCKSTEP_CHECK(!shape.empty() && shape.size() <= kMaxDims, "[mesh] ", shape.size(), " dimensions (", text,
                 "); a mesh has 1 to 4");
  int64_t size = 1;
  for (const auto n : shape) {
    LOCKSTEP_CHECK(n >= 1, "[mesh] a dimension of size ", n, " in ", text, "; sizes are at least 1");
    LOCKSTEP_CHECK(n <= kMaxRanks / size, "[mesh] ", text, " has more than ", kMaxRanks, " ranks");
    size *= n;
  }
  return size;
}

bool is_name(std::string_view name) {
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), is_word);
}

void check_names(const std::vector<std::string>& names, size_t ndim) {
  LOCKSTEP_CHECK(names.size() == ndim, "[mesh] ", names.size(), " names for ", ndim,
                 " dimensions; give one for each");
  for (const auto& name : names)
    LOCKSTEP_CHECK(is_name(name), "[mesh] '", name, "' is not a name: letters, digits and _, no digit first");
  LOCKSTEP_CHECK(std::set<std::string>(names.begin(), names.end()).size() == ndim,
                 "[mesh] two dimensions have the same name; names must differ");
}

constexpr std::pair<c10::DeviceType, std::string_view> kDeviceTypes[] = {
    {c10::kCPU, "cpu"}, {c10::kCUDA, "cuda"}, {c10::kMeta, "meta"}};
constexpr auto kTheTypes = "there are cpu, cuda and meta";

std::string_view name_of(c10::DeviceType type) {
  for (const auto& [one, name] : kDeviceTypes)
    if (one == type) return name;
  throw Error(concat("[mesh] no mesh is on a ", c10::DeviceTypeName(type, true), "; ", kTheTypes));
}

// Sizes, with names or without. `whole` is for the error.
DeviceMesh parse_grid(std::string_view text, std::string_view whole) {
  constexpr auto kForms = "' is not a mesh; write sizes, 2x4, or named sizes, dp:2,tp:4";
  if (text.find(':') == std::string_view::npos) {
    auto shape = parse_integers(text, 'x');
    LOCKSTEP_CHECK(shape, "[mesh] '", whole, kForms);
    return DeviceMesh(std::move(*shape));
  }
  std::vector<int64_t> shape;
  std::vector<std::string> names;
  for (const auto part : split(text, ',')) {
    const auto halves = split(part, ':');
    const auto size = halves.size() == 2 ? parse_integer(halves[1]) : std::nullopt;
    LOCKSTEP_CHECK(size, "[mesh] '", whole, kForms);
    names.emplace_back(halves[0]);
    shape.push_back(*size);
  }
  return DeviceMesh(std::move(shape), std::move(names));
}

}  // namespace

DeviceMesh::DeviceMesh(std::vector<int64_t> shape, std::vector<std::string> names)
    : DeviceMesh(shape, std::move(names), up_to(checked_size(shape))) {}

DeviceMesh::DeviceMesh(std::vector<int64_t> shape, std::vector<std::string> names, std::vector<int64_t> ranks)
    : shape_(std::move(shape)),
      names_(std::move(names)),
      ranks_(std::make_shared<const std::vector<int64_t>>(std::move(ranks))),
      named_(!names_.empty()) {
  const auto expected = checked_size(shape_);
  LOCKSTEP_CHECK(size() == expected, "[mesh] ", size(), " ranks for ", join(shape_, 'x'), ", which needs ",
                 expected);
  auto sorted = this->ranks();
  std::sort(sorted.begin(), sorted.end());
  LOCKSTEP_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() && sorted.front() >= 0,
                 "[mesh] ranks must be distinct and not negative, got ", join(this->ranks(), ','));
  if (!named_)
    for (size_t i = 0; i < shape_.size(); ++i) names_.push_back(concat("dim", i));
  check_names(names_, shape_.size());
}

const DeviceMesh::Ranks& DeviceMesh::no_ranks() {
  static const auto none = std::make_shared<const std::vector<int64_t>>();
  return none;
}

DeviceMesh DeviceMesh::on(c10::DeviceType type) const {
  name_of(type);
  auto there = *this;
  there.device_type_ = type;
  return there;
}

int64_t DeviceMesh::size(int64_t dim) const {
  LOCKSTEP_CHECK(dim >= 0 && dim < ndim(), "[mesh] size: no dimension ", dim, " in ", *this,
                 "; dimensions are 0 to ", ndim() - 1);
  return shape_[static_cast<size_t>(dim)];
}

std::vector<int64_t> DeviceMesh::coordinate(int64_t position) const {
  LOCKSTEP_CHECK(position >= 0 && position < size(), "[mesh] coordinate: no position ", position, " in ",
                 *this, "; positions are 0 to ", size() - 1);
  std::vector<int64_t> result(shape_.size());
  for (size_t d = shape_.size(); d-- > 0;) {
    result[d] = position % shape_[d];
    position /= shape_[d];
  }
  return result;
}

int64_t DeviceMesh::position(const std::vector<int64_t>& coordinate) const {
  bool fits = coordinate.size() == shape_.size();
  int64_t result = 0;
  for (size_t d = 0; fits && d < shape_.size(); ++d) {
    fits = coordinate[d] >= 0 && coordinate[d] < shape_[d];
    result = result * shape_[d] + coordinate[d];
  }
  LOCKSTEP_CHECK(fits, "[mesh] position: (", join(coordinate, ','), ") is not a coordinate of ", *this,
                 "; give one number for each dimension, from 0 up to its size");
  return result;
}

std::vector<int64_t> DeviceMesh::line(int64_t position, int64_t dim) const {
  auto at = coordinate(position);
  std::vector<int64_t> result;
  for (int64_t i = 0; i < size(dim); ++i) {
    at[static_cast<size_t>(dim)] = i;
    result.push_back(this->position(at));
  }
  return result;
}

int64_t DeviceMesh::dim_index(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  LOCKSTEP_CHECK(found != names_.end(), "[mesh] no dimension '", name, "' in ", *this,
                 "; give names when you make it");
  return found - names_.begin();
}

DeviceMesh DeviceMesh::sub_mesh(const std::vector<std::string>& dims, int64_t rank) const {
  const auto found = std::find(ranks().begin(), ranks().end(), rank);
  LOCKSTEP_CHECK(found != ranks().end(), "[mesh] rank ", rank, " is not in ", *this);
  std::vector<int64_t> kept, shape;
  for (const auto& name : dims) {
    const auto d = dim_index(name);
    LOCKSTEP_CHECK(kept.empty() || kept.back() < d, "[mesh] sub_mesh: '", name,
                   "' is out of order; name dimensions of ", *this, " once each, in the mesh's order");
    kept.push_back(d);
    shape.push_back(size(d));
  }
  const int64_t count = checked_size(shape);
  const DeviceMesh grid(shape);
  auto at = coordinate(found - ranks().begin());
  std::vector<int64_t> some;
  for (int64_t p = 0; p < count; ++p) {
    const auto inner = grid.coordinate(p);
    for (size_t i = 0; i < kept.size(); ++i) at[static_cast<size_t>(kept[i])] = inner[i];
    some.push_back(ranks()[static_cast<size_t>(position(at))]);
  }
  return DeviceMesh(std::move(shape), dims, std::move(some)).on(device_type_);
}

DeviceMesh DeviceMesh::flatten(std::string name) const {
  if (name.empty() && named_)
    for (const auto& part : names_) name += (name.empty() ? "" : "_") + part;
  const auto names = name.empty() ? std::vector<std::string>{} : std::vector<std::string>{name};
  return DeviceMesh({size()}, names, ranks()).on(device_type_);
}

std::string to_string(const DeviceMesh& mesh) {
  std::string text = mesh.has_names() ? "" : join(mesh.shape(), 'x');
  for (int64_t d = 0; mesh.has_names() && d < mesh.ndim(); ++d)
    text += concat(d ? "," : "", mesh.names()[static_cast<size_t>(d)], ":", mesh.size(d));
  return mesh.device_type() == c10::kCPU ? text : concat(text, '@', name_of(mesh.device_type()));
}

std::ostream& operator<<(std::ostream& out, const DeviceMesh& mesh) {
  return out << to_string(mesh);
}

c10::DeviceType parse_device_type(std::string_view text) {
  for (const auto& [type, name] : kDeviceTypes)
    if (text == name) return type;
  throw Error(concat("[mesh] '", text, "' is not a device of a mesh; ", kTheTypes));
}

DeviceMesh parse_mesh(std::string_view text) {
  const auto at = text.find('@');
  const auto grid = parse_grid(text.substr(0, at), text);
  return at == std::string_view::npos ? grid : grid.on(parse_device_type(text.substr(at + 1)));
}

}  // namespace lockstep
