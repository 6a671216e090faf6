// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/trace/chrome.hpp"

#include <doctest/doctest.h>

#include <map>
#include <stdexcept>
#include <vector>

using namespace gradsync;
using namespace std::chrono_literals;

namespace {

// An event's members by path ("args.step"), numbers and strings as they are written, without quotes.
using event = std::map<std::string, std::string>;

// Reads an array of objects of strings, numbers and such objects, strictly; that is all a trace may be.
class reader {
 public:
  explicit reader(const std::string& text) : text_(text) {}

  std::vector<event> events() {
    std::vector<event> all;
    expect('[');
    if (!next_is(']')) {
      do {
        all.emplace_back();
        object("", all.back());
      } while (next_is(','));
      expect(']');
    }
    blanks();
    if (at_ != text_.size()) throw std::runtime_error("more after the array: " + text_.substr(at_));
    return all;
  }

 private:
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool next_is(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!next_is(c)) throw std::runtime_error(std::string("no ") + c + " before: " + text_.substr(at_));
  }
  std::string quoted() {
    expect('"');
    const std::size_t end = text_.find_first_of("\"\\\n", at_);
    if (end == text_.npos || text_[end] != '"') throw std::runtime_error("a string without end: " + text_.substr(at_));
    const std::string inside = text_.substr(at_, end - at_);
    at_ = end + 1;
    return inside;
  }
  std::string number() {
    const std::size_t begin = at_, digits = begin + (text_[at_] == '-' ? 1 : 0);
    at_ = text_.find_first_not_of("0123456789", digits);
    if (at_ == digits) throw std::runtime_error("neither string nor number: " + text_.substr(begin));
    if (text_[at_] == '.') at_ = text_.find_first_not_of("0123456789", at_ + 1);
    if (text_[at_ - 1] == '.' || (text_[digits] == '0' && digits + 1 < at_ && text_[digits + 1] != '.'))
      throw std::runtime_error("no number: " + text_.substr(begin));
    return text_.substr(begin, at_ - begin);
  }
  void object(const std::string& path, event& into) {
    expect('{');
    do {
      const std::string key = path + quoted();
      expect(':');
      blanks();
      if (into.count(key) != 0) throw std::runtime_error("twice: " + key);
      if (text_[at_] == '{') object(key + '.', into);
      else into[key] = text_[at_] == '"' ? quoted() : number();
    } while (next_is(','));
    expect('}');
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

std::vector<event> events_of(const std::vector<recorder>& ranks) {
  const std::string text = chrome_trace(ranks);
  return reader(text).events();
}

time_point at(std::chrono::nanoseconds t) { return time_point(1h + t); }

event name_event(const char* what, const char* pid, const char* tid, const char* text) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args.name", text}};
}
event span_event(const char* name, const char* pid, const char* tid, const char* ts, const char* dur, const char* step) {
  return {{"ph", "X"}, {"name", name}, {"pid", pid}, {"tid", tid}, {"ts", ts}, {"dur", dur}, {"args.step", step}};
}
event sum_event(const char* tid, const char* ts, const char* dur, const char* strategy) {
  event e = span_event("all-reduce", "1", tid, ts, dur, "4");
  e["args.strategy"] = strategy;
  return e;
}

}  // namespace

TEST_CASE("a trace of nobody is an empty array") { CHECK(events_of({}).empty()); }

TEST_CASE("ranks that recorded nothing have names, and no spans") {
  CHECK(events_of({recorder(0), recorder(1, 0)}) ==
        std::vector<event>{name_event("process_name", "0", "0", "rank 0"), name_event("thread_name", "0", "0", "compute"),
                           name_event("process_name", "1", "0", "rank 1"), name_event("thread_name", "1", "0", "compute")});
}

TEST_CASE("each rank is a process, with a row for its computation and one for each bucket; times are microseconds since the first begin") {
  std::vector<recorder> ranks = {recorder(0), recorder(1), recorder(2)};
  const bucket_times early{.ready = at(110us), .start = at(120us), .end = at(150us + 7ns), .busy = 1us, .exposed = 1us, .strategy = "tree"};
  const bucket_times late{
      .ready = at(190us), .start = at(200us), .end = at(300us), .busy = 1us, .exposed = 1us, .strategy = "hierarchical(ring, ring)"};
  ranks[1].record({.step = 4, .begin = at(100us), .finish = at(250us), .end = at(310us), .buckets = {early, late}});
  ranks[1].record({.step = 5, .begin = at(2s), .finish = at(2s + 1ns), .end = at(2s + 1'234'567ns), .buckets = {}});
  ranks[2].record({.step = 4, .begin = at(90us), .finish = at(95us + 20ns), .end = at(99us), .buckets = {}});
  const std::vector<event> expected = {
      name_event("process_name", "0", "0", "rank 0"),
      name_event("thread_name", "0", "0", "compute"),
      name_event("process_name", "1", "0", "rank 1"),
      name_event("thread_name", "1", "0", "compute"),
      name_event("thread_name", "1", "1", "bucket 0"),
      name_event("thread_name", "1", "2", "bucket 1"),
      span_event("backward", "1", "0", "10.000", "150.000", "4"),
      span_event("finish", "1", "0", "160.000", "60.000", "4"),
      sum_event("1", "30.000", "30.007", "tree"),
      sum_event("2", "110.000", "100.000", "hierarchical(ring, ring)"),
      span_event("backward", "1", "0", "1999910.000", "0.001", "5"),
      span_event("finish", "1", "0", "1999910.001", "1234.566", "5"),
      name_event("process_name", "2", "0", "rank 2"),
      name_event("thread_name", "2", "0", "compute"),
      span_event("backward", "2", "0", "0.000", "5.020", "4"),
      span_event("finish", "2", "0", "5.020", "3.980", "4"),
  };
  const auto got = events_of(ranks);
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK_MESSAGE(got[i] == expected[i], "event ", i);
}

TEST_CASE("a day of nanoseconds is written in full") {
  std::vector<recorder> ranks = {recorder(0)};
  ranks[0].record({.step = 0, .begin = at(0ns), .finish = at(24h), .end = at(24h + 999ns), .buckets = {}});
  const auto got = events_of(ranks);
  CHECK(got[2].at("dur") == "86400000000.000");
  CHECK(got[3].at("dur") == "0.999");
}

TEST_CASE("where buckets were planned anew there is a mark, and a row for each bucket of either plan") {
  const bucket_times one{.ready = at(110us), .start = at(120us), .end = at(150us), .busy = 1us, .exposed = 1us};
  std::vector<recorder> ranks = {recorder(0)};
  ranks[0].record({.step = 0, .begin = at(100us), .finish = at(110us), .end = at(150us), .buckets = {one}, .replanned = true});
  ranks[0].record({.step = 1, .begin = at(200us), .finish = at(210us), .end = at(250us), .buckets = {one, one}});
  const auto got = events_of(ranks);
  REQUIRE(got.size() == 4 + 3 + 1 + 4);
  CHECK(got[3] == name_event("thread_name", "0", "2", "bucket 1"));
  CHECK(got[7] == event{{"ph", "i"}, {"name", "planned anew"}, {"pid", "0"}, {"tid", "0"}, {"ts", "50.000"}, {"s", "p"}});
}

TEST_CASE("a strategy may have any name") {
  std::vector<recorder> ranks = {recorder(0)};
  const bucket_times named{
      .ready = at(0ns), .start = at(0ns), .end = at(1us), .busy = 1us, .exposed = 1us, .strategy = "my \"best\" a\\b\n"};
  ranks[0].record({.step = 0, .begin = at(0ns), .finish = at(1us), .end = at(1us), .buckets = {named}});
  CHECK(chrome_trace(ranks).find(R"("args":{"step":0,"strategy":"my \"best\" a\\b "}})") != std::string::npos);
}
