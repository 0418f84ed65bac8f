// SPDX-License-Identifier: Apache-2.0
#include "engine/world/gloo_group.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <tuple>
#include <utility>

#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using Milliseconds = std::chrono::milliseconds;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Each message begins with a frame of one size, which holds its length and as much of it as fits; what is
// left follows in one piece. So both sides know what to ask gloo for.
constexpr int64_t kFrame = 4096, kInFrame = kFrame - static_cast<int64_t>(sizeof(int64_t));
enum Tag : int { kMessage, kProbe };
constexpr Milliseconds kForEver = std::chrono::hours(24 * 365), kProbes = std::chrono::seconds(1);

// Not of libtorch's allocator: it is freed by another thread than has made it, and who counts what his thread
// holds would count it wrong.
at::Tensor bytes_of(int64_t size) {
  auto* memory = new uint8_t[as_size(size)];
  return at::from_blob(
      memory, {size}, [memory](void*) { delete[] memory; }, at::kByte);
}

// One for each place that a launcher names, as long as the process: the next World of its program meets
// there, too, where no other server can be begun.
c10::intrusive_ptr<c10d::Store> tcp_store(const MeetingPoint& at, const c10d::TCPStoreOptions& options) {
  using Stores = std::map<std::tuple<std::string, int64_t, bool>, c10::intrusive_ptr<c10d::Store>>;
  static std::mutex mutex;
  static auto& stores = *new Stores;
  const std::lock_guard lock(mutex);
  auto& store = stores[{at.host, at.port, at.serves}];
  if (!store) store = c10::make_intrusive<c10d::TCPStore>(at.host, options);
  return store;
}

c10::intrusive_ptr<c10d::Store> store_at(const MeetingPoint& at, int64_t processes, Milliseconds patience) {
  if (!at.file.empty()) return c10::make_intrusive<c10d::FileStore>(at.file, -1);
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(at.port);
  options.isServer = at.serves;
  options.numWorkers = as_size(processes);
  options.waitWorkers = false;
  options.timeout = patience;
  return c10::make_intrusive<c10d::PrefixStore>(at.prefix, tcp_store(at, options));
}

// The loopback device for what is on one machine; else that which the environment names, as for PyTorch, or
// that of this machine's name.
auto device_for(const MeetingPoint& at) {
  using Group = c10d::ProcessGroupGloo;
  if (!at.file.empty() || at.host == "127.0.0.1" || at.host == "localhost")
    return Group::createDeviceForHostname("127.0.0.1");
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  return interface != nullptr ? Group::createDeviceForInterface(interface) : Group::createDefaultDevice();
}

// Of what was sent and has not left yet.
struct Sending {
  int64_t to;
  WorkPtr work;
  at::Tensor bytes;
};

}  // namespace

struct GlooGroup::Impl {
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::Backend> group;
  std::mutex mutex;                     // of all below, and of calls to the group that begin something
  std::condition_variable_any changed;  // what is being sent
  std::deque<Sending> sending;
  std::vector<WorkPtr> receiving;  // by process
  std::vector<bool> gone;          // by process
  bool closed = false;
  std::jthread watcher, sweeper;

  WorkPtr begin(int64_t to, Tag tag, const at::Tensor& bytes) {
    std::vector<at::Tensor> one{bytes};
    return group->send(one, static_cast<int>(to), tag);
  }
  void begin_send(int64_t to, const at::Tensor& bytes) {
    sending.push_back({to, begin(to, kMessage, bytes), bytes});
    changed.notify_all();
  }
  // Lets go of what has left, one after the other: gloo does not say whether it has, but to who waits for it.
  void sweep(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [&] { return !sending.empty(); }) && !stop.stop_requested()) {
      const auto [to, work, bytes] = sending.front();
      if (!closed && !gone[as_size(to)]) {
        lock.unlock();
        try {
          work->wait(kForEver);
        } catch (const std::exception&) {  // who should have had it is told by who waits for it
        }
        lock.lock();
      }
      sending.pop_front();
      changed.notify_all();
    }
  }

  // Who has a part of a message is not told by gloo that its sender is gone; who begins to send is. So this
  // begins to, again and again, and ends a receive that was there when it failed and when it fails again.
  // And gloo forgets an abort that comes before the wait: it is said until it is heard.
  void watch(const std::stop_token& stop) {
    std::vector<WorkPtr> suspects(receiving.size());
    std::condition_variable_any wakes;
    std::unique_lock lock(mutex);
    while (!wakes.wait_for(lock, stop, kProbes, [&] { return stop.stop_requested(); })) {
      for (size_t from = 0; !closed && from < receiving.size(); ++from)
        if (const auto& work = receiving[from]; work != nullptr && !answers(from))
          if (std::exchange(suspects[from], work) == work) work->abort();
      abort_what_is_over();
    }
  }
  void abort_what_is_over() {
    for (const auto& work : receiving)
      if (closed && work != nullptr) work->abort();
    for (const auto& one : sending)
      if (closed || gone[as_size(one.to)]) one.work->abort();
  }
  bool answers(size_t process) {
    try {
      begin(static_cast<int64_t>(process), kProbe, bytes_of(0));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  at::Tensor receive(int64_t from, int64_t size) {
    std::vector<at::Tensor> one{bytes_of(size)};
    WorkPtr work;
    {
      const std::lock_guard lock(mutex);
      if (!closed) work = receiving[as_size(from)] = group->recv(one, static_cast<int>(from), kMessage);
    }
    if (work != nullptr && work->wait(kForEver)) return one[0];
    const std::lock_guard lock(mutex);
    throw Error(closed ? "the connection was closed here" : "the connection was closed within a message");
  }
};

GlooGroup::GlooGroup(const MeetingPoint& at, int64_t process, int64_t processes, Milliseconds patience)
    : impl_(std::make_unique<Impl>()) {
  signal(SIGPIPE, SIG_IGN);  // to write to a process that is gone is an error, and no end of this one
  impl_->receiving.resize(as_size(processes));
  impl_->gone.resize(as_size(processes));
  auto options = c10d::ProcessGroupGloo::Options::create(patience);
  options->threads = 1;
  try {
    options->devices.push_back(device_for(at));
    impl_->store = store_at(at, processes, patience);
    impl_->store->setTimeout(patience);
    impl_->group = c10::make_intrusive<c10d::ProcessGroupGloo>(
        impl_->store, static_cast<int>(process), static_cast<int>(processes), std::move(options));
    impl_->watcher = std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->watch(stop); });
    impl_->sweeper = std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->sweep(stop); });
  } catch (const c10::Error& e) {
    throw Error(concat("[gloo] process ", process, " of ", processes,
                       " does not meet the others: ", e.what_without_backtrace()));
  } catch (const std::exception& e) {
    throw Error(
        concat("[gloo] process ", process, " of ", processes, " does not meet the others: ", e.what()));
  }
}

GlooGroup::~GlooGroup() {
  close();
}

std::vector<std::string> GlooGroup::say(const std::string& name, const std::string& text) {
  const auto key = [&](int64_t process) { return concat(name, "/", process); };
  impl_->store->set(key(impl_->group->getRank()), text);
  std::vector<std::string> all;
  for (int64_t process = 0; process < impl_->group->getSize(); ++process)
    all.push_back(impl_->store->get_to_str(key(process)));
  return all;
}

void GlooGroup::send(int64_t to, std::string message) {
  const auto size = std::ssize(message), left = std::max(int64_t{0}, size - kInFrame);
  const auto frame = bytes_of(kFrame);
  auto* data = frame.mutable_data_ptr<uint8_t>();
  std::memcpy(data, &size, sizeof size);
  std::memcpy(data + sizeof size, message.data(), as_size(size - left));
  const std::lock_guard lock(impl_->mutex);
  impl_->begin_send(to, frame);
  if (left == 0) return;
  const auto rest = bytes_of(left);
  std::memcpy(rest.mutable_data_ptr<uint8_t>(), message.data() + kInFrame, as_size(left));
  impl_->begin_send(to, rest);
}

at::Tensor GlooGroup::receive(int64_t from) {
  const auto frame = impl_->receive(from, kFrame);
  int64_t size = 0;
  std::memcpy(&size, frame.const_data_ptr(), sizeof size);
  const auto first = frame.narrow(0, sizeof size, std::min(size, kInFrame));
  if (size <= kInFrame) return first;
  const auto rest = impl_->receive(from, size - kInFrame), whole = bytes_of(size);
  whole.narrow(0, 0, kInFrame).copy_(first);
  whole.narrow(0, kInFrame, size - kInFrame).copy_(rest);
  return whole;
}

void GlooGroup::settle(Milliseconds patience) {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait_for(lock, patience, [&] { return impl_->sending.empty(); });
}

int64_t GlooGroup::unsent() const {
  const std::lock_guard lock(impl_->mutex);
  return std::ssize(impl_->sending);
}

void GlooGroup::forget(int64_t process) {
  const std::lock_guard lock(impl_->mutex);
  impl_->gone[as_size(process)] = true;
  impl_->abort_what_is_over();
}

void GlooGroup::close() {
  const std::lock_guard lock(impl_->mutex);
  impl_->closed = true;
  impl_->abort_what_is_over();
}

}  // namespace lockstep
