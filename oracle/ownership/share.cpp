// SPDX-License-Identifier: Apache-2.0
#include "oracle/ownership/share.h"

#include "engine/values/error.h"

namespace lockstep::oracle {
namespace {

std::vector<int64_t> sizes(const std::vector<Indices>& lists) {
  std::vector<int64_t> result;
  for (const auto& list : lists) result.push_back(std::ssize(list));
  return result;
}

template <size_t N>
struct Element {
  char bytes[N];
};

template <bool kOut, class T>
void move(T* global, T* local) {
  if constexpr (kOut)
    *local = *global;
  else
    *global = *local;
}

// Every combination of the lists.
template <bool kOut, class T>
void move_box(T* global, at::IntArrayRef global_stride, T* local, at::IntArrayRef local_stride,
              const std::vector<Indices>& lists, size_t dim = 0) {
  if (dim == lists.size()) return move<kOut>(global, local);
  const Indices& list = lists[dim];
  const int64_t gs = global_stride[dim], ls = local_stride[dim];
  const bool last = dim + 1 == lists.size();
  for (size_t i = 0; i < list.size(); ++i) {
    T* g = global + list[i] * gs;
    T* l = local + static_cast<int64_t>(i) * ls;
    if (last)
      move<kOut>(g, l);
    else
      move_box<kOut>(g, global_stride, l, local_stride, lists, dim + 1);
  }
}

// Counts every combination of the lists, row-major, and moves those of the run.
template <bool kOut, class T>
struct RunMover {
  const Share& share;
  at::IntArrayRef global_stride;
  T* local;
  int64_t local_stride;
  int64_t counted = 0;

  void run(T* global, size_t dim = 0) {
    if (dim == share.lists.size()) {
      if (counted >= share.run->begin && counted < share.run->end)
        move<kOut>(global, local + (counted - share.run->begin) * local_stride);
      ++counted;
      return;
    }
    for (const int64_t i : share.lists[dim]) run(global + i * global_stride[dim], dim + 1);
  }
};

template <bool kOut, size_t N>
void move_sized(const at::Tensor& global, const Share& share, const at::Tensor& local) {
  using T = Element<N>;
  auto* g = static_cast<T*>(global.data_ptr());
  auto* l = static_cast<T*>(local.data_ptr());
  if (share.run)
    RunMover<kOut, T>{share, global.strides(), l, local.stride(0)}.run(g);
  else
    move_box<kOut>(g, global.strides(), l, local.strides(), share.lists);
}

template <bool kOut>
void move_all(const at::Tensor& global, const Share& share, const at::Tensor& local) {
  if (local.numel() == 0) return;
  if (!global.is_cpu() || !local.is_cpu())
    throw Broken(concat("[share] elements are moved in the host's memory, not between ", global.device(),
                        " and ", local.device()));
  switch (global.element_size()) {
    case 1:
      return move_sized<kOut, 1>(global, share, local);
    case 2:
      return move_sized<kOut, 2>(global, share, local);
    case 4:
      return move_sized<kOut, 4>(global, share, local);
    case 8:
      return move_sized<kOut, 8>(global, share, local);
    default:
      throw Broken(concat("[share] elements of ", global.element_size(), " bytes"));
  }
}

}  // namespace

std::vector<int64_t> Share::shape() const {
  if (run) return {run->end - run->begin};
  return sizes(lists);
}

Indices Share::global_index(const Indices& local) const {
  Indices in_box = local;
  if (run) in_box = unravel(run->begin + local.at(0), sizes(lists));
  for (size_t d = 0; d < lists.size(); ++d) in_box[d] = lists[d].at(static_cast<size_t>(in_box[d]));
  return in_box;
}

Indices unravel(int64_t number, at::IntArrayRef shape) {
  Indices index(shape.size());
  for (size_t d = shape.size(); d-- > 0; number /= shape[d]) index[d] = number % shape[d];
  return index;
}

void copy_out(const at::Tensor& global, const Share& share, const at::Tensor& local) {
  move_all<true>(global, share, local);
}

void copy_in(const at::Tensor& local, const Share& share, const at::Tensor& global) {
  move_all<false>(global, share, local);
}

}  // namespace lockstep::oracle
