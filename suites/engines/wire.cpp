// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/wire.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/values/error.h"

namespace lockstep::suites::wire {
namespace {

// A socket whose other end is gone must not raise a signal here.
ssize_t write_quietly(int fd, const char* data, size_t size) {
  const ssize_t n = ::send(fd, data, size, MSG_NOSIGNAL);
  return n < 0 && errno == ENOTSOCK ? ::write(fd, data, size) : n;
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

std::string excerpt(const std::string& text) {
  std::string shown;
  for (const char c : text.substr(0, 60)) shown += c >= ' ' && c < 0x7f ? c : '?';
  return shown + (text.size() > 60 ? "…" : "");
}

Json parsed(const std::string& line) {
  Json header = Json::parse(line, nullptr, false);
  if (!header.is_object())
    throw Malformed(concat("'", excerpt(line), "' is no JSON object; print to the standard error instead"));
  return header;
}

size_t payload_size(const Json& header) {
  const auto bytes = header.find("bytes");
  if (bytes == header.end()) return 0;
  if (!bytes->is_number_unsigned() || bytes->get<uint64_t>() > kMostPayload)
    throw Malformed(concat("\"bytes\" is ", excerpt(bytes->dump()), ", not a number up to ", kMostPayload));
  return bytes->get<size_t>();
}

}  // namespace

void Channel::wait(int fd, short events, Deadline deadline) const {
  while (true) {
    if (std::chrono::steady_clock::now() >= deadline) throw TimedOut("no answer in time");
    pollfd one{fd, events, 0};
    if (poll(&one, 1, 500) > 0) return;
    waiting_();
  }
}

void Channel::write_all(const std::string& bytes, Deadline deadline) {
  for (size_t at = 0; at < bytes.size();) {
    wait(out_, POLLOUT, deadline);
    const ssize_t n = write_quietly(out_, bytes.data() + at, bytes.size() - at);
    if (n < 0 && would_block()) continue;
    if (n <= 0) throw Closed(concat("takes no more input (", std::strerror(errno), ")"));
    at += static_cast<size_t>(n);
  }
}

void Channel::send(Message message, Deadline deadline) {
  message.header["bytes"] = message.payload.size();
  write_all(message.header.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n", deadline);
  write_all(message.payload, deadline);
}

void Channel::read_some(Deadline deadline) {
  char block[1 << 16];
  while (true) {
    wait(in_, POLLIN, deadline);
    const ssize_t n = ::read(in_, block, sizeof block);
    if (n < 0 && would_block()) continue;
    if (n <= 0)
      throw Closed(buffer_.empty()
                       ? "closed its output"
                       : concat("closed its output after ", buffer_.size(), " bytes of a message"));
    buffer_.append(block, static_cast<size_t>(n));
    return;
  }
}

std::string Channel::line(Deadline deadline) {
  size_t from = 0, end = 0;
  while ((end = buffer_.find('\n', from)) == std::string::npos) {
    if (buffer_.size() > kMostHeader)
      throw Malformed(concat("its header has no end within ", kMostHeader, " bytes"));
    from = buffer_.size();
    read_some(deadline);
  }
  auto text = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return text;
}

Message Channel::receive(Deadline deadline) {
  Message message{parsed(line(deadline))};
  const size_t bytes = payload_size(message.header);
  while (buffer_.size() < bytes) read_some(deadline);
  message.payload = buffer_.substr(0, bytes);
  buffer_.erase(0, bytes);
  return message;
}

}  // namespace lockstep::suites::wire
