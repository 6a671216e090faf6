// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Rank 0's side of a rendezvous: lets the others in, gathers what each gives, and tells all.
///
/// The words between the two sides, each a frame (comm/socket.hpp):
///     hello     to rank 0    rank, size, nonce and job of who has come, as text
///     welcome   from rank 0  it is one of us
///     refused   from rank 0  it is not, in words; it may try again, as the place may become its job's later
///     start     from rank 0  all have come
///     given     to rank 0    what a rank gives in a call; the frame says which call
///     gathered  from rank 0  what all have given
///     mismatch, late, lost   from rank 0: the rendezvous has failed, in words, which each throws as the error of that name
///
/// Nobody is waited for alone: rank 0 polls all connections at once, strangers that have not said hello included.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>  // sleeps between two tries
#include <utility>
#include <vector>

#include "gradsync/comm/address_file.hpp"
#include "gradsync/comm/launch.hpp"
#include "gradsync/comm/socket.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync::detail {

enum class word : std::uint32_t { hello, welcome, refused, start, given, gathered, mismatch, late, lost };

inline frame frame_of(word what, std::string bytes = {}, std::uint32_t call = 0) {
  return {static_cast<std::uint32_t>(what), call, std::move(bytes)};
}
inline bool says(const frame& f, word what) { return f.kind == static_cast<std::uint32_t>(what); }

[[noreturn]] inline void throw_as(word what, const std::string& text) {
  if (what == word::mismatch) throw mismatch_error(text);
  if (what == word::late) throw timeout_error(text);
  throw transport_error(text);
}

inline std::string text_of_hello(const launch& me, const std::string& nonce) {
  return std::to_string(me.rank) + " " + std::to_string(me.size) + " " + (nonce.empty() ? "-" : nonce) + " " + me.job;
}
inline std::string name_of_job(const std::string& job) { return job.empty() ? "a job without a name" : "job " + job; }

// What a rank may give in one call, and what is said before a rank is known.
inline constexpr std::size_t most_given = 4096, most_said = 1024;

// How long to wait for an answer, or for a port that somebody else still has.
inline constexpr std::chrono::seconds answer_limit{5};
inline deadline sooner(const deadline& until, std::chrono::nanoseconds limit) {
  const deadline other = deadline::after(limit);
  return until.how == deadline::kind::until && until.at < other.at ? until : other;
}

inline std::string path_of_file(const std::string& address) {
  constexpr std::string_view begin = "file:";
  return address.starts_with(begin) ? address.substr(begin.size()) : std::string();
}

inline constexpr std::uint32_t call_to_all_gather = 0;
constexpr std::uint32_t call_to_broadcast(int root) { return 1 + static_cast<std::uint32_t>(root); }
inline std::string name_of_meeting_call(std::uint32_t call) {
  return call == call_to_all_gather ? "all_gather" : "broadcast from rank " + std::to_string(call - 1);
}

class rendezvous_server {
 public:
  /// Returns when all have come.
  rendezvous_server(const launch& me, const deadline& until) : me_(me), guests_(static_cast<std::size_t>(me.size)) {
    const std::string path = path_of_file(me_.address);
    address_file published(path, me_.job);
    const descriptor door = path.empty() ? open(sooner(until, answer_limit)) : open_any(published);
    std::vector<connection> strangers;
    while (!missing().empty()) {
      await(door, strangers, until);
      for (connection& c : guests_)  // who had come has given up, or has ended: it may come again
        if (c && c.receive(most_said) != connection::status::more) c = {};
      std::erase_if(strangers, [&](connection& c) { return heard(c); });
      let_in(door, strangers);
    }
    for (int r = 1; r < me_.size; ++r) guest(r).send(frame_of(word::start), until);
  }

  /// What each rank has given in this call, to all.
  std::vector<std::string> exchange(std::string_view mine, std::uint32_t call, const deadline& until) {
    std::vector<std::string> all = collect(call, until);
    all[0] = mine;
    std::string bytes;
    for (const std::string& one : all) {
      const auto count = static_cast<std::uint32_t>(one.size());
      bytes.append(reinterpret_cast<const char*>(&count), sizeof count);
      bytes += one;
    }
    for (int r = 1; r < me_.size; ++r)
      if (!guest(r).send(frame_of(word::gathered, bytes, call), until)) fail(word::lost, gone(r));
    return all;
  }

 private:
  connection& guest(int rank) { return guests_[static_cast<std::size_t>(rank)]; }
  std::string gone(int rank) const { return "rank " + std::to_string(rank) + " has gone from the rendezvous at " + me_.address; }

  // Tells those who are there, and throws.
  [[noreturn]] void fail(word how, const std::string& what) {
    for (connection& c : guests_)
      if (c) c.send(frame_of(how, what), deadline::poll());
    throw_as(how, what);
  }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int r = 1; r < me_.size; ++r)
      if (!guests_[static_cast<std::size_t>(r)]) ranks.push_back(r);
    return ranks;
  }

  static std::string names_of(const std::vector<int>& ranks) {
    constexpr std::size_t most = 8;
    const std::size_t shown = std::min(ranks.size(), most);
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
    return ranks.size() > shown ? text + " and " + std::to_string(ranks.size() - shown) + " more" : text;
  }

  descriptor open(const deadline& until) const {
    const host_and_port at = split_address(me_.address);
    std::string why;
    const auto numeric = resolve(at, AI_NUMERICHOST, why);
    for (;;) {
      descriptor door = numeric.empty() ? listen_everywhere(static_cast<std::uint16_t>(std::stoi(at.port))) : listen_at(numeric[0]);
      if (door) return door;
      const int error = errno;
      if (error == EADDRNOTAVAIL) throw usage_error(me_.address + " is no address of this host, on which rank 0 is");
      if (error != EADDRINUSE || until.passed(std::chrono::steady_clock::now))
        throw usage_error("rank 0 cannot listen at " + me_.address + ": " + system_message(error) +
                          (error == EADDRINUSE ? "; choose another port" : ""));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  descriptor open_any(address_file& published) {
    descriptor door = listen_everywhere(0);
    socket_address at{.bytes = sizeof(sockaddr_storage)};
    if (!door || getsockname(door.get(), reinterpret_cast<sockaddr*>(&at.address), &at.bytes) != 0)
      throw transport_error("rank 0 cannot listen: " + system_message(errno));
    const std::string text = at.text();
    nonce_ = make_nonce();
    published.write({nonce_, own_addresses(text.substr(text.rfind(':') + 1))});
    return door;
  }

  void await(const descriptor& door, const std::vector<connection>& strangers, const deadline& until) {
    std::vector<pollfd> files{{door.get(), POLLIN, 0}};
    for (const auto* some : {&strangers, &std::as_const(guests_)})
      for (const connection& c : *some)
        if (c) files.push_back({c.file(), POLLIN, 0});
    if (!poll_until(files, until))
      fail(word::late, names_of(missing()) + " did not come to " + me_.address + " before the deadline of " + until.text());
  }

  void let_in(const descriptor& door, std::vector<connection>& strangers) {
    while (descriptor file{accept4(door.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)}) {
      strangers.emplace_back(std::move(file));
      if (strangers.size() > guests_.size() + 256) strangers.erase(strangers.begin());  // who says nothing isn't kept for ever
    }
    if (errno == EMFILE || errno == ENFILE) fail(word::lost, "rank 0 cannot open more connections: " + system_message(errno));
  }

  // Whether a stranger is none any more: it is a guest now, or has been sent away.
  bool heard(connection& stranger) {
    const auto status = stranger.receive(most_said);
    if (status != connection::status::whole) return status != connection::status::more;
    const std::string& text = stranger.received().bytes;
    const std::size_t first = text.find(' '), second = first < text.size() ? text.find(' ', first + 1) : text.npos;
    if (!says(stranger.received(), word::hello) || second == text.npos) return true;
    const auto rank = whole_number(std::string_view(text).substr(0, first));
    const auto size = whole_number(std::string_view(text).substr(first + 1, second - first - 1));
    if (!rank || !size) return true;
    launch theirs = me_;
    theirs.rank = *rank, theirs.size = *size;
    if (text == text_of_hello(theirs, nonce_)) {
      welcome(stranger, *rank, *size);
    } else {
      const bool other_run = text.ends_with(" " + me_.job);  // it has read an old file
      stranger.send(frame_of(word::refused, (other_run ? "another run of " : "") + name_of_job(me_.job) + " meets there"),
                    deadline::poll());
    }
    return true;
  }

  // Somebody of this job.
  void welcome(connection& one, int rank, int size) {
    const std::string name = "rank " + std::to_string(rank);
    if (size != me_.size) {
      const std::string text =
          name + " was started as one of " + std::to_string(size) + " processes, rank 0 as one of " + std::to_string(me_.size);
      one.send(frame_of(word::mismatch, text), deadline::poll());
      fail(word::mismatch, text);
    }
    if (rank < 1 || rank >= size || guest(rank))
      one.send(frame_of(word::mismatch, "another process has come to " + me_.address + " as " + name +
                                            "; give each process a rank of its own, and each job a name (GRADSYNC_JOB)"),
               deadline::poll());
    else if (one.send(frame_of(word::welcome), deadline::poll())) guest(rank) = std::move(one);
  }

  std::vector<std::string> collect(std::uint32_t call, const deadline& until) {
    std::vector<std::string> all(guests_.size());
    std::vector<int> left;
    for (int r = 1; r < me_.size; ++r) left.push_back(r);
    for (;;) {
      std::erase_if(left, [&](int r) { return has_given(r, call, all[static_cast<std::size_t>(r)]); });
      if (left.empty()) return all;
      std::vector<pollfd> files;
      for (const int r : left) files.push_back({guest(r).file(), POLLIN, 0});
      if (!poll_until(files, until))
        fail(word::late, names_of(left) + " did not call " + name_of_meeting_call(call) + " before the deadline of " + until.text());
    }
  }

  bool has_given(int rank, std::uint32_t call, std::string& what) {
    const auto status = guest(rank).receive(most_given);
    if (status == connection::status::more) return false;
    const frame& f = guest(rank).received();
    if (status != connection::status::whole || !says(f, word::given)) fail(word::lost, gone(rank));
    if (f.call != call)
      fail(word::mismatch, "rank " + std::to_string(rank) + " calls " + name_of_meeting_call(f.call) + ", rank 0 " +
                               name_of_meeting_call(call) + "; make the same calls in the same order on every rank");
    what = f.bytes;
    return true;
  }

  const launch& me_;
  std::string nonce_;               // of the job's file; empty without one
  std::vector<connection> guests_;  // by rank; nobody is at 0
};

}  // namespace gradsync::detail
