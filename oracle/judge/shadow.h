// SPDX-License-Identifier: Apache-2.0
// Shadow: the oracle's own values of what the engine holds, kept beside the memory of the plain run. Where
// the engine may differ (a reduction in another order), the own value stands in a shadow of the plain
// storage, so that views and in-place writes need no bookkeeping of their own.
#pragma once
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "oracle/ownership/slicing.h"
#include "oracle/plain/recording.h"

namespace lockstep::oracle {

// One rendition of a storage's values on the engine: the plain values themselves, or own terms in the same
// layout of bytes. Several may live at once: a pending sum and its reductions by different routes.
struct Rendition {
  std::vector<int64_t> partial_dims;
  std::vector<ReduceOp> ops;
  std::vector<int64_t> sizes;       // of the partial mesh dimensions
  std::vector<c10::Storage> terms;  // none: the plain values
  // Of a window whose elements share memory (expand), where the terms do not: a sum by position gives each
  // its own. Empty: they stand in the storages.
  std::vector<at::Tensor> apart{};
  bool unset = false;  // memory without values (aten::empty_like)
  bool lent = false;   // a value that the engine made an average for one op's sake: no move goes on from it

  bool plain() const { return terms.empty(); }
  bool pending() const { return !partial_dims.empty(); }
};
using RenditionPtr = std::shared_ptr<const Rendition>;

// Whether two records show one placement with the same bits on every rank; of nothing none does.
bool same_record(const TensorRecord& a, const TensorRecord& b);

class Shadow {
 public:
  explicit Shadow(const Recording& recording) : recording_(recording) {}

  // The terms of a rendition, as the window sees them.
  std::vector<at::Tensor> terms(const Window& window, const Rendition& rendition) const;
  // A rendition of the window's storage that holds these terms where the window stands, and elsewhere `base`.
  RenditionPtr rendition(const Window& window, const std::vector<at::Tensor>& terms, const Slicing& signature,
                         const Rendition* base = nullptr) const;
  static RenditionPtr plain();
  static RenditionPtr unset();

  // From now on the storage at the window's epoch has this rendition, alone or beside the others. A write
  // leaves what lies elsewhere as it was: of each rendition that the storage had before, too.
  // @returns it, or what it became beside what the same op wrote elsewhere
  RenditionPtr set(const Window& window, RenditionPtr rendition);
  // The same of a value that no entry gives as its result: whatever record shows it may be the first.
  void set_untold(const Window& window, RenditionPtr rendition);
  // The same of a value that the engine has not: no record shows it, whatever bits it has.
  void set_unseen(const Window& window, RenditionPtr rendition);
  // @returns the one that it has now: one of the same terms, where the storage had such already. Else each
  // repetition of a move would be one more, and the moves from there twice as many.
  RenditionPtr add(const Window& window, RenditionPtr rendition);

  // The one that was set.
  RenditionPtr only(const Window& window) { return renditions(window).front(); }

  // `to` has the values of `from`, in a layout of its own, and is untold as set_untold has it.
  void copy(const Window& from, const Window& to);
  // A window of no elements was written: the memory, whose state is another now, is what it was.
  void stay(const Window& before, const Window& after);
  // The same rendition of those values.
  RenditionPtr copy(const Window& from, const Window& to, const RenditionPtr& rendition) const;

  // The rendition of the window that the record shows, by signature and digests; null if there is none.
  RenditionPtr find(const Window& window, const TensorRecord& record);
  // Notes that the record shows this rendition, so that it is found without digesting again.
  void learn(const Window& window, const RenditionPtr& rendition, const TensorRecord& record);
  // Every window with a rendition that the record shows: values with equal bits are not told apart.
  struct Sighting {
    Window window;
    RenditionPtr rendition;
  };
  std::vector<Sighting> recognise(const TensorRecord& record);
  // Whether it is memory without values, as an op was given it before.
  bool is_unset(const TensorRecord& record) const;
  // Whether the record shows a tensor that has these whole numbers in the plain run, and those as the
  // oracle's own value.
  bool has_numbers(const TensorRecord& record, at::IntArrayRef plain, at::IntArrayRef own);

 private:
  struct Known {
    Sighting sighting;
    TensorRecord record;
  };

  // Every way in which a storage was seen, at its latest epoch; `learned`: some record showed it;
  // `untold`: perhaps by chance, as that of another value.
  struct Seen {
    Window window;
    bool learned = false;
    bool untold = false;
  };

  std::vector<RenditionPtr>& renditions(const Window& window);
  void keep_elsewhere(const Window& written, const std::vector<RenditionPtr>& before);
  // `before`, but that where it was written is what `now` has there, or, if that pends otherwise, bits that
  // no engine holds.
  RenditionPtr overwritten(const Window& written, const Rendition& before, const Rendition& now) const;
  // Of no element: nothing tells one such value from another, whatever pends.
  RenditionPtr find_empty(const Window& window, const TensorRecord& record);
  bool shows(const TensorRecord& record, const Window& window, const Rendition& rendition) const;
  Seen& remember(const Window& window);

  const Recording& recording_;
  std::unordered_map<Moment, std::vector<RenditionPtr>, MomentHash> renditions_;
  std::unordered_multimap<uint64_t, Known> known_;
  std::unordered_map<const c10::StorageImpl*, std::vector<Seen>> seen_;
  std::vector<TensorRecord> read_unset_;  // what ops were given of memory without values
};

}  // namespace lockstep::oracle
