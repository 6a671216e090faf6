// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Where the processes of a job meet before they have a transport: each gives a small string of bytes, all get those of all. That carries
/// what a transport needs to begin: NCCL's unique id, the hosts and devices of the ranks, what must be alike at the start.
///
/// Rank 0 listens, the others come to it. Where, `launch::address` says:
///     host:port     MASTER_ADDR and MASTER_PORT, or GRADSYNC_ADDRESS. A name, IPv4 or [IPv6]; rank 0 listens at the very address, or, for
///                   a name, at all of its host's.
///     file:/path    a file that all hosts see: rank 0 takes any port and writes there where it is (comm/address_file.hpp).
/// Who comes too early tries again until the deadline. Each says job, rank and size: another job at that address is told so and goes on
/// trying, and whoever sends garbage is not listened to. Two jobs at one address need names (launcher, GRADSYNC_JOB, or `.job`): without
/// them nobody can tell their ranks apart. All travels as it is, and nobody proves who they are: for networks that you trust.
///
/// A call is one message from each rank to rank 0 and one back: meant for the start, not for gradients. The first error is final.
///
///     gradsync::rendezvous meet{gradsync::find_launch()};
///     const std::string id = meet.broadcast(meet.rank() == 0 ? make_id() : "");
///     const std::vector<std::string> devices = meet.all_gather(uuid_of(device));
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>  // sleeps between two tries
#include <utility>
#include <vector>

#include "gradsync/comm/address_file.hpp"
#include "gradsync/comm/call.hpp"
#include "gradsync/comm/launch.hpp"
#include "gradsync/comm/rendezvous_server.hpp"
#include "gradsync/comm/socket.hpp"
#include "gradsync/core/deadline.hpp"
#include "gradsync/core/error.hpp"

namespace gradsync {

class rendezvous {
 public:
  static constexpr std::size_t most_bytes = detail::most_given;  ///< that a rank may give in one call

  /// Returns when all processes have come; one alone needs no address. `limit`: of this and of each later call; as rank 0 knows best who is
  /// missing, the others wait for it a quarter longer, at most two seconds. Throws `usage_error`, `mismatch_error` (another size, or a rank
  /// that is there already), `timeout_error`, `transport_error` (a process has gone).
  explicit rendezvous(launch me, std::chrono::nanoseconds limit = std::chrono::minutes(10)) : me_(std::move(me)), limit_(limit) {
    if (me_.size == 1) return;
    locating([&] { return here(); },
             [&] {
               if (me_.address.empty())
                 throw usage_error("nobody has said where the " + std::to_string(me_.size) +
                                   " processes meet; set MASTER_ADDR and MASTER_PORT, or GRADSYNC_ADDRESS");
               if (me_.job.size() > detail::most_said / 2) throw usage_error("the job's name has more than 512 bytes");
               const deadline until = deadline::after(limit_);
               me_.rank == 0 ? static_cast<void>(server_ = std::make_unique<detail::rendezvous_server>(me_, until)) : come(until);
             });
  }
  rendezvous(const rendezvous&) = delete;
  rendezvous& operator=(const rendezvous&) = delete;

  int rank() const { return me_.rank; }
  int size() const { return me_.size; }

  /// What each rank gives, by rank. All ranks make the same calls in the same order.
  std::vector<std::string> all_gather(std::string_view mine) { return exchange(mine, detail::call_to_all_gather); }

  /// The root's; what the others give is not looked at.
  std::string broadcast(std::string_view mine, int root = 0) {
    detail::expect_root(root, size(), here());
    return exchange(rank() == root ? mine : std::string_view(), detail::call_to_broadcast(root))[static_cast<std::size_t>(root)];
  }

  /// Returns when every rank has called it.
  void barrier() { all_gather({}); }

 private:
  using status = detail::connection::status;
  using word = detail::word;

  place here() const { return {.rank = me_.rank, .step = -1, .bucket = -1, .parameter = {}}; }

  deadline a_little_after(deadline until) const {
    const auto more = std::clamp<std::chrono::nanoseconds>(limit_ / 4, std::chrono::milliseconds(50), std::chrono::seconds(2));
    if (until.how == deadline::kind::until) until.at += std::chrono::duration_cast<std::chrono::steady_clock::duration>(more);
    return until;
  }

  // Until rank 0 has been found, and has said that all are there.
  void come(const deadline& until) {
    std::string why = "nobody listens there";
    for (auto pause = std::chrono::milliseconds(10);; pause = std::min(2 * pause, std::chrono::milliseconds(500))) {
      for (const detail::socket_address& at : candidates(why))
        if (welcomed_at(at, until, why)) {
          if (expect(word::start, a_little_after(until), "the start")) return;
          why = at.text() + " has hung up";
        }
      if (until.how == deadline::kind::until && deadline::after(pause).at >= until.at)
        throw timeout_error("rank 0 was not found at " + me_.address + " before the deadline of " + until.text() + ": " + why);
      std::this_thread::sleep_for(pause);
    }
  }

  // Where rank 0 may be.
  std::vector<detail::socket_address> candidates(std::string& why) {
    const std::string path = detail::path_of_file(me_.address);
    if (path.empty()) return detail::resolve(detail::split_address(me_.address), 0, why);
    const detail::address_file published(path, me_.job);
    const auto found = published.read();
    if (!found) why = "rank 0 has not written the file " + published.name();
    if (!found) return {};
    nonce_ = found->nonce;
    std::vector<detail::socket_address> all;
    for (const std::string& address : found->addresses)
      for (const detail::socket_address& at : detail::resolve(detail::split_address(address), AI_NUMERICHOST, why)) all.push_back(at);
    return all;
  }

  bool welcomed_at(const detail::socket_address& at, const deadline& until, std::string& why) {
    const deadline soon = detail::sooner(until, detail::answer_limit);
    detail::connection c(detail::connect_to(at, soon, why));
    if (!c || !c.send(detail::frame_of(word::hello, detail::text_of_hello(me_, nonce_)), soon)) return false;
    const status s = c.receive(detail::most_said, soon);
    const detail::frame& answer = c.received();
    if (s != status::whole) {
      why = at.text() + (s == status::more ? " does not answer" : s == status::gone ? " hangs up" : " answers with something else");
    } else if (says(answer, word::refused)) {
      why = answer.bytes + ", this is " + detail::name_of_job(me_.job);
    } else if (says(answer, word::welcome)) {
      to_rank_0_ = std::move(c);
      return true;
    } else {
      detail::throw_as(static_cast<word>(answer.kind), answer.bytes);
    }
    return false;
  }

  // The next word of rank 0, which is the wanted one. False: rank 0 has gone without any.
  bool expect(word wanted, const deadline& until, const std::string& what) {
    const status s = to_rank_0_.receive(static_cast<std::size_t>(me_.size) * (most_bytes + sizeof(std::uint32_t)), until);
    if (s == status::more) throw timeout_error("rank 0 has not answered to " + what + " before the deadline of " + until.text());
    if (s != status::whole) return false;
    if (!says(to_rank_0_.received(), wanted)) detail::throw_as(static_cast<word>(to_rank_0_.received().kind), to_rank_0_.received().bytes);
    return true;
  }

  std::vector<std::string> exchange(std::string_view mine, std::uint32_t call) {
    if (mine.size() > most_bytes)
      throw usage_error("a rendezvous is for strings of up to " + std::to_string(most_bytes) + " bytes, not " + std::to_string(mine.size()),
                        here());
    if (me_.size == 1) return {std::string(mine)};
    if (failed_) throw transport_error("the rendezvous has failed before", here());
    failed_ = true;
    const deadline until = deadline::after(limit_);
    auto all = locating([&] { return here(); }, [&] { return server_ ? server_->exchange(mine, call, until) : ask(mine, call, until); });
    failed_ = false;
    return all;
  }

  std::vector<std::string> ask(std::string_view mine, std::uint32_t call, const deadline& until) {
    const std::string gone = "rank 0 has gone from the rendezvous at " + me_.address;
    to_rank_0_.send(detail::frame_of(word::given, std::string(mine), call), until);  // if that fails, rank 0 may have said why before
    if (!expect(word::gathered, a_little_after(until), detail::name_of_meeting_call(call))) throw transport_error(gone);
    std::string_view rest = to_rank_0_.received().bytes;
    std::vector<std::string> all;
    for (int r = 0; r < me_.size; ++r) {
      std::uint32_t bytes = 0;
      if (rest.size() < sizeof bytes) throw transport_error(gone);
      std::memcpy(&bytes, rest.data(), sizeof bytes);
      all.emplace_back(rest.substr(sizeof bytes, bytes));
      rest.remove_prefix(std::min(rest.size(), sizeof bytes + bytes));
    }
    return all;
  }

  launch me_;
  std::chrono::nanoseconds limit_;
  std::string nonce_;                                  // of the job's file; empty without one
  std::unique_ptr<detail::rendezvous_server> server_;  // of rank 0
  detail::connection to_rank_0_;                       // of the others
  bool failed_ = false;
};

}  // namespace gradsync
