// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <array>
#include <cstdio>
#include <cstdlib>

#include "runtime.hpp"

namespace standin {
namespace {

runtime& locked(std::unique_lock<std::mutex>& guard) {
  runtime& r = runtime::get();
  guard = std::unique_lock(r.lock);
  return r;
}

}  // namespace

void add_twin(const void* kernel, host_twin twin) {
  std::unique_lock<std::mutex> guard;
  locked(guard).twins[kernel] = twin;
}

void seed(unsigned value) {
  seed(value, static_cast<order>(value % 5), std::array{pace::host_ahead, pace::between, pace::host_ahead, pace::device_ahead}[value % 4]);
}

void seed(unsigned value, order by, pace at) {
  std::unique_lock<std::mutex> guard;
  runtime& r = locked(guard);
  r.random.seed(value);
  r.salt = static_cast<unsigned>(r.random());
  r.by = by;
  r.at = at;
  r.log.clear();
  r.renumber();
}

void devices(int count) {
  const auto left = alive();
  if (count < 1 || count > 64 || !left.empty()) {
    std::fprintf(stderr, "cuda stand-in: can't have %d devices while something is alive on them\n", count);
    for (const auto& what : left) std::fprintf(stderr, "  %s\n", what.c_str());
    std::abort();
  }
  reset();
  std::unique_lock<std::mutex> guard;
  runtime& r = locked(guard);
  r.streams.clear();
  r.devices.assign(static_cast<std::size_t>(count), {});
}

void reset() {
  std::unique_lock<std::mutex> guard;
  runtime& r = locked(guard);
  for (auto& device : r.devices) {
    device.failure = cudaSuccess;
    device.peers.clear();
  }
  for (const auto& stream : r.streams) {
    for (auto& lost : stream->work) lost.done->reached = true;
    stream->work.clear();
    stream->captured.reset();
  }
  std::erase_if(r.streams, [](const auto& stream) { return !stream->alive; });
  for (const auto& capture : r.captures) capture->open = false;
  r.captures.clear();
  r.memory.close();
  r.memory.free_all();
  this_thread().last_error = cudaSuccess;
}

void patience(std::chrono::milliseconds time) {
  std::unique_lock<std::mutex> guard;
  locked(guard).patience = time;
}

std::vector<std::string> alive() {
  std::unique_lock<std::mutex> guard;
  runtime& r = locked(guard);
  r.changed.wait(guard, [&] { return r.destructors == 0; });
  std::vector<std::string> found = r.memory.live_blocks();
  std::set<const CUstream_st*> defaults;
  for (const auto& device : r.devices) {
    defaults.insert(device.legacy);
    for (const auto& [thread, stream] : device.per_thread) defaults.insert(stream);
  }
  for (const auto& stream : r.streams)
    if (stream->alive && !defaults.count(stream.get())) found.push_back("stream " + std::to_string(stream->number));
  for (const auto* event : r.events) found.push_back("an event of device " + std::to_string(event->device));
  for (const auto* graph : r.graphs) found.push_back("a graph of " + std::to_string(graph->nodes.size()) + " nodes");
  for (const auto* graph : r.executables) found.push_back("an executable graph of " + std::to_string(graph->nodes.size()) + " nodes");
  for (const auto* object : r.objects) found.push_back("a user object with " + std::to_string(object->references) + " references");
  return found;
}

std::vector<std::string> executed() {
  std::unique_lock<std::mutex> guard;
  std::vector<std::string> found;
  for (const auto& [stream, what] : locked(guard).log) found.push_back(std::to_string(stream) + ' ' + what);
  return found;
}

std::string host_fault(const std::function<void()>& f) { return runtime::get().memory.guarded(f); }

}  // namespace standin
