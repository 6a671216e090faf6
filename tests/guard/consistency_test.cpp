// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/guard/consistency.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gradsync/comm/threads.hpp"

using namespace gradsync;

namespace {

using list = std::vector<agreement>;

agreement tensor(const char* name, std::size_t count = 4, dtype type = dtype::float32) {
  parameter p{.type = type, .count = count, .value_access = {}, .grad_access = {}, .aliases = {}};
  p.aliases.push_back({name, nullptr, nullptr, nullptr});
  return agreement_on(p);
}
agreement option(const char* name, const char* value) { return agreement_on(name, value); }

list usual() { return {tensor("fc1.weight", 512), tensor("fc1.bias"), tensor("fc2"), option("bucket_bytes", "100")}; }

// Runs four ranks, of which `odd` have the list `other`, and checks that all of them throw exactly `message`.
void all_say(const list& other, const std::string& message, const std::vector<int>& odd = {2}) {
  int told = 0;
  std::mutex mutex;
  CHECK_THROWS_WITH_AS(thread_group(4).run([&](auto& comm) {
    const bool differs = std::find(odd.begin(), odd.end(), comm.rank()) != odd.end();
    try {
      check_agreement(comm, differs ? other : usual());
    } catch (const mismatch_error& e) {
      const std::lock_guard hold(mutex);
      CHECK(e.what() == message);
      ++told;
    }
    comm.barrier();  // all have thrown the same, and none was left waiting
    if (comm.rank() == 0) throw mismatch_error(message.substr(message.find(": ") + 2));
  }),
                       doctest::Contains(message.substr(message.find(": ") + 2).c_str()), mismatch_error);
  CHECK(told == 4);
}

}  // namespace

TEST_CASE("ranks that agree go on, also about nothing at all") {
  for (const int size : {1, 2, 5})
    thread_group(size).run([](auto& comm) {
      for (int i = 0; i < 3; ++i) check_agreement(comm, usual());
      check_agreement(comm, list{});
      check_agreement(comm, list{option("", "")});
    });
}

TEST_CASE("another number of elements is told with both numbers") {
  list other = usual();
  other[0].detail = "1024 elements of float32";
  all_say(other,
          "gradsync[rank 2] \"fc1.weight\": has 1024 elements of float32, rank 0 has 512 elements of float32; build the model in the same "
          "order on every rank");
}

TEST_CASE("another type is told with both types") {
  list other = usual();
  other[1].detail = "4 elements of float64";
  all_say(
      other,
      "gradsync[rank 2] \"fc1.bias\": has 4 elements of float64, rank 0 has 4 elements of float32; build the model in the same order on "
      "every rank");
}

TEST_CASE("a state is told from a parameter, and its length too") {
  const auto with = [](const agreement& last) {
    list all = usual();
    all.insert(all.begin() + 3, last);
    return all;
  };
  const state_entry mean{.name = "norm.mean", .type = dtype::float64, .count = 7};
  CHECK(agreement_on(mean).detail == "7 elements of float64 (state)");
  all_say(
      with(agreement_on(mean)),
      "gradsync[rank 2] \"norm.mean\": is part of this rank's model, but not of rank 0's; build the model in the same order on every rank");
}

TEST_CASE("another name, or another order, is told at the first place where it shows") {
  list renamed = usual(), turned = usual();
  renamed[2].subject = "fc3";
  all_say(renamed, "gradsync[rank 2] \"fc3\": stands where rank 0 has \"fc2\"; build the model in the same order on every rank");
  std::swap(turned[0], turned[1]);
  all_say(turned, "gradsync[rank 2] \"fc1.bias\": stands where rank 0 has \"fc1.weight\"; build the model in the same order on every rank");
}

TEST_CASE("a rank with more parameters names the first that rank 0 has not, one with fewer the first that it lacks") {
  list more = usual(), fewer = usual();
  more.insert(more.begin() + 3, {tensor("head.weight"), tensor("head.bias")});
  all_say(more,
          "gradsync[rank 2] \"head.weight\": is part of this rank's model, but not of rank 0's; build the model in the same order on every "
          "rank");
  fewer.erase(fewer.begin() + 1, fewer.begin() + 3);
  all_say(
      {fewer[0], option("bucket_bytes", "100")},
      "gradsync[rank 2] \"fc1.bias\": is part of rank 0's model, but not of this rank's; build the model in the same order on every rank");
  // Also where nothing follows the parameters.
  all_say(
      list{usual()[0]},
      "gradsync[rank 2] \"fc1.bias\": is part of rank 0's model, but not of this rank's; build the model in the same order on every rank");
  all_say(list{},
          "gradsync[rank 2] \"fc1.weight\": is part of rank 0's model, but not of this rank's; build the model in the same order on every "
          "rank");
}

TEST_CASE("another option is told with both values and what to do about it") {
  list other = usual();
  other[3].detail = "200";
  all_say(other, "gradsync[rank 2]: bucket_bytes is 200, rank 0 has 100; give every rank the same options");
  other[3] = option("layout", "3");
  all_say(other, "gradsync[rank 2]: \"layout\" stands where rank 0 has \"bucket_bytes\"; give every rank the same options");
}

TEST_CASE("of several ranks that differ the first is named; if rank 0 is the odd one, that is rank 1") {
  list other = usual();
  other[1].detail = "5 elements of float32";
  const std::string rest = "5 elements of float32, rank 0 has 4 elements of float32; build the model in the same order on every rank";
  all_say(other, "gradsync[rank 1] \"fc1.bias\": has " + rest, {1, 3});
  all_say(other, "gradsync[rank 3] \"fc1.bias\": has " + rest, {3});
  all_say(
      other,
      "gradsync[rank 1] \"fc1.bias\": has 4 elements of float32, rank 0 has 5 elements of float32; build the model in the same order on "
      "every rank",
      {0});
}

TEST_CASE("names that hold tabs or newlines are compared all the same") {
  for (const char* name : {"a\tb", "a\nb", "\t", "\n\n"}) {
    thread_group(2).run([&](auto& comm) {
      check_agreement(comm, list{tensor(name)});
      CHECK_THROWS_AS(check_agreement(comm, list{tensor(name), tensor(comm.rank() == 0 ? "x" : "y")}), mismatch_error);
      comm.barrier();
    });
  }
}

TEST_CASE("the flags that change bits are the compiler's, its version's and the processor's") {
  const agreement flags = compile_flags();
  CHECK(flags.subject == "compile flags");
  CHECK(flags.detail.starts_with("FLT_EVAL_METHOD "));
  CHECK(flags.advice == "build the same program for every rank");
  CHECK_FALSE(flags.parameter);
#ifdef __FMA__
  CHECK(flags.detail.find("FMA") != std::string::npos);
#else
  CHECK(flags.detail.find("FMA") == std::string::npos);
#endif
#if defined(__clang__)
  CHECK(flags.detail.find("clang " + std::to_string(__clang_major__)) != std::string::npos);
#elif defined(__GNUC__)
  CHECK(flags.detail.find("gcc " + std::to_string(__GNUC__)) != std::string::npos);
#endif
  CHECK(compile_flags().detail == flags.detail);
}
