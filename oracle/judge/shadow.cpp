// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/shadow.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "oracle/ownership/compare.h"

namespace lockstep::oracle {
namespace {

uint64_t key_of(const TensorRecord& record) {
  uint64_t h = record.spec->hash();
  for (const Digest& d : record.digests) h = (h ^ d.lo) * 0x9fb21c651e98df25u + d.hi;
  return h;
}

c10::Storage empty_like_storage(const Window& window) {
  return at::detail::empty_cpu({static_cast<int64_t>(window.storage.nbytes())}, c10::ScalarType::Byte)
      .storage();
}

bool signature_matches(const Spec& spec, const Rendition& rendition) {
  size_t next = 0;
  for (size_t d = 0; d < spec.placements().size(); ++d) {
    const auto* partial = std::get_if<Partial>(&spec.placements()[d]);
    if (partial == nullptr) continue;
    if (next >= rendition.ops.size() || rendition.partial_dims[next] != static_cast<int64_t>(d) ||
        rendition.ops[next] != partial->op)
      return false;
    ++next;
  }
  return next == rendition.ops.size();
}

Slicing signature_of(const Rendition& rendition) {
  Slicing signature;
  signature.partial_dims = rendition.partial_dims;
  signature.ops = rendition.ops;
  signature.sizes = rendition.sizes;
  return signature;
}

bool pend_alike(const Rendition& a, const Rendition& b) {
  return a.partial_dims == b.partial_dims && a.ops == b.ops && a.sizes == b.sizes;
}

// The same form, and of each value every bit another.
at::Tensor flipped(const at::Tensor& values) {
  // A copy: of one element any stride is contiguous, and no view of its bytes.
  const auto bytes = values.clone(at::MemoryFormat::Contiguous).view({-1}).view(at::kByte);
  return bytes.bitwise_not().view(values.scalar_type()).reshape(values.sizes());
}

bool covers(const Window& window) {
  return window.numel() * static_cast<int64_t>(c10::elementSize(window.dtype)) ==
         static_cast<int64_t>(window.storage.nbytes());
}

bool shares_memory(const Window& window) {
  for (size_t d = 0; d < window.shape.size(); ++d)
    if (window.stride[d] == 0 && window.shape[d] > 1) return true;
  return false;
}

bool all_stand(const std::vector<at::Tensor>& written, const std::vector<at::Tensor>& values) {
  for (size_t i = 0; i < values.size(); ++i)
    if (!compare(values[i], written[i]).equal()) return false;
  return true;
}

std::string_view bytes_of(const c10::Storage& storage) {
  return {static_cast<const char*>(storage.data()), storage.nbytes()};
}

// Of one storage.
bool same_rendition(const Rendition& a, const Rendition& b) {
  return pend_alike(a, b) && a.unset == b.unset && a.lent == b.lent && a.apart.size() == b.apart.size() &&
         all_stand(a.apart, b.apart) && std::ranges::equal(a.terms, b.terms, {}, bytes_of, bytes_of);
}

bool same_view(const Window& a, const Window& b) {
  return a.offset == b.offset && a.dtype == b.dtype && a.shape == b.shape && a.stride == b.stride;
}

}  // namespace

bool same_record(const TensorRecord& a, const TensorRecord& b) {
  return a.spec && b.spec && *a.spec == *b.spec && a.digests == b.digests;
}

std::vector<at::Tensor> Shadow::terms(const Window& window, const Rendition& rendition) const {
  if (rendition.plain()) return {recording_.read(window)};
  if (!rendition.apart.empty() && rendition.apart[0].sizes() == at::IntArrayRef(window.shape))
    return rendition.apart;
  std::vector<at::Tensor> result;
  for (const c10::Storage& storage : rendition.terms) result.push_back(tensor_in(storage, window));
  return result;
}

RenditionPtr Shadow::rendition(const Window& window, const std::vector<at::Tensor>& terms,
                               const Slicing& signature, const Rendition* base) const {
  auto made = std::make_shared<Rendition>();
  made->partial_dims = signature.partial_dims;
  made->ops = signature.ops;
  made->sizes = signature.sizes;
  for (size_t i = 0; i < terms.size(); ++i) {
    const c10::Storage& storage = made->terms.emplace_back(empty_like_storage(window));
    if (!covers(window)) {
      // By value: what is read is a tensor that lives no longer than this line.
      const c10::Storage old = base != nullptr && base->terms.size() == terms.size()
                                   ? base->terms[i]
                                   : recording_.read(window).storage();
      std::memcpy(storage.mutable_data(), old.data(), storage.nbytes());
    }
    write(tensor_in(storage, window), terms[i]);
  }
  if (shares_memory(window) && !all_stand(this->terms(window, *made), terms))
    for (const at::Tensor& t : terms) made->apart.push_back(t.clone());
  return made;
}

RenditionPtr Shadow::plain() {
  static const RenditionPtr kPlain = std::make_shared<const Rendition>();
  return kPlain;
}

RenditionPtr Shadow::unset() {
  static const RenditionPtr kUnset = [] {
    auto made = std::make_shared<Rendition>();
    made->unset = true;
    return made;
  }();
  return kUnset;
}

RenditionPtr Shadow::set(const Window& window, RenditionPtr rendition) {
  remember(window).untold = false;
  const auto written_by_op = renditions_.find({window.id(), window.epoch});
  const bool wrote_more = window.epoch > 0 && written_by_op != renditions_.end();
  const auto before = wrote_more ? written_by_op : renditions_.find({window.id(), window.epoch - 1});
  const auto old = before == renditions_.end() ? std::vector<RenditionPtr>() : before->second;
  set_unseen(window, std::move(rendition));
  keep_elsewhere(window, old);
  // Elsewhere it is of before the op, which has written there.
  auto& list = renditions(window);
  const auto alike = [&](const RenditionPtr& r) { return pend_alike(*r, *list.front()); };
  if (const auto both = std::find_if(list.begin() + 1, list.end(), alike); wrote_more && both != list.end()) {
    list.front() = *both;
    list.erase(both);
  }
  return list.front();
}

void Shadow::set_unseen(const Window& window, RenditionPtr rendition) {
  auto& list = renditions_[{window.id(), window.epoch}];
  list.clear();
  list.push_back(std::move(rendition));
}

void Shadow::set_untold(const Window& window, RenditionPtr rendition) {
  set(window, std::move(rendition));
  remember(window).untold = true;
}

RenditionPtr Shadow::add(const Window& window, RenditionPtr rendition) {
  auto& list = renditions(window);
  for (const RenditionPtr& r : list)
    if (same_rendition(*r, *rendition)) return r;
  return list.emplace_back(std::move(rendition));
}

RenditionPtr Shadow::find(const Window& window, const TensorRecord& record) {
  const auto [begin, end] = known_.equal_range(key_of(record));
  for (auto it = begin; it != end; ++it)
    if (it->second.sighting.window == window && same_record(it->second.record, record))
      return it->second.sighting.rendition;
  remember(window);
  if (window.numel() == 0) return find_empty(window, record);
  for (const RenditionPtr& r : renditions(window)) {
    if (!shows(record, window, *r)) continue;
    const RenditionPtr found = r;
    learn(window, found, record);
    return found;
  }
  return nullptr;
}

RenditionPtr Shadow::find_empty(const Window& window, const TensorRecord& record) {
  const SlicingPtr plan = slicing_of(*record.spec);
  const std::vector<at::Tensor> nothing(static_cast<size_t>(plan->terms), recording_.read(window));
  if (first_mismatch(nothing, record) >= 0) return nullptr;
  const RenditionPtr made = plan->partial_dims.empty() ? plain() : rendition(window, nothing, *plan);
  learn(window, made, record);
  return made;
}

void Shadow::learn(const Window& window, const RenditionPtr& rendition, const TensorRecord& record) {
  if (rendition->unset) return read_unset_.push_back(record);
  remember(window).learned = true;
  const uint64_t key = key_of(record);
  const auto [begin, end] = known_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    const auto& [sighting, known] = it->second;
    if (sighting.rendition == rendition && sighting.window == window && same_record(known, record)) return;
  }
  known_.emplace(key, Known{{window, rendition}, record});
}

std::vector<Shadow::Sighting> Shadow::recognise(const TensorRecord& record) {
  std::vector<Sighting> result;
  const auto [begin, end] = known_.equal_range(key_of(record));
  for (auto it = begin; it != end; ++it)
    if (same_record(it->second.record, record)) result.push_back(it->second.sighting);
  // Not seen in this placement yet: a first reading, or a storage that was written through another view.
  const bool any = !result.empty();
  std::vector<Window> candidates;
  for (const auto& [storage, windows] : seen_)
    for (const auto& [w, learned, untold] : windows)
      if ((!any || w.epoch > 0 || !learned || untold) && w.dtype == record.spec->dtype() &&
          w.shape == at::IntArrayRef(record.spec->shape()))
        candidates.push_back(w);
  for (const Window& w : candidates) {
    if (any && std::any_of(result.begin(), result.end(), [&](const Sighting& s) { return s.window == w; }))
      continue;
    if (auto found = find(w, record); found && !found->unset) result.push_back({w, std::move(found)});
  }
  // Of equal values none is known to be the one that was shown: each may yet be read for the first time.
  if (result.size() > 1)
    for (const Sighting& s : result) remember(s.window).learned = false;
  return result;
}

bool Shadow::is_unset(const TensorRecord& record) const {
  return std::any_of(read_unset_.begin(), read_unset_.end(),
                     [&](const TensorRecord& r) { return same_record(r, record); });
}

bool Shadow::has_numbers(const TensorRecord& record, at::IntArrayRef plain, at::IntArrayRef own) {
  const auto is = [](const at::Tensor& t, at::IntArrayRef numbers) {
    const at::Tensor flat = t.contiguous();
    return std::ranges::equal(std::span(flat.const_data_ptr<int64_t>(), static_cast<size_t>(flat.numel())),
                              numbers);
  };
  if (!record.spec || record.spec->dtype() != at::kLong || record.spec->has_partial()) return false;
  return std::ranges::any_of(recognise(record), [&](const Sighting& s) {
    return is(recording_.read(s.window), plain) && is(terms(s.window, *s.rendition)[0], own);
  });
}

std::vector<RenditionPtr>& Shadow::renditions(const Window& window) {
  auto& list = renditions_[{window.id(), window.epoch}];
  if (list.empty()) list.push_back(plain());
  return list;
}

RenditionPtr Shadow::copy(const Window& from, const Window& to, const RenditionPtr& rendition) const {
  if (rendition->plain()) return rendition;
  return this->rendition(to, terms(from, *rendition), signature_of(*rendition));
}

void Shadow::copy(const Window& from, const Window& to) {
  std::vector<RenditionPtr> copies;
  for (const RenditionPtr& r : renditions(from)) copies.push_back(copy(from, to, r));
  remember(to).untold = true;
  renditions_[{to.id(), to.epoch}] = std::move(copies);
}

void Shadow::stay(const Window& before, const Window& after) {
  std::vector<RenditionPtr> same = renditions(before);
  remember(after);
  renditions_[{after.id(), after.epoch}] = std::move(same);
}

void Shadow::keep_elsewhere(const Window& written, const std::vector<RenditionPtr>& before) {
  const auto now = only(written);
  if (now->unset || written.numel() == 0 || covers(written) || shares_memory(written)) return;
  for (const RenditionPtr& r : before) {
    const bool of_parts = !r->unset && !r->lent && r->apart.empty();
    if (of_parts && !(r->plain() && now->plain())) add(written, overwritten(written, *r, *now));
  }
}

RenditionPtr Shadow::overwritten(const Window& written, const Rendition& before, const Rendition& now) const {
  const std::vector<at::Tensor> other(before.plain() ? 1 : before.terms.size(),
                                      flipped(recording_.read(written)));
  return rendition(written, pend_alike(before, now) ? terms(written, now) : other, signature_of(before),
                   &before);
}

bool Shadow::shows(const TensorRecord& record, const Window& window, const Rendition& rendition) const {
  if (rendition.unset)
    return record.spec->dtype() == window.dtype && at::IntArrayRef(window.shape) == record.spec->shape();
  if (!signature_matches(*record.spec, rendition)) return false;
  return first_mismatch(terms(window, rendition), record) < 0;
}

Shadow::Seen& Shadow::remember(const Window& window) {
  auto& windows = seen_[window.id()];
  for (Seen& seen : windows)
    if (seen.window.epoch < window.epoch) seen.window.epoch = window.epoch;
  for (Seen& seen : windows)
    if (same_view(seen.window, window)) return seen;
  return windows.emplace_back(Seen{window});
}

}  // namespace lockstep::oracle
