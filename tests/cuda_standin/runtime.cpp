// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "runtime.hpp"

#include <algorithm>
#include <cstdio>

namespace standin {

runtime& runtime::get() {
  static runtime* const one = new runtime;  // outlives what static destructors still free
  return *one;
}

thread_state& this_thread() {
  static thread_local thread_state state;
  return state;
}

namespace {

class entry {
 public:
  explicit entry(runtime& r) : r_(r) {
    ++r.waiting_for_lock;
    guard_ = std::unique_lock(r.lock);
    --r.waiting_for_lock;
    this_thread().held = &guard_;
  }
  ~entry() {
    r_.memory.close();
    this_thread().held = nullptr;
    r_.changed.notify_all();
  }

 private:
  runtime& r_;
  std::unique_lock<std::mutex> guard_;
};

}  // namespace

namespace {

cudaError_t enter(const std::function<cudaError_t(runtime&)>& body, bool even_after_failure) {
  thread_state& thread = this_thread();
  cudaError_t error = cudaErrorNotPermitted;
  if (!thread.in_host_function) {
    runtime& r = runtime::get();
    const entry entered(r);
    const auto device = static_cast<std::size_t>(thread.device);
    error = device < r.devices.size() ? r.devices[device].failure : cudaErrorInvalidDevice;
    if (error == cudaSuccess || even_after_failure) {
      const cudaError_t own = body(r);
      if (error == cudaSuccess) error = own;
      r.go_on();
    }
  }
  if (error != cudaSuccess) thread.last_error = error;
  return error;
}

}  // namespace

cudaError_t call(const std::function<cudaError_t(runtime&)>& body) { return enter(body, false); }
cudaError_t releasing_call(const std::function<cudaError_t(runtime&)>& body) { return enter(body, true); }

cudaError_t unsafe_call(const std::function<cudaError_t(runtime&)>& body) {
  return call([&](runtime& r) {
    const cudaError_t error = r.unsafe_now();
    return error == cudaSuccess ? body(r) : error;
  });
}

cudaError_t stream_call(cudaStream_t handle, const std::function<cudaError_t(runtime&, CUstream_st&)>& body) {
  return call([&](runtime& r) {
    CUstream_st* stream = r.stream_of(handle);
    return stream ? body(r, *stream) : cudaErrorInvalidResourceHandle;
  });
}

// --- streams
// ------------------------------------------------------------------------------------------------------------------------------

CUstream_st& runtime::insert_stream(unsigned number, int device, unsigned flags, int priority) {
  const auto behind = std::find_if(streams.begin(), streams.end(), [&](const auto& stream) { return stream->number > number; });
  return **streams.insert(behind, std::make_unique<CUstream_st>(CUstream_st{{number, device, flags, priority}}));
}

CUstream_st& runtime::add_stream(int device, unsigned flags, int priority) {
  return insert_stream(next_stream_++, device, flags, priority);
}

void runtime::renumber() { next_stream_ = streams.empty() ? first_stream : std::max(first_stream, streams.back()->number + 1); }

CUstream_st* runtime::stream_of(cudaStream_t handle) {
  const int device = this_thread().device;
  device_state& state = devices[static_cast<std::size_t>(device)];
  if (handle == nullptr || handle == cudaStreamLegacy) {
    if (!state.legacy) {
      state.legacy = &insert_stream(static_cast<unsigned>(device), device, cudaStreamDefault, 0);
      state.legacy->legacy = true;
    }
    return state.legacy;
  }
  if (handle == cudaStreamPerThread) {
    CUstream_st*& own = state.per_thread[std::this_thread::get_id()];
    if (!own) own = &insert_stream(first_per_thread + threads_seen_++, device, cudaStreamDefault, 0);
    return own;
  }
  for (const auto& stream : streams)
    if (stream.get() == handle && stream->alive) return handle;
  return nullptr;
}

void runtime::remove_stream(CUstream_st& stream) {
  stream.alive = false;
  if (!stream.work.empty()) return;
  streams.erase(std::find_if(streams.begin(), streams.end(), [&](const auto& s) { return s.get() == &stream; }));
}

std::vector<int> runtime::reach_of(int device) const {
  std::vector<int> reached = {device};
  const auto& peers = devices[static_cast<std::size_t>(device)].peers;
  reached.insert(reached.end(), peers.begin(), peers.end());
  return reached;
}

cudaError_t runtime::enqueue(CUstream_st& stream, operation work) {
  if (stream.captured) return capture_into(stream, std::move(work));
  for (const auto& other : streams)  // CUDA: the legacy stream waits for blocking streams, and they for it
    if (other->device == stream.device && stream.blocking() && other->blocking() && stream.legacy != other->legacy) {
      if (stream.legacy && other->captured) return spoil(other->captured, cudaErrorStreamCaptureImplicit);
      if (other->last && !other->last->reached) work.after.push_back(other->last);
    }
  work.done = std::make_shared<completion>();
  work.number = ++enqueued_;
  stream.last = work.done;
  stream.work.push_back(std::move(work));
  return cudaSuccess;
}

// --- progress
// -----------------------------------------------------------------------------------------------------------------------------

bool runtime::able(queue& stream) {
  if (stream.work.empty() || stream.busy) return false;
  const operation& next = stream.work.front();
  if (!std::all_of(next.after.begin(), next.after.end(), [](const completed& c) { return c->reached; })) return false;
  return !next.ready || next.ready();
}

CUstream_st& runtime::choose(const std::vector<CUstream_st*>& able_ones) {
  const auto rank = [&](const CUstream_st* s) { return (s->number * 2654435761u) ^ salt; };
  const auto number = [](const CUstream_st* s) { return s->work.front().number; };
  const auto least = [&](auto key) {
    return *std::min_element(able_ones.begin(), able_ones.end(), [&](auto* a, auto* b) { return key(a) < key(b); });
  };
  switch (by) {
    case order::favourites: return *least(rank);
    case order::last_in: return *least([&](const CUstream_st* s) { return -number(s); });
    case order::first_in: return *least(number);
    case order::one_stream:
      for (auto* s : able_ones)
        if (s->number == ran_last_) return *s;
      break;
    case order::any: break;
  }
  return *able_ones[random() % able_ones.size()];
}

bool runtime::step() {
  std::vector<CUstream_st*> able_ones;
  for (const auto& stream : streams)
    if (able(*stream)) able_ones.push_back(stream.get());
  if (able_ones.empty()) return false;
  run(choose(able_ones));
  return true;
}

void runtime::run(CUstream_st& stream) {
  // Taken out of the queue, where a failure of the device would destroy it while it runs; its place is kept until it is done.
  operation next = std::move(stream.work.front());
  stream.work.front() = {.what = next.what, .done = next.done, .number = next.number};
  log.emplace_back(stream.number, next.what);
  ran_last_ = stream.number;
  std::string fault;
  if (next.on_host) run_on_host(stream, next);
  else if (next.run) {
    memory.open(next.reaches);
    fault = memory.guarded(next.run);
  }
  next.done->reached = true;
  next.done->time = static_cast<double>(++ran_);
  if (!stream.work.empty()) stream.work.pop_front();  // a failure took all there was
  if (!fault.empty()) fail(stream.device, cudaErrorIllegalAddress, std::string(next.what) + " touched " + fault);
  if (!stream.alive && stream.work.empty()) remove_stream(stream);
  changed.notify_all();
}

void runtime::run_on_host(CUstream_st& stream, const operation& next) {
  memory.close();
  stream.busy = true;
  auto& held = *this_thread().held;
  held.unlock();
  this_thread().in_host_function = true;
  next.run();
  this_thread().in_host_function = false;
  held.lock();
  stream.busy = false;
}

void runtime::go_on() {
  if (at == pace::device_ahead)
    while (step()) {
    }
  if (at == pace::between)
    for (auto steps = random() % 3; steps > 0; --steps) step();
}

void runtime::look() {
  if (at == pace::host_ahead && random() % 4 == 0) step();  // or whoever asks in a loop would do so for ever
}

void runtime::let_others_in() {
  if (waiting_for_lock == 0) return;
  memory.close();
  auto& held = *this_thread().held;
  held.unlock();
  for (int i = 0; i < 20 && waiting_for_lock > 0; ++i) std::this_thread::yield();
  held.lock();
}

cudaError_t runtime::wait(int device, const std::function<bool()>& until) {
  using clock = std::chrono::steady_clock;
  auto give_up = clock::now() + patience;
  auto seen = enqueued_ + ran_;
  const auto& state = devices[static_cast<std::size_t>(device)];
  while (state.failure == cudaSuccess && !until()) {
    if (!step()) {
      memory.close();
      changed.wait_for(*this_thread().held, std::chrono::milliseconds(5));
      if (seen != enqueued_ + ran_) {
        seen = enqueued_ + ran_;
        give_up = clock::now() + patience;
      } else if (clock::now() > give_up) {
        print_stuck();
        fail(device, cudaErrorLaunchTimeout, "a wait that can't end");
      }
    }
    let_others_in();
  }
  return state.failure;
}

std::vector<completed> runtime::pending(int device) const {
  std::vector<completed> all;
  for (const auto& stream : streams)
    if (stream->device == device && stream->last && !stream->last->reached) all.push_back(stream->last);
  return all;
}

cudaError_t runtime::wait_for(int device, std::vector<completed> all) {
  return wait(device, [&] { return std::all_of(all.begin(), all.end(), [](const completed& c) { return !c || c->reached; }); });
}

void runtime::fail(int device, cudaError_t error, const std::string& why) {
  std::fprintf(stderr, "cuda stand-in: device %d failed, %s: %s\n", device, cudaGetErrorName(error), why.c_str());
  devices[static_cast<std::size_t>(device)].failure = error;
  for (const auto& stream : streams)
    if (stream->device == device && !stream->busy) {
      for (auto& lost : stream->work) lost.done->reached = true;
      stream->work.clear();
    }
  changed.notify_all();
}

void runtime::print_stuck() const {
  std::fprintf(stderr, "cuda stand-in: nothing can run, and somebody waits. What is first on each stream:\n");
  for (const auto& stream : streams)
    if (!stream->work.empty()) {
      const operation& next = stream->work.front();
      const auto missing = std::count_if(next.after.begin(), next.after.end(), [](const completed& c) { return !c->reached; });
      std::fprintf(stderr, "  device %d, stream %u: %s, waits for %d others%s\n", stream->device, stream->number, next.what,
                   static_cast<int>(missing), missing == 0 ? " (its peers are not there)" : "");
    }
}

// --- capture
// ------------------------------------------------------------------------------------------------------------------------------

cudaError_t runtime::spoil(const std::shared_ptr<capture>& spoiled, cudaError_t error) {
  spoiled->valid = false;
  return error;
}

cudaError_t runtime::capture_into(CUstream_st& stream, operation work) {
  if (!stream.captured->valid) return cudaErrorStreamCaptureInvalidated;
  auto& nodes = stream.captured->nodes;
  nodes.push_back({std::move(work), stream.device, stream.tips});
  stream.tips = {nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t runtime::unsafe_now() {
  const thread_state& thread = this_thread();
  if (thread.mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (const auto& c : captures) {
    const bool own = c->thread == std::this_thread::get_id() && c->mode != cudaStreamCaptureModeRelaxed;
    const bool global = thread.mode == cudaStreamCaptureModeGlobal && c->mode == cudaStreamCaptureModeGlobal;
    if (own || global) return spoil(c, cudaErrorStreamCaptureUnsupported);
  }
  return cudaSuccess;
}

}  // namespace standin
