// SPDX-License-Identifier: Apache-2.0
#include "suites/core/in_memory.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "engine/values/error.h"
#include "oracle/ownership/slicing.h"

namespace lockstep::suites {
namespace {

using StorageId = const c10::StorageImpl*;

StorageId storage_of(const at::Tensor& t) {
  return t.storage().unsafeGetStorageImpl();
}

bool holds_elements(const at::Tensor& t) {
  return t.defined() && t.numel() > 0;
}

// A tensor of the same form whose elements are their own places in the storage, in bytes.
at::Tensor places_of(const at::Tensor& t) {
  int64_t last = t.storage_offset();
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  const auto size = static_cast<int64_t>(t.element_size());
  return at::arange(0, (last + 1) * size, size, at::kLong)
      .as_strided(t.sizes(), t.strides(), t.storage_offset());
}

bool same_window(const at::Tensor& a, const at::Tensor& b) {
  return storage_of(a) == storage_of(b) && a.storage_offset() == b.storage_offset() &&
         a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

// Of each value, whether it was made by an op that says of its operand's memory that it is new: as libtorch's
// word goes nobody may write to either, so that an engine may have moved what it reads.
std::vector<bool> called_new(const oracle::Program& program) {
  std::vector<bool> called(program.inputs.size(), false);
  for (const auto& call : program.calls)
    called.insert(called.end(), static_cast<size_t>(call.results),
                  call.op.starts_with("aten::_unsafe_view") || call.op.starts_with("aten::unsafe_"));
  return called;
}

// One element of a value on one rank.
struct Element {
  int64_t there;  // its place on the single device
  StorageId storage;
  int64_t here;
  size_t value;
};

class Memory {
 public:
  Memory(const oracle::Case& c, const std::vector<at::Tensor>& plain, const std::vector<EngineValue>& values,
         const Storages& outside)
      : c_(c),
        plain_(plain),
        values_(values),
        called_plain_(oracle::plain_values(c)),
        outside_(outside),
        called_new_(called_new(c.program)) {}

  std::optional<LiesElsewhere> first_elsewhere() {
    for (size_t v = 0; v < plain_.size(); ++v) {
      if (!holds_elements(plain_[v])) continue;
      share(v);
      for (size_t p = 0; p < ranks_of(v); ++p) {
        if (!holds_elements(local(v, p))) continue;
        if (auto problem = wrong_stride(v, p)) return problem;
        if (auto problem = wrong_storage(v, p)) return problem;
      }
    }
    for (const auto& sharing : sharing_)
      if (is_to_be_compared(sharing))
        for (size_t p = 0; p < ranks_of(sharing[0]); ++p)
          if (auto problem = wrong_elements(sharing, p)) return problem;
    return std::nullopt;
  }

 private:
  const at::Tensor& local(size_t v, size_t p) const { return values_[v].locals[p]; }
  size_t ranks_of(size_t v) const {
    const auto& locals = values_[v].locals;
    const auto is_one = [&] {
      return std::all_of(locals.begin(), locals.end(),
                         [&](const at::Tensor& local) { return same_window(local, locals[0]); });
    };
    const bool may_be_one = outside_.contains(storage_of(plain_[v]));
    return called_plain_[v] || (may_be_one && is_one()) ? 1 : locals.size();
  }
  oracle::SlicingPtr plan(size_t v) const { return oracle::slicing_of(*values_[v].spec); }
  std::string name(size_t v) const { return oracle::value_name(c_.program, static_cast<int64_t>(v)); }
  bool is_flat(size_t v, size_t p) const { return plan(v)->shares[p].run.has_value(); }

  // In the order of values, whatever their addresses.
  void share(size_t v) {
    const auto same = std::find_if(sharing_.begin(), sharing_.end(), [&](const std::vector<size_t>& others) {
      return storage_of(plain_[others[0]]) == storage_of(plain_[v]);
    });
    (same != sharing_.end() ? *same : sharing_.emplace_back()).push_back(v);
  }

  template <class... Parts>
  LiesElsewhere found(const char* verdict, size_t v, size_t p, const Parts&... parts) const {
    return {v, verdict,
            concat(name(v), ", placed as ", *values_[v].spec, ", at position ", p, ": ", parts...)};
  }

  std::optional<LiesElsewhere> wrong_stride(size_t v, size_t p) const {
    const at::Tensor &whole = plain_[v], &part = local(v, p);
    if (!is_flat(v, p) && !whole.is_non_overlapping_and_dense()) return std::nullopt;
    const auto wanted = oracle::local_stride(plan(v)->shares[p], whole.sizes(), whole.strides());
    for (size_t d = 0; d < wanted.size(); ++d)
      if (part.sizes()[d] > 1 && part.strides()[d] != wanted[d])
        return found("stride", v, p, "has strides ", part.strides(), ", where dense ones in the order of ",
                     whole.strides(), " are ", at::IntArrayRef(wanted));
    return std::nullopt;
  }

  std::optional<LiesElsewhere> wrong_storage(size_t v, size_t p) {
    const auto [owner, is_new] =
        owners_.try_emplace(storage_of(local(v, p)), Owner{storage_of(plain_[v]), p, v});
    const auto& [there, position, value] = owner->second;
    if (is_new || (there == storage_of(plain_[v]) && position == p)) return std::nullopt;
    return found("memory", v, p, "shares memory with ", name(value), " at position ", position,
                 ", which on one device is memory of its own");
  }

  // Whether more than one form of their memory is in sight, or one that strides alone do not say.
  bool is_to_be_compared(const std::vector<size_t>& sharing) const {
    const at::Tensor& first = plain_[sharing[0]];
    if (!first.is_non_overlapping_and_dense()) return true;
    return std::any_of(sharing.begin() + 1, sharing.end(), [&](size_t v) {
      if (!same_window(plain_[v], first)) return true;
      for (size_t p = 0; p < ranks_of(v); ++p)
        if (!same_window(local(v, p), local(sharing[0], p))) return true;
      return false;
    });
  }

  void add_elements(size_t v, size_t p, std::vector<Element>& elements) const {
    const at::Tensor there =
        oracle::cut(places_of(plain_[v]), *plan(v), static_cast<int64_t>(p)).contiguous();
    const at::Tensor here = places_of(local(v, p)).contiguous();
    const auto *from = there.const_data_ptr<int64_t>(), *to = here.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < here.numel(); ++i)
      elements.push_back({from[i], storage_of(local(v, p)), to[i], v});
  }

  std::optional<LiesElsewhere> wrong_elements(const std::vector<size_t>& sharing, size_t p) const {
    std::vector<Element> elements;
    bool any_flat = false, may_be_copies = false;
    for (const size_t v : sharing) {
      if (!holds_elements(local(v, p))) continue;
      any_flat |= is_flat(v, p);
      may_be_copies |= called_new_[v];
      add_elements(v, p, elements);
    }
    std::sort(elements.begin(), elements.end(), [](const Element& a, const Element& b) {
      return std::tuple(a.there, a.value) < std::tuple(b.there, b.value);
    });
    for (size_t i = 1; i < elements.size(); ++i) {
      const Element &a = elements[i - 1], &b = elements[i];
      if (a.there == b.there && (a.storage != b.storage ? !may_be_copies : a.here != b.here))
        return found("memory", b.value, p, "byte ", b.there, " of the single device's memory ",
                     a.storage != b.storage ? "is a copy" : concat("lies at ", b.here, ", not at ", a.here),
                     " of what it is in ", name(a.value));
    }
    std::sort(elements.begin(), elements.end(), [](const Element& a, const Element& b) {
      return std::tuple(a.storage, a.here, a.there, a.value) <
             std::tuple(b.storage, b.here, b.there, b.value);
    });
    for (size_t i = 1; i < elements.size(); ++i) {
      const Element &a = elements[i - 1], &b = elements[i];
      if (a.storage != b.storage) continue;
      if (a.here == b.here ? a.there != b.there : !any_flat && a.there > b.there)
        return found("memory", b.value, p, "byte ", b.there, " of the single device's memory lies at ",
                     b.here, ", and byte ", a.there, " at ", a.here, " in ", name(a.value));
    }
    return std::nullopt;
  }

  struct Owner {
    StorageId there;
    size_t position, value;
  };
  const oracle::Case& c_;
  const std::vector<at::Tensor>& plain_;
  const std::vector<EngineValue>& values_;
  const std::vector<bool> called_plain_;
  const Storages& outside_;
  const std::vector<bool> called_new_;
  std::vector<std::vector<size_t>> sharing_;  // values in one storage of the single device
  std::unordered_map<StorageId, Owner> owners_;
};

}  // namespace

std::optional<LiesElsewhere> lies_elsewhere(const oracle::Case& c, const std::vector<at::Tensor>& plain,
                                            const std::vector<EngineValue>& values, const Storages& outside) {
  return Memory(c, plain, values, outside).first_elsewhere();
}

}  // namespace lockstep::suites
