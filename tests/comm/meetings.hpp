// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Rendezvous between threads, for tests: a free port, and what became of each rank.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "gradsync/comm/rendezvous.hpp"

namespace gradsync::meetings {

/// Nobody listens there, for the time being.
inline int free_port() {
  const detail::descriptor file = detail::listen_everywhere(0);
  sockaddr_in6 at{};
  socklen_t bytes = sizeof at;
  getsockname(file.get(), reinterpret_cast<sockaddr*>(&at), &bytes);
  return ntohs(at.sin6_port);
}

inline std::string free_address(const std::string& host = "127.0.0.1") { return host + ":" + std::to_string(free_port()); }

/// Returns when somebody listens there.
inline void await_listener(const std::string& address) {
  std::string why;
  const detail::socket_address at = detail::resolve(detail::split_address(address), AI_NUMERICHOST, why)[0];
  while (!detail::connect_to(at, deadline::after(std::chrono::seconds(10)), why)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

struct group {
  int size;
  std::string address;
  std::string job{};
  std::chrono::nanoseconds limit = std::chrono::seconds(60);
};

inline launch member(const group& g, int rank) { return {.rank = rank, .size = g.size, .job = g.job, .address = g.address}; }

/// Calls `f(rendezvous)` on a thread a rank; each rank's error, or nothing. Ranks in `absent` do not come.
template <class F>
std::vector<std::string> meet(const group& g, F f, const std::vector<int>& absent = {}) {
  std::vector<std::string> errors(static_cast<std::size_t>(g.size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < g.size; ++rank) {
    bool comes = true;
    for (const int a : absent) comes = comes && a != rank;
    if (comes)
      threads.emplace_back([&, rank] {
        try {
          rendezvous here(member(g, rank), g.limit);
          f(here);
        } catch (const std::exception& e) {
          errors[static_cast<std::size_t>(rank)] = e.what();
        }
      });
  }
  for (std::thread& t : threads) t.join();
  return errors;
}

}  // namespace gradsync::meetings
