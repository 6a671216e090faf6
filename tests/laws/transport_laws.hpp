// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The laws of a transport, for those of the library and for yours. All they need is a way to run ranks: `run(size, body)` calls
/// `body(communicator)` on `size` ranks, in one process or in many, and returns when all have returned.
///
///     TEST_CASE("my transport obeys the laws") {
///       const auto run = [](int size, auto body) { my_group(size).run(body); };
///       gradsync::laws::communicator_laws(run);   // rank, size, the user's own values
///       gradsync::laws::channel_laws(run);        // several channels, several collectives, polling, threads
///       gradsync::laws::mean_laws(run);           // every strategy, with real numbers
///       gradsync::laws::failure_laws(run);        // where `run` also throws what the first failing rank threw
///     }
///
/// Nothing is shared between ranks: each makes the numbers of all others itself, and they compare results through the transport.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "gradsync/collective/compile.hpp"
#include "gradsync/collective/direct.hpp"
#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/recursive_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/run.hpp"
#include "gradsync/collective/tree.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"
#include "tests/laws/sanitized.hpp"
#include "tests/laws/scattered.hpp"
#include "tests/laws/strategies.hpp"

namespace gradsync::laws {

/// `f(program, canonical)` for a rank's program of each strategy.
template <class F>
void each_program(int rank, int size, F&& f) {
  const auto with = [&](const auto& s) { f(compile(s, rank, size), s.claim(size) == level::canonical); };
  with(native{});
  with(direct{});
  with(everyone_to_rank_0{});
  with(tree{.segments = 1});
  with(tree{.segments = 4});
  with(ring{});
  with(halving_doubling{});
  with(recursive_doubling{});
  with(everyone_joins{});
  with(handed_down{});
  with(beside<ring, recursive_doubling>{});
}

inline constexpr int all_strategies = 11;

/// Runs `f`, which lends memory to a channel. Where it throws, all ranks are told, and none is in the memory when the exception goes on.
template <class Comm, class Channel, class F>
void lending(Comm& comm, Channel& channel, F&& f) {
  try {
    f();
  } catch (...) {
    comm.fail(std::current_exception());
    channel.leave();
    throw;
  }
}

/// The same on all ranks?
template <class Comm>
bool agreed(Comm& comm, std::uint64_t value) {
  return comm.all_reduce(value, reduce_op::min) == comm.all_reduce(value, reduce_op::max);
}

template <class T>
std::uint64_t hash_of(const std::vector<T>& values) {
  std::uint64_t hash = values.size();
  for (T x : values) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &x, sizeof x);
    hash = mixed(hash ^ bits);
  }
  return hash;
}

// ---- the user's own values

template <class T, class Comm>
void all_reduce_law(Comm& comm, std::size_t n) {
  std::vector<std::vector<T>> inputs;
  for (int r = 0; r < comm.size(); ++r) inputs.push_back(numbers<T>(n, r, n));
  for (const reduce_op op : {reduce_op::sum, reduce_op::min, reduce_op::max}) {
    const auto apply = [op](T a, T b) {
      if (op == reduce_op::sum) return static_cast<T>(a + b);
      return op == reduce_op::min ? (b < a ? b : a) : (a < b ? b : a);
    };
    const scattered<T> buffer(inputs[detail::index(comm.rank())]);
    comm.all_reduce(std::span<T>(reinterpret_cast<T*>(buffer.view().extents[0].data), n), op);
    std::vector<T> expected(n);
    for (std::size_t i = 0; i < n; ++i) expected[i] = tree_of<T>([&](int r) { return inputs[detail::index(r)][i]; }, apply, 0, comm.size());
    const bool right = same_bits(buffer.values(), expected) && buffer.guards_intact();
    CHECK_MESSAGE(right, "operation ", static_cast<int>(op), " on ", n, " values of ", name_of(dtype_of<T>()));
  }
}

template <class T, class Comm>
void broadcast_law(Comm& comm, std::size_t n) {
  for (int root = 0; root < comm.size(); ++root) {
    const std::uint64_t seed = n + static_cast<std::uint64_t>(root);
    const auto mine = numbers<T>(seed, comm.rank(), n), expected = numbers<T>(seed, root, n);
    std::vector<T> values = mine;
    comm.broadcast(std::span<T>(values), root);
    const bool whole = same_bits(values, expected);
    CHECK_MESSAGE(whole, n, " values from rank ", root);
    const scattered<T> pieces(mine, pieces_of(n, seed + 10 * static_cast<std::uint64_t>(comm.rank())));
    comm.broadcast(pieces.view(), root);
    const bool in_pieces = same_bits(pieces.values(), expected) && pieces.guards_intact();
    CHECK_MESSAGE(in_pieces, n, " values in pieces from rank ", root);
  }
}

template <class Run>
void communicator_laws(Run&& run, int largest = sanitized ? 5 : 9) {
  for (int size = 1; size <= largest; ++size) {
    run(size, [size](auto& comm) {
      CHECK(comm.size() == size);
      CHECK((comm.rank() >= 0 && comm.rank() < size));
      CHECK(comm.all_reduce(std::uint32_t{1} << comm.rank()) == (std::uint32_t{1} << size) - 1);  // each rank once
      CHECK(comm.all_reduce(comm.rank(), reduce_op::max) == size - 1);
      CHECK(comm.all_reduce(-comm.rank(), reduce_op::min) == 1 - size);
      CHECK(comm.all_reduce(0.5) == 0.5 * size);
      for (int root = 0; root < size; ++root) CHECK(comm.broadcast(10 + comm.rank(), root) == 10 + root);
      for (int i = 0; i < 20; ++i) comm.barrier();
      comm.all_reduce(std::span<float>{});
      comm.broadcast(std::span<double>{}, size - 1);
      CHECK(comm.all_reduce(1) == size);

      const auto each_type = [&]<class... T>(std::type_identity<T>...) {
        for (const std::size_t n : {1u, 3u, 70u, 1000u}) (all_reduce_law<T>(comm, n), ...);
      };
      each_type(std::type_identity<std::int8_t>{}, std::type_identity<std::uint8_t>{}, std::type_identity<std::int32_t>{},
                std::type_identity<float>{}, std::type_identity<double>{});
      all_reduce_law<double>(comm, 40'000);
      for (const std::size_t n : {1u, 70u, 333u}) broadcast_law<std::uint8_t>(comm, n), broadcast_law<double>(comm, n);

      // A wrong call changes nothing.
      for (const int root : {-1, size}) try {
          comm.broadcast(1.5f, root);
          CHECK_MESSAGE(false, "there is no rank ", root);
        } catch (const usage_error& e) {
          CHECK(e.message() == "broadcast from rank " + std::to_string(root) + " of " + std::to_string(size));
          CHECK(e.where().rank == comm.rank());
        }
      CHECK(comm.all_reduce(2) == 2 * size);
    });
  }
}

// ---- collectives on channels

/// A rank's part in one mean, for rank, strategy and transport alike: what it lends, and what must come out.
template <class T>
struct mean_case {
  std::size_t count = 0;
  std::uint64_t seed = 1;
  numbers_kind kind = numbers_kind::reals;
  bool weighted = false;  ///< weights that are not exact in float, and whose sum depends on the order

  std::vector<T> input(int rank) const { return numbers<T>(seed, rank, count, kind); }
  double weight(int rank) const { return !weighted ? 1 : rank % 3 == 1 ? 3.0 : 0.1 + rank / 11.0; }
  /// A fused pass multiplies; elsewhere the caller has done so.
  double scale(int rank, bool fused) const { return fused ? weight(rank) : 1; }
  double total(int size) const {
    return tree_of<double>([&](int r) { return weight(r); }, [](double a, double b) { return a + b; }, 0, size);
  }
  scattered<T> lent(int rank) const { return scattered<T>(input(rank), pieces_of(count, seed + 100 * static_cast<std::uint64_t>(rank))); }

  /// One rank alone has no round in which to divide; only a fused pass does it.
  bool divided(const program& p) const { return p.fused || p.size > 1; }

  bool is_mean(const std::vector<T>& got, const program& p, bool canonical) const {
    if (got.size() != count) return false;
    std::vector<std::vector<T>> inputs;
    for (int r = 0; r < p.size; ++r) inputs.push_back(input(r));
    for (std::size_t i = 0; i < count; ++i) {
      T magnitude = 0;
      const auto leaf = [&](int r) {
        const T x = inputs[detail::index(r)][i];
        const double by = scale(r, p.fused);
        magnitude = std::max(magnitude, std::abs(x));
        if (by == 1) return x;
        volatile T product =
            static_cast<double>(static_cast<T>(by)) == by ? x * static_cast<T>(by) : static_cast<T>(static_cast<double>(x) * by);
        return static_cast<T>(product);
      };
      const T sum = tree_of<T>(
          leaf, [](T a, T b) { return a + b; }, 0, p.size);
      const double by = divided(p) ? total(p.size) : 1;
      const T mean = static_cast<T>(static_cast<double>(sum) / by);
      const double slack = canonical || kind == numbers_kind::integers
                               ? 0
                               : static_cast<double>(magnitude * std::numeric_limits<T>::epsilon()) * p.size * p.size / by;
      if (!(std::abs(static_cast<double>(got[i]) - static_cast<double>(mean)) <= slack)) return false;
    }
    return true;
  }
};

template <class T>
contribution part_of(const mean_case<T>& c, const scattered<T>& buffer, const program& p) {
  return {.buffer = buffer.view(), .scale = c.scale(p.rank, p.fused), .weight = c.weight(p.rank)};
}

template <class T, class Comm, class Channel>
void mean_law(Comm& comm, Channel& channel, const program& p, bool canonical, const mean_case<T>& c) {
  const scattered<T> buffer = c.lent(comm.rank());
  double total = 0;
  lending(comm, channel, [&] {
    cursor at{.place = channel.post(p, part_of(c, buffer, p))};
    CHECK(run(p, channel, at, comm.limit()));
    CHECK(channel.drain(p, at.place, comm.limit()));
    total = channel.total_weight(at.place);
  });
  INFO(p.name << " on " << p.size << " ranks, " << c.count << " elements, seed " << c.seed << (c.weighted ? ", weighted" : ""));
  CHECK(total == c.total(p.size));
  CHECK(buffer.guards_intact());
  const std::vector<T> result = buffer.values();
  CHECK(agreed(comm, p.size > 1 || p.fused ? hash_of(result) : 0));
  if (comm.rank() == static_cast<int>(c.seed) % p.size) CHECK(c.is_mean(result, p, canonical));  // the others have the same bits
}

template <class T, class Comm>
void mean_laws_of(Comm& comm) {
  const int size = comm.size();
  each_program(comm.rank(), size, [&](program p, bool canonical) {
    auto channel = comm.open(2);
    if constexpr (!fused_channel<decltype(channel)>) p.fused = false;
    std::uint64_t seed = static_cast<std::uint64_t>(p.rounds());
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{257}, std::size_t{801}})
      for (const bool weighted : {false, true})
        for (const numbers_kind kind : {numbers_kind::integers, numbers_kind::reals})
          mean_law<T>(comm, channel, p, canonical && (!weighted || !p.fused || kind == numbers_kind::reals),
                      {.count = count, .seed = ++seed, .kind = weighted && p.fused ? numbers_kind::reals : kind, .weighted = weighted});
    if (size == 3 || size == 4) {  // chunks of several pieces, the last one shorter
      const std::size_t count = 20'000 * static_cast<std::size_t>(p.chunks) - 777;
      mean_law<T>(comm, channel, p, canonical, {.count = count, .seed = ++seed, .weighted = true});
    }
  });
}

/// Every strategy gives the mean, to the bit if its order is canonical, with the same bits on all ranks in any case.
template <class Run>
void mean_laws(Run&& run, std::initializer_list<int> sizes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13}) {
  for (const int size : sizes)
    if (size <= 5 || !sanitized) run(size, [](auto& comm) { mean_laws_of<float>(comm), mean_laws_of<double>(comm); });
}

/// Several channels, and several collectives in each, advanced in turns that differ from rank to rank.
template <class Comm>
void interleaving_law(Comm& comm) {
  const int rank = comm.rank(), size = comm.size();
  auto a = comm.open(2), b = comm.open(1);
  program fused = compile(native{}, rank, size);
  if constexpr (!fused_channel<decltype(a)>) fused.fused = false;
  const program rounds = compile(ring{}, rank, size), other = compile(halving_doubling{}, rank, size);
  const mean_case<float> first{.count = 5000, .seed = 1}, second{.count = 7, .seed = 2, .weighted = true};
  const mean_case<double> third{.count = 20'011, .seed = 3, .kind = numbers_kind::integers};
  for (int repeat = 0; repeat < 8; ++repeat) {
    const auto x = first.lent(rank), y = second.lent(rank);
    const auto z = third.lent(rank);
    struct under_way {
      const program* p;
      decltype(a)* on;
      cursor at;
      bool ran = false, drained = false;
    };
    lending(comm, b, [&] {
      lending(comm, a, [&] {
        std::vector<under_way> all;
        all.push_back({&rounds, &a, {.place = a.post(rounds, part_of(first, x, rounds))}});
        all.push_back({&other, &b, {.place = b.post(other, part_of(third, z, other))}});
        all.push_back({&fused, &a, {.place = a.post(fused, part_of(second, y, fused))}});
        for (std::size_t done = 0, turn = static_cast<std::size_t>(rank + repeat); done < all.size(); ++turn) {
          under_way& one = all[turn % all.size()];
          if (one.drained) continue;
          // Within a channel collectives run in their order.
          if (&one == &all[2] && !all[0].ran) continue;
          if (!one.ran) one.ran = run(*one.p, *one.on, one.at, deadline::poll());
          if (one.ran) one.drained = one.on->drain(*one.p, one.at.place, deadline::poll());
          if (one.drained) ++done;
          else std::this_thread::yield();
        }
      });
    });
    CHECK((x.guards_intact() && y.guards_intact() && z.guards_intact()));
    CHECK((size == 1 || first.is_mean(x.values(), rounds, size == 2)));
    CHECK(second.is_mean(y.values(), fused, true));
    CHECK((size == 1 || third.is_mean(z.values(), other, true)));
    CHECK(agreed(comm, size == 1 ? 0 : hash_of(x.values())));
  }
}

/// A channel may be driven by another thread than the communicator's.
template <class Comm>
void other_thread_law(Comm& comm) {
  auto channel = comm.open(1);
  const program p = compile(tree{.segments = 3}, comm.rank(), comm.size());
  for (int repeat = 0; repeat < 10; ++repeat) {
    const mean_case<float> c{.count = 3000, .seed = static_cast<std::uint64_t>(repeat), .weighted = true};
    const auto buffer = c.lent(comm.rank());
    lending(comm, channel, [&] {
      cursor at{.place = channel.post(p, part_of(c, buffer, p))};
      std::exception_ptr error;
      std::thread driver([&] {
        try {
          run(p, channel, at, comm.limit());
          channel.drain(p, at.place, comm.limit());
        } catch (...) {
          error = std::current_exception();
        }
      });
      int sum = 0;
      try {
        sum = comm.all_reduce(comm.rank() + 1);  // meanwhile, on this thread
      } catch (...) {
        error = std::current_exception();
      }
      driver.join();
      if (error) std::rethrow_exception(error);
      CHECK(sum == comm.size() * (comm.size() + 1) / 2);
      CHECK(channel.total_weight(at.place) == c.total(comm.size()));
    });
    CHECK((comm.size() == 1 || c.is_mean(buffer.values(), p, true)));
  }
}

/// A poll never waits: it says that a peer has not posted yet, and goes on later.
template <class Comm>
void polling_law(Comm& comm) {
  const int last = comm.size() - 1;
  each_program(comm.rank(), comm.size(), [&](program p, bool canonical) {
    auto channel = comm.open(1);
    if constexpr (!fused_channel<decltype(channel)>) p.fused = false;
    const mean_case<float> c{.count = 1234, .seed = 5, .weighted = true};
    const auto buffer = c.lent(comm.rank());
    INFO(p.name << " on " << p.size << " ranks");
    lending(comm, channel, [&] {
      cursor at;
      if (comm.rank() != last) {
        at.place = channel.post(p, part_of(c, buffer, p));
        for (int i = 0; i < 5; ++i) CHECK_FALSE(run(p, channel, at, deadline::poll()));
      }
      comm.barrier();
      if (comm.rank() == last) at.place = channel.post(p, part_of(c, buffer, p));
      while (!run(p, channel, at, deadline::poll())) std::this_thread::yield();
      CHECK(run(p, channel, at, deadline::poll()) == true);  // and has nothing left to do
      while (!channel.drain(p, at.place, deadline::poll())) std::this_thread::yield();
    });
    CHECK(buffer.guards_intact());
    CHECK((comm.size() == 1 || c.is_mean(buffer.values(), p, canonical)));
    comm.barrier();
  });
}

template <class Run>
void channel_laws(Run&& run) {
  for (const int size : {1, 2, 3, 5}) {
    run(size, [](auto& comm) { interleaving_law(comm); });
    run(size, [](auto& comm) { other_thread_law(comm); });
    if (size > 1) run(size, [](auto& comm) { polling_law(comm); });
  }
}

// ---- failure

/// Which of the many cases of a law are looked at: all, or one in so many, of every kind in turn; where to start a group takes its time,
/// and the others are looked at over another transport with the same channel.
struct share {
  int one_in = 1, turn = 0;
  bool next() { return turn++ % one_in == 0; }
};

/// `body` fails on every rank with an error whose text has all of `parts`.
template <class Comm, class Body>
void ends_in_error(Comm& comm, std::initializer_list<std::string> parts, Body&& body) {
  try {
    body();
    CHECK_MESSAGE(false, "rank ", comm.rank(), " did not fail");
  } catch (const error& e) {
    for (const std::string& part : parts)
      CHECK_MESSAGE(std::string(e.what()).find(part) != std::string::npos, "\"", part, "\" is not in: ", e.what());
    CHECK(e.where().rank == comm.rank());
    throw;
  }
}

/// A collective that has to fail: on channels, driven by waiting or by polling, or of the user's own values (`which` < 0).
template <class Comm>
void doomed(Comm& comm, int which, const buffer_view& buffer, bool polling) {
  if (which == -1) {
    comm.broadcast(buffer, 0);
    comm.barrier();
  }
  if (which == -2) {
    std::vector<int> values(buffer.count());
    comm.all_reduce(std::span<int>(values));
  }
  int i = 0;
  each_program(comm.rank(), comm.size(), [&](program p, bool) {
    if (i++ != which) return;
    auto channel = comm.open(1);
    if constexpr (!fused_channel<decltype(channel)>) p.fused = false;
    lending(comm, channel, [&] {
      cursor at{.place = channel.post(p, {.buffer = buffer, .weight = 1})};
      while (!run(p, channel, at, polling ? deadline::poll() : comm.limit())) std::this_thread::yield();
      channel.drain(p, at.place, comm.limit());
    });
  });
}

/// One rank posts another count or type: an error on all ranks that names it, and nobody reads beyond a buffer.
template <class Run>
void mismatch_laws(Run&& run, share& cases) {
  struct mismatch {
    std::vector<std::size_t> counts;  // by rank
    int doubles;                      // the rank that has another type
    std::initializer_list<std::string> parts;
  };
  const auto differ = [&](const mismatch& m, int which, bool polling) {
    if (!cases.next()) return;
    const auto body = [&](auto& comm) {
      const std::size_t n = m.counts[detail::index(comm.rank())];
      const scattered<float> buffer(std::vector<float>(n), pieces_of(n, 3));
      const scattered<double> wide(std::vector<double>(n), {n});
      ends_in_error(comm, m.parts, [&] { doomed(comm, which, m.doubles == comm.rank() ? wide.view() : buffer.view(), polling); });
    };
    CHECK_THROWS_AS(run(static_cast<int>(m.counts.size()), body), mismatch_error);
  };
  for (const bool polling : {false, true})
    for (int which = 0; which < all_strategies; ++which) {
      differ({{5, 6}, -1, {"5 elements of float32", "6 elements of float32", "rank 1", "make the same calls"}}, which, polling);
      differ({{4000, 4000, 17}, -1, {"4000 elements of float32", "17 elements of float32", "rank 2"}}, which, polling);
      differ({{70'000, 70'000, 0, 0}, -1, {"70000 elements of float32", "0 elements of float32"}}, which, polling);
      differ({{9, 9, 9, 9, 9}, 4, {"9 elements of float32", "9 elements of float64", "rank 4"}}, which, polling);
    }
  differ({{1, 1, 1}, 2, {"rank 2", "1 elements of float64", "1 elements of float32"}}, -1, false);
  differ({{1, 2, 1}, -1, {"rank 1", "1 elements of int32", "2 elements of int32"}}, -2, false);
}

struct no_exception_of_ours {};
enum class fault { exception, odd_exception, early_return };

/// An exception on one rank, or its early return, ends the waits of all others, whatever they wait in; they quote it.
template <class Run>
void root_cause_law(Run&& run, int who, fault what, share& cases) {
  const std::string name = "rank " + std::to_string(who);
  const std::string told = what == fault::exception       ? name + " failed: the batch is not a number"
                           : what == fault::odd_exception ? name + " failed: an exception of a type that gradsync does not know"
                                                          : name + " has returned from its function";
  for (const bool polling : {false, true})
    for (int which = -2; which < all_strategies; ++which) {
      if (!cases.next()) continue;
      const auto body = [&](auto& comm) {
        comm.barrier();
        if (comm.rank() == who) {
          if (what == fault::exception) throw std::domain_error("the batch is not a number");
          if (what == fault::odd_exception) throw no_exception_of_ours{};
          return;
        }
        const scattered<float> buffer(std::vector<float>(100), {100});
        ends_in_error(comm, {told}, [&] { doomed(comm, which, buffer.view(), polling); });
      };
      bool original = false;
      try {
        run(3, body);
      } catch (const std::domain_error& e) {
        original = what == fault::exception && e.what() == std::string("the batch is not a number");
      } catch (const no_exception_of_ours&) {
        original = what == fault::odd_exception;
      } catch (const transport_error&) {
        original = what == fault::early_return;
      }
      CHECK_MESSAGE(original, "run() throws what rank ", who, " threw, fault ", static_cast<int>(what), " in ", which);
    }
}

template <class Run>
void failure_laws(Run&& run, share cases = {}) {
  mismatch_laws(run, cases);
  for (int who = 0; who < 3; ++who)
    for (const fault what : {fault::exception, fault::odd_exception, fault::early_return}) root_cause_law(run, who, what, cases);
  // What nobody waits for is no error; and a failure belongs to its run: the next one is a new beginning.
  run(3, [](auto& comm) {
    comm.barrier();
    if (comm.rank() != 1) return;
  });
  run(3, [](auto& comm) { CHECK(comm.all_reduce(comm.rank()) == 3); });
}

}  // namespace gradsync::laws
