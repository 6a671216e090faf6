// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A file that all hosts of a job see, in which rank 0 says where it listens: for jobs that know no address beforehand.
///
/// The file is called path.job. It appears as a whole (it is written under another name, with a nonce in it, and then linked to its own),
/// never in place of another: a file that is there already is a usage_error that names it. It goes when all processes have come; after a
/// crash before that it stays. The nonce is in the file too, and those who call show it, so what listens at the address of a file that was
/// left over is not taken for rank 0.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>  // nonces
#include <string>
#include <vector>

#include <ifaddrs.h>  // this host's addresses
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include "gradsync/comm/socket.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync::detail {

/// 64 random bits in hexadecimal.
inline std::string make_nonce() {
  std::random_device bits;
  char text[17];
  std::snprintf(text, sizeof text, "%08x%08x", bits(), bits());
  return text;
}

/// This host's addresses with that port, those that other hosts may know first.
inline std::vector<std::string> own_addresses(const std::string& port) {
  std::vector<std::string> others, loopback;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) throw transport_error("the addresses of this host cannot be listed: " + system_message(errno));
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    const bool six = one->ifa_addr->sa_family == AF_INET6;
    if (!six && one->ifa_addr->sa_family != AF_INET) continue;
    socket_address e{.bytes = six ? socklen_t{sizeof(sockaddr_in6)} : socklen_t{sizeof(sockaddr_in)}};
    std::memcpy(&e.address, one->ifa_addr, e.bytes);
    const std::string text = e.text(), host = text.substr(0, text.rfind(':'));
    if (host.find('%') != host.npos) continue;  // means nothing on another host
    ((one->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : others).push_back(host + ":" + port);
  }
  freeifaddrs(all);
  others.insert(others.end(), loopback.begin(), loopback.end());
  return others;
}

class address_file {
 public:
  struct content {
    std::string nonce;
    std::vector<std::string> addresses;
  };

  address_file(const std::string& path, std::string job) : name_(path) {
    for (char& c : job)
      if (c == '/') c = '_';
    if (!job.empty()) name_ += "." + job;
  }
  address_file(const address_file&) = delete;
  address_file& operator=(const address_file&) = delete;
  ~address_file() {
    if (written_) unlink(name_.c_str());
  }

  const std::string& name() const { return name_; }

  /// Once, by rank 0. This object's end takes the file away.
  void write(const content& what) {
    const std::string draft = name_ + "." + what.nonce;
    errno = 0;
    std::ofstream file(draft);
    file << first_word << what.nonce << '\n';
    for (const std::string& address : what.addresses) file << address << '\n';
    file << last_word << std::flush;
    int failed = file ? 0 : std::max(errno, 1);
    file.close();
    if (failed == 0 && ::link(draft.c_str(), name_.c_str()) != 0) failed = errno;
    unlink(draft.c_str());
    written_ = failed == 0;
    if (failed == EEXIST)
      throw usage_error("the file " + name_ + " is there already: remove it if it was left over, or give each job a name of its own");
    if (!written_) throw usage_error("the file " + name_ + " cannot be written: " + system_message(failed));
  }

  /// None if it is not there yet, or is no such file.
  std::optional<content> read() const {
    std::ifstream file(name_);
    content found;
    std::string line;
    if (!std::getline(file, line) || !line.starts_with(first_word)) return std::nullopt;
    found.nonce = line.substr(std::string(first_word).size());
    while (std::getline(file, line) && line != last_word) found.addresses.push_back(line);
    return line == last_word ? std::optional(found) : std::nullopt;
  }

 private:
  static constexpr const char* first_word = "gradsync meets here, nonce ";
  static constexpr const char* last_word = "end";

  std::string name_;
  bool written_ = false;
};

}  // namespace gradsync::detail
