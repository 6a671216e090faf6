// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/verify.hpp"

#include <doctest/doctest.h>

#include <string>

#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/recursive_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"
#include "tests/laws/strategies.hpp"

using namespace gradsync;
using kind = violation::kind;

namespace {

// A strategy as a function of (k, rank, post), for two or more ranks.
template <class Script>
struct scripted {
  int chunk_count, round_count;
  Script script;
  level claimed = level::none;

  constexpr const char* name() const { return "scripted"; }
  constexpr level claim(int) const { return claimed; }
  constexpr int chunks(int) const { return chunk_count; }
  constexpr int rounds(int) const { return round_count; }
  template <class Post>
  constexpr void round(int k, int rank, int, Post&& post) const {
    script(k, rank, post);
  }
};

// With clang 14 an aggregate template needs its arguments spelled out.
template <class Script>
constexpr scripted<Script> script_of(int chunks, int rounds, Script script, level claimed = level::none) {
  return {chunks, rounds, script, claimed};
}

// Two ranks, each the owner of one of two chunks: what is right, so that the wrong ones below differ from it in one respect.
constexpr auto pair_sum = [](int k, int rank, auto&& post) {
  post(send{1 - rank, k == 0 ? 1 - rank : rank, 1});
  post(receive{1 - rank, k == 0 ? rank : 1 - rank, 1, k == 0 ? effect::add : effect::copy});
};

// Every rank sends all it has to every other; all add. With two ranks that is right.
struct everyone_adds {
  constexpr const char* name() const { return "everyone_adds"; }
  constexpr level claim(int) const { return level::none; }
  constexpr int chunks(int) const { return 1; }
  constexpr int rounds(int) const { return 1; }
  template <class Post>
  constexpr void round(int, int rank, int size, Post&& post) const {
    for (int i = 1; i < size; ++i) {
      const int peer = (rank + i) % size;
      post(send{peer, 0, 1});
      post(receive{peer, 0, 1, effect::add});
    }
  }
};

// Changes each receive of a strategy before it is posted.
template <strategy Inner, class Edit>
struct edited {
  Inner inner;
  Edit edit;

  constexpr const char* name() const { return "edited"; }
  constexpr level claim(int) const { return level::none; }
  constexpr int chunks(int size) const { return inner.chunks(size); }
  constexpr int rounds(int size) const { return inner.rounds(size); }
  template <class Post>
  constexpr void round(int k, int rank, int size, Post&& post) const {
    inner.round(k, rank, size, [&](auto message) { edit(k, rank, message, post); });
  }
};

template <strategy Inner, class Edit>
constexpr edited<Inner, Edit> edit_of(Inner inner, Edit edit) {
  return {inner, edit};
}

}  // namespace

TEST_CASE("a right strategy of two ranks is proved in full") {
  constexpr proof p = verify(script_of(2, 2, pair_sum, level::canonical), 2);
  CHECK(p.holds());
  CHECK(p.sound());
  CHECK((p.ordered && p.complete && p.agreed && p.uniform && p.canonical && p.in_place && p.one_division));
  CHECK(p.reproducibility == level::canonical);
  CHECK(p.first == violation{});
}

TEST_CASE("levels are told apart") {
  CHECK(verify(ring{}, 5).reproducibility == level::agreed);
  CHECK_FALSE(verify(ring{}, 5).uniform);
  CHECK(verify(tree{3}, 7).reproducibility == level::canonical);
  // Rank 0 adds the others one after the other: one order for all chunks, but not the tree.
  const auto in_rank_order = script_of(2, 2, [](int k, int rank, auto&& post) {
    if (rank > 0 && k == 0) post(send{0, 0, 2});
    if (rank > 0 && k == 1) post(receive{0, 0, 2, effect::copy});
    for (int peer = 1; rank == 0 && peer < 4; ++peer) {
      if (k == 0) post(receive{peer, 0, 2, effect::add});
      else post(send{peer, 0, 2});
    }
  });
  const proof p = verify(in_rank_order, 4);
  CHECK(p.sound());
  CHECK(p.reproducibility == level::uniform);
  CHECK_FALSE(p.canonical);
}

TEST_CASE("one rank has nothing to do, and its bits are canonical") {
  CHECK(verify(ring{}, 1).reproducibility == level::canonical);
  CHECK(verify(tree{}, 1).holds());
  CHECK(verify(native{}, 1).holds());
  CHECK(verify(halving_doubling{}, 1).one_division);
}

TEST_CASE("impossible numbers of ranks, chunks and rounds are caught before they cost anything") {
  CHECK(verify(ring{}, 0).first == violation{kind::bad_size});
  CHECK(verify(ring{}, -3).first.what == kind::bad_size);
  CHECK(verify(tree{0}, 4).first == violation{kind::bad_chunks, -1, -1, -1, 0});
  CHECK(verify(tree{-2}, 4).first.chunk == -2);
  CHECK(verify(tree{2'000'000'000}, 4).first.what == kind::bad_chunks);
  CHECK(verify(script_of(1, -1, pair_sum), 2).first == violation{kind::bad_rounds, -1});
  CHECK(verify(script_of(1, 2'000'000'000, pair_sum), 2).first.what == kind::bad_rounds);
  CHECK_FALSE(verify(tree{0}, 4).sound());
}

namespace {

struct pairs_only : ring {
  constexpr const char* refuses(int size) const { return size % 2 == 0 ? nullptr : "pairs_only needs an even number of ranks"; }
  constexpr int chunks(int size) const { return size % 2 == 0 ? size : throw "asked for what it refuses"; }
};

}  // namespace

TEST_CASE("a number of ranks that a strategy refuses is told in its own words, before anything else is asked") {
  static_assert(refusal(ring{}, 3) == nullptr && refusal(pairs_only{}, 4) == nullptr && refusal(pairs_only{}, 5) != nullptr);
  constexpr proof refused = verify(pairs_only{}, 5);
  CHECK(refused.first == violation{.what = kind::refused_size, .reason = "pairs_only needs an even number of ranks"});
  CHECK(describe(refused.first) == "pairs_only needs an even number of ranks");
  CHECK_FALSE(refused.holds());
  CHECK_FALSE(refused.sound());
  CHECK(verify(pairs_only{}, 4).holds());
  CHECK(verify(pairs_only{}, 0).first.what == kind::bad_size);  // no group, so nothing to ask about
}

TEST_CASE("a forgotten addition is found, where it happens and at the end") {
  // What arrives replaces what is there: no addition, so the sum is lost.
  const auto forgetful = edit_of(ring{}, [](int, int, auto message, auto& post) {
    if constexpr (requires { message.what; }) message.what = effect::copy;
    post(message);
  });
  const proof p = verify(forgetful, 4);
  CHECK(p.ordered);
  CHECK_FALSE(p.complete);
  CHECK_FALSE(p.one_division);
  CHECK(p.first == violation{kind::incomplete, -1, 0, -1, 0});
  // Only rank 2 forgets, once: the owner of that chunk completes it too early.
  const auto once = edit_of(ring{}, [](int k, int rank, auto message, auto& post) {
    if constexpr (requires { message.what; })
      if (rank == 2 && k == 0) message.what = effect::copy;
    post(message);
  });
  CHECK(verify(once, 4).first == violation{kind::divided_early, 2, 0, -1, 0});
}

TEST_CASE("a ring that is one round short is told which chunk a rank never receives again") {
  struct short_ring : ring {
    constexpr int rounds(int size) const { return ring::rounds(size) - 1; }
  };
  CHECK(
      describe(verify(short_ring{}, 4).first) ==
      "in round 1 rank 0 adds to chunk 1, which it never receives again, but does not hold each contribution exactly once then; is an add "
      "missing before, or a copy later?");
}

TEST_CASE("a contribution that is added twice is found") {
  const auto doubled = script_of(1, 3, [](int k, int rank, auto&& post) {  // rank 1 gives the same twice, then all copy
    if (rank == 1) k < 2 ? post(send{0, 0, 1}) : post(receive{0, 0, 1, effect::copy});
    else if (k < 2) post(receive{1, 0, 1, effect::add});
    else post(send{1, 0, 1});
  });
  const proof p = verify(doubled, 2);
  CHECK(p.first == violation{kind::divided_early, 1, 0, -1, 0});
  CHECK_FALSE(p.complete);
}

TEST_CASE("two messages of one pair that are received in the other order are crossed") {
  constexpr auto crossed = script_of(2, 1, [](int, int rank, auto&& post) {
    post(send{1 - rank, 0, 1});
    post(send{1 - rank, 1, 1});
    post(receive{1 - rank, 1, 1, effect::add});
    post(receive{1 - rank, 0, 1, effect::add});
  });
  constexpr proof p = verify(crossed, 2);
  CHECK(p.first == violation{kind::crossed, 0, 0, 1, 1});
  CHECK_FALSE(p.ordered);
  CHECK_FALSE(p.complete);
}

TEST_CASE("messages of one pair may differ in length, as long as they match in order") {
  const auto two_lengths = script_of(3, 1, [](int, int rank, auto&& post) {
    if (rank == 1) {
      post(send{0, 1, 2});
      post(send{0, 0, 1});
    } else {
      post(receive{1, 1, 2, effect::add});
      post(receive{1, 0, 1, effect::add});
    }
  });
  const proof p = verify(two_lengths, 2);
  CHECK(p.ordered);
  CHECK(p.first == violation{kind::incomplete, -1, 1, -1, 0});  // rank 1 has nothing of rank 0
}

TEST_CASE("a range that differs in length is no match") {
  const auto longer = script_of(2, 1, [](int, int rank, auto&& post) {
    if (rank == 1) post(send{0, 0, 2});
    else post(receive{1, 0, 1, effect::add});
  });
  CHECK(verify(longer, 2).first == violation{kind::crossed, 0, 0, 1, 0});
}

TEST_CASE("messages to oneself, to nobody and out of the buffer are refused") {
  const auto posting = [](send s) {
    return script_of(2, 1, [s](int, int rank, auto&& post) {
      if (rank == 1) post(s);
    });
  };
  CHECK(verify(posting({1, 0, 1}), 3).first == violation{kind::self_message, 0, 1, 1, 0});
  CHECK(verify(posting({3, 0, 1}), 3).first == violation{kind::unknown_peer, 0, 1, 3, 0});
  CHECK(verify(posting({-1, 0, 1}), 3).first.what == kind::unknown_peer);
  CHECK(verify(posting({0, 2, 1}), 3).first == violation{kind::out_of_range, 0, 1, 0, 2});
  CHECK(verify(posting({0, 1, 2}), 3).first.what == kind::out_of_range);
  CHECK(verify(posting({0, -1, 1}), 3).first.what == kind::out_of_range);
  CHECK(verify(posting({0, 0, 0}), 3).first.what == kind::out_of_range);
  CHECK(verify(posting({0, 0, -1}), 3).first.what == kind::out_of_range);
  CHECK(verify(posting({0, 1, 2'147'483'647}), 3).first.what == kind::out_of_range);  // first + count does not fit an int
  const auto receiving = script_of(2, 1, [](int, int rank, auto&& post) { post(receive{rank, 0, 1, effect::add}); });
  CHECK(verify(receiving, 2).first == violation{kind::self_message, 0, 0, 0, 0});
  constexpr int huge = 2'147'483'647;
  const auto beyond = script_of(2, 1, [](int, int rank, auto&& post) { post(receive{1 - rank, huge, huge, effect::add}); });
  CHECK(verify(beyond, 2).first.what == kind::out_of_range);
}

TEST_CASE("a receive that nobody sends would wait for ever, and is found") {
  const auto waiting = script_of(1, 2, [](int k, int rank, auto&& post) {  // each waits for what the other sends one round later
    if (k == rank) post(receive{1 - rank, 0, 1, effect::add});
    if (k != rank) return;
    if (k == 1) post(send{0, 0, 1});
  });
  CHECK(verify(waiting, 2).first == violation{kind::unmatched_receive, 0, 0, 1, 0});
  const auto second_missing = script_of(1, 1, [](int, int rank, auto&& post) {
    if (rank == 1) post(send{0, 0, 1});
    for (int i = 0; rank == 0 && i < 2; ++i) post(receive{1, 0, 1, effect::add});
  });
  CHECK(verify(second_missing, 2).first == violation{kind::unmatched_receive, 0, 0, 1, 0});
}

TEST_CASE("a send that nobody receives is found, also beside others that are received") {
  const auto lost = script_of(2, 1, [](int, int rank, auto&& post) {
    if (rank == 1) post(send{0, 0, 1});
    if (rank == 1) post(send{0, 1, 1});
    if (rank == 0) post(receive{1, 0, 1, effect::add});
  });
  CHECK(verify(lost, 2).first == violation{kind::unmatched_send, 0, 1, 0, 1});
  // As many receives as sends, but of another pair.
  const auto other_pair = script_of(1, 1, [](int, int rank, auto&& post) {
    if (rank == 1) post(send{0, 0, 1});
    if (rank == 0) post(receive{2, 0, 1, effect::add});
  });
  CHECK(verify(other_pair, 3).first == violation{kind::unmatched_receive, 0, 0, 2, 0});
}

TEST_CASE(
    "a chunk that is sent and written in one round is right, but not in place: the proof says for how many chunks that takes scratch") {
  constexpr proof p = verify(everyone_adds{}, 2);
  CHECK(p.holds());
  CHECK(p.sound());
  CHECK(p.reproducibility == level::canonical);
  CHECK_FALSE(p.in_place);
  CHECK(p.scratch_chunks == 1);
  CHECK(verify(laws::everyone_joins{.parts = 5}, 3).scratch_chunks == 5);
  CHECK(verify(laws::added_beside_a_send{}, 3).scratch_chunks == 1);
  CHECK(verify(laws::beside<ring, recursive_doubling>{}, 4).scratch_chunks == 1);
  CHECK((verify(ring{}, 4).in_place && verify(ring{}, 4).scratch_chunks == 0));
  CHECK_FALSE(verify(tree{0}, 4).in_place);  // nothing is proved of it
}

TEST_CASE("ranks that add in different orders do not agree") {
  const proof p = verify(everyone_adds{}, 3);  // rank r starts with itself
  CHECK(p.complete);
  CHECK_FALSE(p.agreed);
  CHECK(p.reproducibility == level::none);
}

TEST_CASE("two receives into one chunk in one round must be adds") {
  for (const bool copy_first : {true, false}) {
    const auto overlapping = script_of(1, 1, [copy_first](int, int rank, auto&& post) {
      if (rank > 0) post(send{0, 0, 1});
      for (int peer = 1; rank == 0 && peer < 3; ++peer) post(receive{peer, 0, 1, (peer == 1) == copy_first ? effect::copy : effect::add});
    });
    CHECK(verify(overlapping, 3).first == violation{kind::overlapping_writes, 0, 0, 2, 0});
  }
  const auto copies = script_of(1, 1, [](int, int rank, auto&& post) {
    if (rank > 0) post(send{0, 0, 1});
    for (int peer = 1; rank == 0 && peer < 3; ++peer) post(receive{peer, 0, 1, effect::copy});
  });
  CHECK(verify(copies, 3).first.what == kind::overlapping_writes);
  const auto mixed = script_of(1, 1, [](int, int rank, auto&& post) {
    if (rank > 0) post(send{0, 0, 1});
    for (int peer = 1; rank == 0 && peer < 3; ++peer) post(receive{peer, 0, 1, peer == 1 ? effect::add : effect::join});
  });
  CHECK(verify(mixed, 3).first.what == kind::overlapping_writes);
}

TEST_CASE("a join needs every other rank, in ascending order") {
  const auto all_but_one = script_of(1, 1, [](int, int rank, auto&& post) {
    if (rank == 1) post(send{0, 0, 1});
    if (rank == 0) post(receive{1, 0, 1, effect::join});
  });
  CHECK(verify(all_but_one, 3).first == violation{kind::partial_join, 0, 0, 1, 0});
  const auto descending = script_of(1, 1, [](int, int rank, auto&& post) {
    if (rank > 0) post(send{0, 0, 1});
    for (int peer = 2; rank == 0 && peer > 0; --peer) post(receive{peer, 0, 1, effect::join});
  });
  CHECK(verify(descending, 3).first == violation{kind::partial_join, 0, 0, 1, 0});
}

TEST_CASE("a sum that is divided and then added to is found") {
  // Rank 0 completes its chunk and divides; rank 1 adds the quotient to what it has, instead of copying, and divides again.
  constexpr auto twice = script_of(1, 2, [](int k, int rank, auto&& post) {
    if (rank == k) post(receive{1 - rank, 0, 1, effect::add});
    else post(send{1 - rank, 0, 1});
  });
  constexpr proof p = verify(twice, 2);
  CHECK(p.first == violation{kind::added_after_division, 1, 1, 0, 0});
  CHECK_FALSE(p.one_division);
  CHECK_FALSE(p.complete);
}

TEST_CASE("a sum that nobody divides is found") {
  // Rank 0 completes the sum, but gets it back from rank 1 later: by the rule neither divides.
  constexpr auto undivided = script_of(1, 3, [](int k, int rank, auto&& post) {
    const int writer = k == 1 ? 1 : 0;
    if (rank == writer) post(receive{1 - rank, 0, 1, k == 0 ? effect::add : effect::copy});
    else post(send{1 - rank, 0, 1});
  });
  constexpr proof p = verify(undivided, 2);
  CHECK(p.complete);
  CHECK_FALSE(p.one_division);
  CHECK(p.first == violation{kind::undivided, -1, 0, -1, 0});
}

TEST_CASE("a claim that is higher than what is proved is a violation of its own, and the only one") {
  const proof p = verify(script_of(2, 2, pair_sum, level::canonical), 2);
  CHECK(p.holds());
  struct boasting_ring : ring {
    constexpr level claim(int) const { return level::uniform; }
  };
  const proof boasting = verify(boasting_ring{}, 3);
  CHECK(boasting.first == violation{kind::weaker_than_claimed});
  CHECK(boasting.sound());
  CHECK_FALSE(boasting.holds());
}

TEST_CASE("256 ranks are proved for every strategy") {
  CHECK(verify(ring{}, 256).reproducibility == level::agreed);
  CHECK(verify(tree{16}, 256).reproducibility == level::canonical);
  CHECK(verify(halving_doubling{}, 256).reproducibility == level::canonical);
  CHECK(verify(halving_doubling{}, 255).reproducibility == level::canonical);
  CHECK(verify(native{}, 256).reproducibility == level::canonical);
  CHECK(verify(recursive_doubling{}, 256).reproducibility == level::canonical);
  CHECK(verify(recursive_doubling{}, 255).reproducibility == level::canonical);
}
