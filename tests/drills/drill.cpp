// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// How a drill is done; by itself, since it takes ten times as long to compile as the tests that say which drills to do.
#include "tests/drills/drill.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "gradsync/collective/collective.hpp"
#include "gradsync/collective/direct.hpp"
#include "gradsync/collective/double_tree.hpp"
#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/hierarchical.hpp"
#include "gradsync/collective/recursive_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"
#include "gradsync/comm/threads.hpp"
#include "gradsync/synchronizer.hpp"
#include "tests/laws/sanitized.hpp"
#include "tests/sync/models.hpp"

namespace drills {
namespace {

using communicator = faulty<thread_communicator>;

struct strategy_entry {
  const char* name;
  collective<communicator> (*on)(communicator&);
  int (*rounds)(int size);  // in which a fault may strike
};
template <class Strategy>
strategy_entry entry() {
  return {Strategy{}.name(),
          [](communicator& comm) {
            return collective{comm, Strategy{}};
          },
          [](int size) {
            const program steps = compile(Strategy{}, 0, size);
            return steps.fused ? 1 : steps.rounds();
          }};
}
// A hierarchy of pairs where there are any, else of groups of one.
struct in_pairs {
  static constexpr auto of(int size) { return hierarchical<ring, halving_doubling>{.group = size % 2 == 0 ? 2 : 1}; }

  constexpr const char* name() const { return "in_pairs"; }
  constexpr level claim(int size) const { return of(size).claim(size); }
  constexpr int chunks(int size) const { return of(size).chunks(size); }
  constexpr int rounds(int size) const { return of(size).rounds(size); }
  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    of(size).round(k, rank, size, post);
  }
};

// A new strategy is one line here, and has all drills.
const std::vector<strategy_entry> strategies = {
    entry<native>(), entry<ring>(),        entry<tree>(),     entry<halving_doubling>(), entry<recursive_doubling>(),
    entry<direct>(), entry<double_tree>(), entry<in_pairs>(),
};

constexpr auto long_deadline = std::chrono::seconds(600), short_deadline = std::chrono::seconds(500);  // and a delay within it

std::atomic<std::int64_t> seconds_passed{0};
std::chrono::steady_clock::time_point still_clock() {
  return std::chrono::steady_clock::time_point{} + std::chrono::seconds(seconds_passed.load());
}

// What the ranks of a drill tell each other behind the library's back.
struct board {
  explicit board(int ranks) : busy(static_cast<std::size_t>(ranks)), told(busy.size()), wrong(busy.size()), hashes(busy.size()) {}

  std::atomic<bool> struck{false};                 // the victim, in its own code
  std::vector<std::atomic<unsigned>> busy;         // by rank: even while its thread is not in finish(), nor at its end
  std::vector<std::string> told, wrong;            // by rank: its error, and what was not as promised
  std::vector<std::vector<std::uint64_t>> hashes;  // by rank, of each finished update's gradients
};

std::uint64_t hash_of(const test::layers& net, std::vector<float> test::param::*part) {
  std::uint64_t hash = 0;
  for (const test::param& p : net.layer)
    for (float x : p.*part) hash = (hash ^ std::bit_cast<std::uint32_t>(x)) * 0x100000001b3;
  return hash;
}

// Turns the clock on when the victim has been struck and no other rank can go on: past the deadline, or past the delay. Two looks at all
// calling threads with one look at all sleepers between them: nobody did anything in that moment, and so nobody will.
class referee {
 public:
  referee(const drill& d, const thread_communicator& own, const communicator& comm, board& all) {
    if (own.rank() != d.victim || !d.takes_time() || d.real_clock) return;
    thread_ = std::thread([this, &d, &own, &comm, &all] {
      // The victim's fault holds one thread; where it has two, the other one must have come to rest as well.
      const bool watched = d.progress == progress::thread && !d.holds_the_caller();
      const auto looks = [&] {
        std::vector<unsigned> seen;
        for (int rank = 0; rank < d.ranks; ++rank)
          seen.push_back(rank == d.victim && !watched ? 1 : all.busy[static_cast<std::size_t>(rank)].load());
        return seen;
      };
      const auto stuck = [&] {
        const std::vector<unsigned> before = looks();
        for (unsigned epoch : before)
          if (epoch % 2 == 0) return false;
        return own.others_wait() && looks() == before;
      };
      const auto begin = std::chrono::steady_clock::now();
      while (!over_ && !((comm.held() || all.struck) && stuck())) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        if (std::chrono::steady_clock::now() - begin < std::chrono::minutes(2)) continue;
        std::fprintf(stderr, "a drill hangs. %s\n", d.text().c_str());
        std::abort();
      }
      if (over_) return;
      seconds_passed += (d.what == trouble::delay ? short_deadline : long_deadline).count();
      own.clock_moved();
    });
  }
  ~referee() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

struct broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The victim's own code goes wrong. True: it returns.
bool own_trouble(const drill& d, const thread_communicator& own, board& all) {
  const auto begin = own.now();
  all.struck = true;
  if (d.what == trouble::exception) throw broken("disk full");
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::microseconds(50)); };
  if (d.what == trouble::delay)
    while (own.now() - begin < short_deadline && !own.failed()) pause();
  if (d.what == trouble::freeze)
    while (!own.failed()) pause();
  return d.what == trouble::early_return;
}

fault_plan plan_of(const drill& d) {
  if (d.in_user_code) return {};
  constexpr fault faults[] = {fault::none, fault::delay, fault::freeze, fault::drop, fault::kill, fault::kill};
  return {.what = faults[static_cast<int>(d.what)],
          .rank = d.victim,
          .collective = static_cast<std::uint64_t>(d.update) * d.counts.size() + d.bucket,
          .round = d.round,
          .delay = short_deadline};
}

// One update of one rank. False: it returns early.
template <class Sync>
bool update(const drill& d, int number, const thread_communicator& own, test::layers& net, Sync& sync, board& all) {
  const auto rank = static_cast<std::size_t>(own.rank());
  for (std::size_t bucket = 0; bucket < d.counts.size(); ++bucket) {
    test::param& p = net.layer[d.counts.size() - 1 - bucket];
    p.grad.resize(p.value.size());
    std::uint64_t random = laws::mixed(d.counts[0] + 1000 * bucket + 100 * rank + static_cast<std::size_t>(number));
    for (float& x : p.grad) x = static_cast<float>((random = random * 6364136223846793005 + 1442695040888963407) >> 40) * 1e-3f;
    if ((d.seed + random) % 4 == 0) std::this_thread::yield();
    if (own.rank() == d.victim && number == d.update && bucket == d.bucket) {
      const bool at_rest = bucket > 0 && d.progress == progress::thread && d.holds_the_caller() && d.takes_time();  // see the referee
      while (at_rest && sync.completed_buckets() != bucket && !own.failed()) std::this_thread::yield();
      if (d.in_user_code && own_trouble(d, own, all)) return false;
    }
    sync.mark_ready(p);
  }
  ++all.busy[rank];
  sync.finish();
  ++all.busy[rank];
  all.hashes[rank].push_back(hash_of(net, &test::param::grad));
  for (test::param& p : net.layer)
    for (std::size_t i = 0; i < p.value.size(); ++i) p.value[i] -= p.grad[i];
  return true;
}

// After an error: the values are those of before the update, and whatever is asked of the synchronizer, it says why not.
template <class Sync>
void look_back(const std::string& why, std::uint64_t values, test::layers& net, Sync& sync, std::string& wrong) {
  if (hash_of(net, &test::param::value) != values) wrong += "values changed; ";
  const auto refuses = [&](const char* what, auto&& call) {
    try {
      call();
      wrong += std::string(what) + " went through; ";
    } catch (const std::exception& e) {
      if (why != e.what()) wrong += std::string(what) + " says \"" + e.what() + "\" after \"" + why + "\"; ";
    }
  };
  refuses("begin()", [&] { sync.begin(); });
  refuses("mark_ready()", [&] { sync.mark_ready(net.layer[0]); });
  refuses("mark_all_ready()", [&] { sync.mark_all_ready(); });
  refuses("finish()", [&] { sync.finish(); });
  refuses("contribute_nothing()", [&] { sync.contribute_nothing(); });
}

// The function of one rank. Its model is on the heap: freed when the rank unwinds.
void train(const drill& d, thread_communicator& own, board& all) {
  const auto rank = static_cast<std::size_t>(own.rank());
  const auto net = std::make_unique<test::layers>(test::make_layers(d.counts));
  for (test::param& p : net->layer) p.value.assign(p.value.size(), static_cast<float>(rank) + 0.1f);
  communicator comm{own};
  const referee watches(d, own, comm, all);
  synchronizer sync{
      *net, strategies[d.strategy].on(comm), {.bucket_bytes = 0, .layout = d.layout, .progress = d.progress, .replan = replan::never}};
  comm.plan(plan_of(d));
  std::uint64_t values = 0;
  try {
    for (int number = 0; number < updates; ++number) {
      values = hash_of(*net, &test::param::value);
      if (!update(d, number, own, *net, sync, all)) return;
    }
  } catch (const rank_killed&) {
    if (hash_of(*net, &test::param::value) != values) all.wrong[rank] += "values changed; ";
    if (d.what == trouble::early_return) return;
    throw;
  } catch (const error& e) {
    all.told[rank] = e.what();
    // A rank that is struck in a mark, where the transport must not throw, learns of the failure in its next call only.
    if (own.rank() != d.victim) look_back(e.what(), values, *net, sync, all.wrong[rank]);
    throw;
  }
}

// What all ranks end with: "" for nothing, or the kind of the error that run() throws.
std::string kind_of_end(const drill& d, board& all) {
  const auto limit = d.real_clock ? std::chrono::nanoseconds(std::chrono::milliseconds(250)) : std::chrono::nanoseconds(long_deadline);
  try {
    thread_group(d.ranks, {.deadline = limit, .clock = d.real_clock ? std::chrono::steady_clock::now : still_clock}).run([&](auto& own) {
      struct at_end {
        std::atomic<unsigned>& busy;
        ~at_end() { busy |= 1; }
      } const sets{all.busy[static_cast<std::size_t>(own.rank())]};
      try {
        train(d, own, all);
      } catch (const error& e) {  // another rank may be struck while this one still makes its synchronizer
        if (std::string& told = all.told[static_cast<std::size_t>(own.rank())]; told.empty()) told = e.what();
        throw;
      }
    });
    return "";
  } catch (const rank_killed&) {
    return "killed";
  } catch (const broken&) {
    return "broken";
  } catch (const timeout_error&) {
    return "timeout";
  } catch (const transport_error&) {
    return "transport";
  } catch (const std::exception& e) {
    return e.what();
  }
}

// The hashes of the gradients of all updates, without any trouble.
const std::vector<std::uint64_t>& right_hashes(const drill& d) {
  static std::map<std::pair<std::pair<int, std::size_t>, std::vector<std::size_t>>, std::vector<std::uint64_t>> known;
  std::vector<std::uint64_t>& hashes = known[{{d.ranks, d.strategy}, d.counts}];
  if (hashes.empty()) {
    const drill calm{.ranks = d.ranks, .strategy = d.strategy, .counts = d.counts};
    board all(d.ranks);
    CHECK(kind_of_end(calm, all) == "");
    for (const auto& one : all.hashes) CHECK(one == all.hashes[0]);
    hashes = all.hashes[0];
    CHECK(hashes.size() == updates);
  }
  return hashes;
}

}  // namespace

std::size_t strategy_count() { return strategies.size(); }
int rounds_of(std::size_t strategy, int ranks) { return strategies[strategy].rounds(ranks); }

std::string drill::text() const {
  return "GRADSYNC_DRILL_SEED=" + std::to_string(seed) + " replays it: " + name_of(what) + " of rank " + std::to_string(victim) + " of " +
         std::to_string(ranks) + " in update " + std::to_string(update) + ", bucket " + std::to_string(bucket) +
         (in_user_code ? ", before its mark, " : ", round " + std::to_string(round) + ", ") + strategies[strategy].name +
         (progress == progress::thread ? ", thread" : ", at_marks") + (layout == layout::packed ? ", packed" : "");
}

void perform(const drill& d) {
  const std::vector<std::uint64_t>& right = right_hashes(d);
  board all(d.ranks);
  const std::string end = kind_of_end(d, all), name = "rank " + std::to_string(d.victim);
  std::string wrong;
  const bool stops = d.what == trouble::freeze || d.what == trouble::drop;
  const char* expected = d.what == trouble::delay                          ? ""
                         : stops                                           ? "timeout"
                         : d.what == trouble::exception && !d.in_user_code ? "killed"
                         : d.what == trouble::exception                    ? "broken"
                                                                           : "transport";
  // Who returns early may have told of its death in the driving thread.
  if (end != expected && !(d.what == trouble::early_return && !d.in_user_code && end == "killed"))
    wrong += "run() ended with \"" + end + "\"; ";
  for (std::size_t rank = 0; rank < all.told.size(); ++rank) {
    const std::string& told = all.told[rank];
    const auto says = [&](const std::string& part) { return told.find(part) != told.npos; };
    wrong += all.wrong[rank];
    if (!std::equal(all.hashes[rank].begin(), all.hashes[rank].end(), right.begin())) wrong += "wrong bits; ";
    if (d.what == trouble::delay && (!told.empty() || all.hashes[rank].size() != right.size())) wrong += "ended with \"" + told + "\"; ";
    if (d.what == trouble::delay || (static_cast<int>(rank) == d.victim && !stops)) continue;
    const bool named = stops                          ? says(name + " did not come before the deadline of ")
                       : d.what == trouble::exception ? says(name + " failed: ") && says(d.in_user_code ? "disk full" : "killed in")
                                                      : says(name + " failed: ") || says(name + " has returned from its function");
    if (!named) wrong += "rank " + std::to_string(rank) + " was told \"" + told + "\"; ";
  }
  CHECK_MESSAGE(wrong.empty(), wrong, d.text());

  int sum = 0;
  thread_group(d.ranks).run([&](auto& comm) {
    const int mine = comm.all_reduce(comm.rank() + 1);
    if (comm.rank() == 0) sum = mine;
  });
  CHECK_MESSAGE(sum == d.ranks * (d.ranks + 1) / 2, "the next group is wrong. ", d.text());
}

bool chosen(std::uint64_t seed) {
  static const char* const only = std::getenv("GRADSYNC_DRILL_SEED");
  if (only != nullptr) return seed == std::strtoull(only, nullptr, 10);
  return !laws::sanitized || laws::mixed(seed) % 10 == 0;
}

}  // namespace drills
