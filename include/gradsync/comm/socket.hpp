// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Small frames over TCP, with a deadline on every wait: what processes that have nothing in common yet tell each other by.
///
/// Sockets never block; whoever waits does so in poll(2), which takes the deadline. A frame has a head that a stranger's bytes do not
/// have, and says its length; one that is longer than the reader expects is garbage, so nobody can make a process allocate memory. Heads
/// are in the order of the processor's bytes: a job's hosts must be alike in that, as their gradients are.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <system_error>  // what the system says of its errors
#include <utility>
#include <vector>

#include <netdb.h>       // names of hosts
#include <netinet/in.h>  // IPv6 sockets that take IPv4 too
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync::detail {

inline std::string system_message(int error) { return std::system_category().message(error); }

/// A file that is closed in the end.
class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int file) : file_(file) {}
  descriptor(descriptor&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~descriptor() {
    if (file_ >= 0) close(file_);
  }
  int get() const { return file_; }
  explicit operator bool() const { return file_ >= 0; }

 private:
  int file_ = -1;
};

/// Waits until one of the files has something to say. False: the deadline has passed.
inline bool poll_until(std::span<pollfd> files, const deadline& until) {
  for (;;) {
    const bool late = until.passed(std::chrono::steady_clock::now);  // at first: some deadlines count from the first look
    int limit = until.polling() ? 0 : -1;                             // milliseconds
    if (until.how == deadline::kind::until) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until.at - std::chrono::steady_clock::now());
      limit = static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, 3'600'000));
    }
    const int ready = poll(files.data(), files.size(), limit);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw transport_error("poll: " + system_message(errno));
    if (until.polling() || late) return false;
  }
}

inline bool poll_until(int file, short events, const deadline& until) {
  pollfd one{file, events, 0};
  return poll_until(std::span(&one, 1), until);
}

/// One end of a connection, or where one listens.
struct socket_address {
  sockaddr_storage address{};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  /// "10.0.0.1:29500", "[::1]:29500"
  std::string text() const {
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> port{};
    if (getnameinfo(get(), bytes, host.data(), host.size(), port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) return "?";
    return (address.ss_family == AF_INET6 ? "[" + std::string(host.data()) + "]" : std::string(host.data())) + ":" + port.data();
  }
};

struct host_and_port {
  std::string host, port;
};

/// Of "host:port" or "[::1]:port".
inline host_and_port split_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon), port = colon == text.npos ? "" : text.substr(colon + 1);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool digits =
      !port.empty() && port.size() <= 5 && std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (host.empty() || (!bracketed && host.find(':') != host.npos) || !digits || std::stoi(port) > 65535)
    throw usage_error("\"" + text + "\" is no address; write host:port, with an IPv6 address as [::1]:29500");
  return {host, port};
}

/// What a name stands for. None: `why` says why not. The look-up itself is bounded by the system's resolver, not by a deadline.
inline std::vector<socket_address> resolve(const host_and_port& at, int flags, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(at.host.c_str(), at.port.c_str(), &hints, &found);
  if (failed != 0) {
    why = "the host name " + at.host + " is not known: " + (failed == EAI_SYSTEM ? system_message(errno) : gai_strerror(failed));
    return {};
  }
  std::vector<socket_address> all;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    socket_address e{.bytes = one->ai_addrlen};
    std::memcpy(&e.address, one->ai_addr, one->ai_addrlen);
    all.push_back(e);
  }
  freeaddrinfo(found);
  return all;
}

/// A listening socket; none: errno says why not.
inline descriptor listen_at(const socket_address& at) {
  descriptor file(socket(at.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1, off = 0;
  if (!file) return {};
  setsockopt(file.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // a port whose last user has just ended is free
  if (at.address.ss_family == AF_INET6) setsockopt(file.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  return bind(file.get(), at.get(), at.bytes) == 0 && listen(file.get(), SOMAXCONN) == 0 ? std::move(file) : descriptor{};
}

/// A listening socket for all of this host's addresses, IPv6 and IPv4, or IPv4 alone where the system has no IPv6.
inline descriptor listen_everywhere(std::uint16_t port) {
  socket_address any{.bytes = sizeof(sockaddr_in6)};
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  std::memcpy(&any.address, &six, sizeof six);
  if (descriptor file = listen_at(any); file || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)) return file;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  any = {.bytes = sizeof four};
  std::memcpy(&any.address, &four, sizeof four);
  return listen_at(any);
}

/// A connected socket; none: `why` says why not.
inline descriptor connect_to(const socket_address& to, const deadline& until, std::string& why) {
  descriptor file(socket(to.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  int error = 0;
  socklen_t bytes = sizeof error;
  if (!file || (connect(file.get(), to.get(), to.bytes) != 0 && errno != EINPROGRESS)) error = errno;
  else if (!poll_until(file.get(), POLLOUT, until)) error = ETIMEDOUT;
  else if (getsockopt(file.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error == 0) return file;
  why = to.text() + ": " + system_message(error);
  return {};
}

struct frame {
  std::uint32_t kind = 0, call = 0;
  std::string bytes{};
};

/// Frames in both directions.
class connection {
 public:
  enum class status { more, whole, gone, garbage };

  connection() = default;
  explicit connection(descriptor file) : file_(std::move(file)) {}
  int file() const { return file_.get(); }
  explicit operator bool() const { return static_cast<bool>(file_); }

  /// Takes what has come of a frame of at most `most` bytes, without waiting. Whole: `received()` has it.
  status receive(std::size_t most) {
    for (;;) {
      const std::size_t wanted = buffer_.size() < sizeof(head) ? sizeof(head) : sizeof(head) + head_.bytes;
      if (buffer_.size() == wanted) return whole();
      const std::size_t had = buffer_.size();
      buffer_.resize(wanted);
      const ssize_t got = recv(file_.get(), buffer_.data() + had, wanted - had, 0);
      buffer_.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return status::more;
      if (got <= 0) return status::gone;
      if (buffer_.size() != sizeof(head)) continue;
      std::memcpy(&head_, buffer_.data(), sizeof(head));
      if (head_.magic != mark || head_.bytes > most) return status::garbage;
    }
  }

  /// The same, waiting; `more` if the deadline has passed.
  status receive(std::size_t most, const deadline& until) {
    for (;;) {
      if (const status s = receive(most); s != status::more) return s;
      if (!poll_until(file_.get(), POLLIN, until)) return status::more;
    }
  }

  const frame& received() const { return received_; }

  /// False: the other end has gone, or the deadline has passed.
  bool send(const frame& what, const deadline& until) {
    const head h{.magic = mark, .kind = what.kind, .call = what.call, .bytes = static_cast<std::uint32_t>(what.bytes.size())};
    std::string all(sizeof h, '\0');
    std::memcpy(all.data(), &h, sizeof h);
    all += what.bytes;
    for (std::size_t sent = 0; sent < all.size();) {
      const ssize_t took = ::send(file_.get(), all.data() + sent, all.size() - sent, MSG_NOSIGNAL);
      if (took > 0) sent += static_cast<std::size_t>(took);
      else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!poll_until(file_.get(), POLLOUT, until)) return false;
      } else if (errno != EINTR) return false;
    }
    return true;
  }

 private:
  static constexpr std::array<char, 8> mark = {'g', 'r', 'a', 'd', 's', 'y', 'n', '1'};
  struct head {
    std::array<char, 8> magic{};
    std::uint32_t kind = 0, call = 0, bytes = 0;
  };

  status whole() {
    received_ = {head_.kind, head_.call, buffer_.substr(sizeof(head))};
    buffer_.clear();
    head_ = {};
    return status::whole;
  }

  descriptor file_;
  std::string buffer_;  // of the frame that is coming
  head head_;
  frame received_;
};

}  // namespace gradsync::detail
