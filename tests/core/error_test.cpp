// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/core/error.hpp"

#include <doctest/doctest.h>

#include <string_view>

using namespace gradsync;

TEST_CASE("a message names every place that is known, in one order") {
  const usage_error e{"got 512 elements, rank 0 has 1024", {.rank = 2, .step = 17, .bucket = 3, .parameter = "fc1.weight"}};
  CHECK(e.what() == std::string_view{"gradsync[rank 2] step 17 bucket 3 \"fc1.weight\": got 512 elements, rank 0 has 1024"});
}

TEST_CASE("a message leaves out the places that are unknown") {
  CHECK(usage_error{"no parameter"}.what() == std::string_view{"gradsync: no parameter"});
  CHECK(usage_error{"late", {.step = 0}}.what() == std::string_view{"gradsync step 0: late"});
  CHECK(usage_error{"odd", {.rank = 0, .parameter = "bias"}}.what() == std::string_view{"gradsync[rank 0] \"bias\": odd"});
}

TEST_CASE("in a part of a group a message says both numbers of its rank") {
  CHECK(name_of_rank(1, -1) == "rank 1");
  CHECK(name_of_rank(1, 5) == "rank 1 (rank 5 of the whole group)");
  usage_error e{"odd", {.rank = 1, .bucket = 2, .whole = 5}};
  CHECK(e.what() == std::string_view{"gradsync[rank 1 (rank 5 of the whole group)] bucket 2: odd"});
  e.locate({.rank = 1, .whole = 6});
  CHECK(e.where().whole == 5);
  usage_error other{"odd", {.rank = 2}}, same{"odd", {.rank = 1}}, none{"odd"};
  for (usage_error* one : {&other, &same, &none}) one->locate({.rank = 1, .whole = 5});
  CHECK(other.where().whole == -1);  // of another rank the number is not known
  CHECK((same.where().whole == 5 && none.where().whole == 5));
}

TEST_CASE("a step beyond 32 bits is named in full") {
  CHECK(usage_error{"x", {.step = 5'000'000'000}}.what() == std::string_view{"gradsync step 5000000000: x"});
}

TEST_CASE("locating an error fills what is unknown and keeps what is known") {
  transport_error e{"peer left", {.rank = 1, .bucket = 4}};
  e.locate({.rank = 7, .step = 12, .bucket = 9, .parameter = "layers[3].weight"});
  CHECK(e.what() == std::string_view{"gradsync[rank 1] step 12 bucket 4 \"layers[3].weight\": peer left"});
  CHECK(e.where().rank == 1);
  CHECK(e.where().step == 12);
  CHECK(e.where().bucket == 4);
  CHECK(e.where().parameter == "layers[3].weight");
  CHECK(e.message() == "peer left");
  e.locate({.rank = 0, .step = 0, .bucket = 0, .parameter = "bias"});
  CHECK(e.what() == std::string_view{"gradsync[rank 1] step 12 bucket 4 \"layers[3].weight\": peer left"});
}

TEST_CASE_TEMPLATE("every error is caught by its own type, as an error of the library and as a standard exception", Error, usage_error,
                   mismatch_error, transport_error, timeout_error) {
  const auto raise = [] { throw Error{"why", {.rank = 3}}; };
  CHECK_THROWS_AS(raise(), Error);
  CHECK_THROWS_AS(raise(), error);
  CHECK_THROWS_WITH_AS(raise(), "gradsync[rank 3]: why", std::exception);
}

TEST_CASE("one kind of error is not caught as another") {
  const auto caught_as_transport_error = [] {
    try {
      throw timeout_error{"late"};
    } catch (const transport_error&) {
      return true;
    } catch (const error&) {
      return false;
    }
  };
  CHECK_FALSE(caught_as_transport_error());
}
